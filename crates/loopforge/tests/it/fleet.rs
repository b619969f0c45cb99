//! Workers that share the runs of a store, on every store that can be shared.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use loopforge::Resume;
use loopforge::worker::{Habits, News};
use loopforge_core::id::RunId;
use loopforge_core::json::Json;
use loopforge_core::record::{RunOutcome, RunStatus};
use loopforge_core::tool::ToolResult;
use loopforge_store::Store;
use loopforge_store::dispatch::{Dispatch, Hint, InProcess, WithPolling};
use loopforge_store::memory::MemoryStore;
use loopforge_store::postgres::PostgresStore;
use loopforge_store::sqlite::SqliteStore;
use loopforge_testing::postgres::place;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted};

const TWO_WRITES: &str = "
inputs: { items: { value: [1, 2] } }
tools: { put: { builtin: put } }
subgoals:
  - id: all
    foreach: { in: inputs.items, as: item }
    steps: [{ call: put, with: { n: '${ item }' }, save: 'got[string(item)]' }]
evaluator: { criteria: ['size(state.got) == 2'] }
";

const UNTIL_IDLE: Habits = Habits { parallel: 4, until_idle: true };

/// What becomes of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    Drop,
    Double,
    Delay,
    Reorder,
}

/// A dispatch that lies in every way, by turns.
#[derive(Debug, Default)]
struct Liar {
    hints: InProcess,
    told: AtomicU64,
    kept_back: Mutex<Vec<RunId>>,
}

impl Liar {
    fn next_lie(&self) -> Lie {
        const LIES: [Lie; 4] = [Lie::Drop, Lie::Double, Lie::Delay, Lie::Reorder];
        LIES[usize::try_from(self.told.fetch_add(1, Ordering::Relaxed)).unwrap() % LIES.len()]
    }
}

#[async_trait]
impl Dispatch for Liar {
    async fn wake(&self, run: RunId) {
        match self.next_lie() {
            Lie::Drop => {}
            Lie::Double => {
                self.hints.wake(run).await;
                self.hints.wake(run).await;
            }
            Lie::Delay => self.kept_back.lock().unwrap().push(run),
            Lie::Reorder => {
                self.hints.wake(run).await;
                let late: Vec<_> = std::mem::take(&mut *self.kept_back.lock().unwrap());
                for run in late {
                    self.hints.wake(run).await;
                }
            }
        }
    }

    async fn next(&self) -> Hint {
        // Also hints about nothing, and about runs that there aren't.
        match self.next_lie() {
            Lie::Drop => Hint::Run(RunId(uuid::Uuid::nil())),
            Lie::Double => Hint::LookYourself,
            Lie::Delay | Lie::Reorder => self.hints.next().await,
        }
    }
}

/// However hints lie, every run ends, with each of its effects once.
async fn all_runs_end_right(store: Arc<dyn Store>) {
    const RUNS: usize = 24;
    let put = Scripted::write_echo();
    let bench = Bench::on(store, TWO_WRITES).tool("put", &put);
    let liar = Arc::new(WithPolling::new(Liar::default(), Duration::from_millis(40)));
    let engine = || bench.shared_engine(Duration::from_secs(60)).with_dispatch(Arc::clone(&liar) as _);
    let (prepared, submitter) = (bench.prepared(), engine());
    let inputs = || loopforge::inputs::read(&prepared.task, std::path::Path::new("/"), "task.yaml", &[]).unwrap();
    let mut runs = vec![submitter.queue(&prepared, inputs()).await.unwrap()];
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let engine = engine();
            tokio::spawn(async move { engine.serve(&UNTIL_IDLE, CancellationToken::new(), Arc::new(|_| {})).await })
        })
        .collect();
    while runs.len() < RUNS {
        runs.push(submitter.queue(&prepared, inputs()).await.unwrap());
    }
    for worker in workers {
        worker.await.unwrap().unwrap();
    }
    // One that found nothing to do may have ended before the last was queued.
    engine().serve(&UNTIL_IDLE, CancellationToken::new(), Arc::new(|_| {})).await.unwrap();
    for run in &runs {
        assert_eq!(bench.store.run(*run).await.unwrap().status, RunStatus::Succeeded);
        assert_eq!(bench.store.run(*run).await.unwrap().owner, None);
    }
    let tokens: HashSet<_> = put.calls().into_iter().map(|call| call.token.unwrap()).collect();
    assert_eq!((put.calls().len(), tokens.len()), (RUNS * 2, RUNS * 2), "each effect once");
    assert_eq!(bench.store.check().await.unwrap(), []);
}

#[tokio::test]
async fn runs_in_memory_end_right_whatever_hints_say() {
    all_runs_end_right(Arc::new(MemoryStore::new())).await;
}

#[tokio::test]
async fn runs_in_sqlite_end_right_whatever_hints_say() {
    let folder = TempDir::new().unwrap();
    all_runs_end_right(Arc::new(SqliteStore::open(&folder.path().join("store.db")).unwrap())).await;
}

#[tokio::test]
async fn runs_in_postgres_end_right_whatever_hints_say() {
    all_runs_end_right(Arc::new(PostgresStore::new(&place()).unwrap())).await;
}

