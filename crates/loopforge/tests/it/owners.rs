//! One owner at a time (R45).

use std::sync::Arc;
use std::time::Duration;

use loopforge::{EngineError, Resume};
use loopforge_core::json::Json;
use loopforge_core::record::RunOutcome;
use loopforge_core::time::Timestamp;
use loopforge_core::tool::ToolResult;
use loopforge_store::StoreError;
use loopforge_store::memory::MemoryStore;
use loopforge_store::sqlite::SqliteStore;
use loopforge_store::testing::ManualClock;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted};

const TWO: &str = "
tools: { slow: { builtin: slow }, next: { builtin: next } }
subgoals: [{ id: a, steps: [{ call: slow }, { call: next }] }]
";

struct Gate {
    tool: Scripted,
    reached: Arc<Notify>,
    open: Arc<Notify>,
}

/// A read whose first call waits for a sign.
fn gate() -> Gate {
    let (reached, open) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&reached), Arc::clone(&open));
    let tool = Scripted::read(move |asked| {
        let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
        async move {
            if asked.number == 1 {
                tell.notify_one();
                wait.notified().await;
            }
            ToolResult::success(Json::Null)
        }
    });
    Gate { tool, reached, open }
}

#[tokio::test]
async fn a_run_that_somebody_works_on_is_held() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let Gate { tool: slow, reached, open } = gate();
    let next = Scripted::echo();
    let bench = |store| Bench::on(Arc::new(store), TWO).tool("slow", &slow).tool("next", &next);
    let one = bench(SqliteStore::open(&path).unwrap());
    let other = bench(SqliteStore::open(&path).unwrap());

    let run = one.start().await.unwrap();
    let id = run.id();
    let driving = tokio::spawn(run.drive(CancellationToken::new()));
    reached.notified().await;
    let held = other.engine().resume(id, Resume::default()).await.map(|_| ()).unwrap_err();
    assert!(matches!(held, EngineError::Store(StoreError::Held { run, .. }) if run == id), "{held}");
    assert_eq!(slow.calls().len(), 1);
    open.notify_one();
    assert_eq!(driving.await.unwrap().unwrap().outcome, Some(RunOutcome::Succeeded));

    let ended = other.engine().resume(id, Resume::default()).await.map(|_| ()).unwrap_err();
    assert!(matches!(ended, EngineError::Ended { .. }), "{ended}");
}

#[tokio::test]
async fn an_owner_whose_run_was_taken_over_stops_and_does_nothing_more() {
    let clock = ManualClock::new(Timestamp(1));
    let store = MemoryStore::with_clock(clock.clock());
    let Gate { tool: slow, reached, open } = gate();
    let (next_of_first, next_of_second) = (Scripted::write_echo(), Scripted::write_echo());
    let bench = |next: &Scripted| Bench::on(Arc::new(store.clone()), TWO).tool("slow", &slow).tool("next", next);
    let first = bench(&next_of_first);
    let run = first.start().await.unwrap();
    let id = run.id();
    let driving = tokio::spawn(run.drive(CancellationToken::new()));
    reached.notified().await;

    // It was asleep for longer than its lease.
    clock.advance(Duration::from_secs(61));
    let story = bench(&next_of_second).resume(id).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    open.notify_one();
    let fenced = driving.await.unwrap().unwrap_err();
    assert!(matches!(fenced, EngineError::Fenced(run) if run == id), "{fenced}");
    assert_eq!((next_of_first.calls().len(), next_of_second.calls().len()), (0, 1));
    let records = first.store.records(id, loopforge_core::id::Seq(0), usize::MAX).await.unwrap();
    assert_eq!(records, story.records, "it wrote nothing more");
}

/// A process that was frozen for longer than its lease begins nothing when it goes on, not even a read, which has no intent that could be
/// refused: it finds out first whose the run is. What it does first then is a matter of chance, so it is tried several times.
#[tokio::test]
async fn an_owner_that_was_frozen_begins_no_call() {
    const TWO_IN_ONE_STEP: &str = "
inputs: { items: { value: [1] } }
tools: { slow: { builtin: slow }, next: { builtin: next } }
subgoals: [{ id: a, foreach: { in: inputs.items, as: item }, steps: [{ call: slow }, { call: next }] }]
";
    for _ in 0..8 {
        let clock = ManualClock::new(Timestamp(1));
        let store = MemoryStore::with_clock(clock.clock());
        let Gate { tool: slow, reached, open } = gate();
        let (next_of_first, next_of_second) = (Scripted::echo(), Scripted::echo());
        let bench = |next: &Scripted| {
            Bench::on(Arc::new(store.clone()), TWO_IN_ONE_STEP).tool("slow", &slow).tool("next", next)
        };
        let mut first = bench(&next_of_first);
        first.lease_ttl = Duration::from_millis(200);
        let run = first.start().await.unwrap();
        let id = run.id();
        let driving = tokio::spawn(run.drive(CancellationToken::new()));
        reached.notified().await;
        clock.advance(Duration::from_secs(61));
        let story = bench(&next_of_second).resume(id).await;
        assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
        // The driver's only thread stands still: that is what being frozen is.
        open.notify_one();
        std::thread::sleep(first.lease_ttl);
        let fenced = driving.await.unwrap().unwrap_err();
        assert!(matches!(fenced, EngineError::Fenced(run) if run == id), "{fenced}");
        assert_eq!((next_of_first.calls().len(), next_of_second.calls().len()), (0, 1));
    }
}