/// An interrupted worker leaves its run to the next one, which goes on from there.
#[tokio::test]
async fn an_interrupted_worker_leaves_its_runs_to_others() {
    const SLOW: &str = "
tools: { slow: { builtin: slow }, put: { builtin: put } }
subgoals: [{ id: a, steps: [{ call: put }, { call: slow }] }]
";
    let (put, reached) = (Scripted::write_echo(), Arc::new(Notify::new()));
    let tell = Arc::clone(&reached);
    let slow = Scripted::read(move |asked| {
        let tell = Arc::clone(&tell);
        async move {
            if asked.number == 1 {
                tell.notify_one();
                std::future::pending::<()>().await;
            }
            ToolResult::success(Json::Null)
        }
    });
    let store = Arc::new(PostgresStore::new(&place()).unwrap());
    let bench = Bench::on(store, SLOW).tool("put", &put).tool("slow", &slow);
    let engine = bench.shared_engine(Duration::from_secs(60));
    let run = engine.queue(&bench.prepared(), Default::default()).await.unwrap();
    let cancel = CancellationToken::new();
    let (worker, stop) = (engine.clone(), cancel.clone());
    let working = tokio::spawn(async move { worker.serve(&UNTIL_IDLE, stop, Arc::new(|_| {})).await });
    reached.notified().await;
    cancel.cancel();
    working.await.unwrap().unwrap();
    let left = bench.store.run(run).await.unwrap();
    assert_eq!((left.status, left.owner), (RunStatus::Running, None), "it is not paused, and nobody has it");

    let next = bench.shared_engine(Duration::from_secs(60));
    next.serve(&UNTIL_IDLE, CancellationToken::new(), Arc::new(|_| {})).await.unwrap();
    assert_eq!(bench.store.run(run).await.unwrap().status, RunStatus::Succeeded);
    assert_eq!((put.calls().len(), slow.calls().len()), (1, 2));
}

/// A run that waits is a row: its worker gives it up, and whoever looks when its time has come takes it up.
#[tokio::test]
async fn a_run_that_waits_is_held_by_nobody() {
    const WAITS: &str = "
tools: { put: { builtin: put } }
subgoals: [{ id: a, steps: [{ call: put }, { wait: 500ms }, { call: put }] }]
";
    let put = Scripted::write_echo();
    let store = Arc::new(PostgresStore::new(&place()).unwrap());
    let bench = Bench::on(store, WAITS).tool("put", &put);
    let engine = bench.shared_engine(Duration::ZERO);
    let run = engine.queue(&bench.prepared(), Default::default()).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let listener = Arc::new(move |news| {
        if let News::Left(report) = news {
            told.lock().unwrap().push((report.status, report.outcome));
        }
    });
    engine.serve(&UNTIL_IDLE, CancellationToken::new(), listener).await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, [(RunStatus::Waiting, None), (RunStatus::Succeeded, Some(RunOutcome::Succeeded))]);
    assert_eq!(bench.store.run(run).await.unwrap().status, RunStatus::Succeeded);
    assert_eq!(put.calls().len(), 2);
}

/// A run that can't be taken up is told, given up, and doesn't keep the others from their turn.
#[tokio::test]
async fn a_run_that_cannot_be_taken_up_is_left_alone() {
    let put = Scripted::write_echo();
    let store = Arc::new(PostgresStore::new(&place()).unwrap());
    let with_tool = Bench::on(Arc::clone(&store) as _, TWO_WRITES).tool("put", &put);
    // This worker doesn't know the tool of the first run.
    let without = Bench::on(store, "subgoals: [{ id: a, steps: [{ set: { x: '1' } }] }]\n");
    let inputs = loopforge::inputs::read(&with_tool.prepared().task, std::path::Path::new("/"), "t", &[]).unwrap();
    let broken = with_tool.shared_engine(Duration::ZERO).queue(&with_tool.prepared(), inputs).await.unwrap();
    let engine = without.shared_engine(Duration::ZERO);
    let fine = engine.queue(&without.prepared(), Default::default()).await.unwrap();
    let served = engine.serve(&UNTIL_IDLE, CancellationToken::new(), Arc::new(|_| {})).await.unwrap();
    assert!(served.failed >= 1, "{served:?}");
    assert_eq!(without.store.run(fine).await.unwrap().status, RunStatus::Succeeded);
    let left = without.store.run(broken).await.unwrap();
    assert_eq!((left.status, left.owner), (RunStatus::Queued, None), "others may still take it up");
    with_tool.resume(broken).await;
    assert_eq!(with_tool.store.run(broken).await.unwrap().status, RunStatus::Succeeded);
}

/// What a worker does on PostgreSQL is what anybody does: held by one, resumed by another once it is free.
#[tokio::test]
async fn a_run_in_postgres_is_held_by_one_and_goes_on_with_another() {
    let url = place();
    let put = Scripted::write_echo();
    let bench = || Bench::on(Arc::new(PostgresStore::new(&url).unwrap()), TWO_WRITES).tool("put", &put);
    let (one, other) = (bench(), bench());
    let run = one.start().await.unwrap();
    let id = run.id();
    let held = other.engine().resume(id, Resume::default()).await.map(|_| ()).unwrap_err();
    assert!(
        matches!(held, loopforge::EngineError::Store(loopforge_store::StoreError::Held { run, .. }) if run == id),
        "{held}"
    );
    let cancel = CancellationToken::new();
    cancel.cancel();
    let report = run.drive(cancel).await.unwrap();
    assert!(report.interrupted);
    let story = other.resume(id).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(put.calls().len(), 2);
}
