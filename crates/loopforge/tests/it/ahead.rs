//! Reads may run ahead of the archive. Nothing else does, and nothing is shown before it is archived.

use std::sync::{Arc, Mutex};

use loopforge::{EngineError, Report, Start};
use loopforge_core::id::Seq;
use loopforge_core::record::{Record, RunOutcome};
use loopforge_store::memory::MemoryStore;
use loopforge_store::testing::{Fault, Faulty};
use loopforge_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted, Story};

const READS: &str = "
inputs: { items: { value: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] } }
tools: { get: { builtin: get } }
subgoals:
  - id: all
    foreach: { in: inputs.items, as: item }
    steps: [{ call: get, with: { n: '${ item }' } }]
";

/// Appends that may be under way at once, each of one step here.
const UNDER_WAY: usize = 8;

type Shown = Arc<Mutex<Vec<Record>>>;

struct Ahead {
    bench: Bench,
    store: Arc<Faulty<MemoryStore>>,
    shown: Shown,
    driving: tokio::task::JoinHandle<Result<Report, EngineError>>,
}

impl Ahead {
    /// Starts a run on a store that holds its answers back.
    async fn begin(task: &str, tools: &[(&str, &Scripted)], faults: Vec<Fault>) -> Self {
        let store = Arc::new(Faulty::new(MemoryStore::new()));
        store.plan(faults);
        store.let_answers_out(0);
        let mut bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, task);
        for (name, tool) in tools {
            bench = bench.tool(name, tool);
        }
        let shown = Shown::default();
        let prepared = bench.prepared();
        let inputs = loopforge::inputs::read(&prepared.task, &prepared.base, "task.yaml", &[]).unwrap();
        let seen = Arc::clone(&shown);
        let watcher = Box::new(move |record: &Record| seen.lock().unwrap().push(record.clone()));
        let run = bench.engine().start(prepared, Start { inputs, watcher: Some(watcher) }).await.unwrap();
        let driving = tokio::spawn(run.drive(CancellationToken::new()));
        let ahead = Self { bench, store, shown, driving };
        ahead.settle().await;
        ahead
    }

    /// Lets the run go on until it waits for the store.
    async fn settle(&self) {
        // Everything of it is on this thread, so nothing goes on by itself when it has had its turns.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        assert!(!self.driving.is_finished());
    }

    fn shown(&self) -> Vec<Record> {
        self.shown.lock().unwrap().clone()
    }

    /// Lets the answers out, and waits for the end.
    async fn finish(self) -> Story {
        self.store.let_answers_out(u64::MAX);
        let report = self.driving.await.unwrap().unwrap();
        assert_eq!(report.outcome, Some(RunOutcome::Succeeded));
        let story = self.bench.story(report).await;
        assert_eq!(*self.shown.lock().unwrap(), story.records, "all is shown once, in order");
        story
    }
}

#[tokio::test]
async fn reads_run_ahead_as_far_as_may_be_and_nothing_is_shown_meanwhile() {
    let get = Scripted::echo();
    let ahead = Ahead::begin(READS, &[("get", &get)], Vec::new()).await;
    assert_eq!(get.calls().len(), UNDER_WAY);
    assert_eq!(ahead.shown().iter().map(|record| record.seq).collect::<Vec<_>>(), [Seq(1)]);
    ahead.finish().await;
    assert_eq!(get.called_with("n"), (1..=12).collect::<Vec<_>>(), "each is called once");
}

#[tokio::test]
async fn a_write_waits_until_everything_before_it_is_archived() {
    let task = "
tools: { get: { builtin: get }, put: { builtin: put } }
subgoals: [{ id: a, steps: [{ call: get, with: { n: 1 } }, { call: get, with: { n: 2 } }, { call: put, with: { n: 3 } }] }]
";
    let (get, put) = (Scripted::echo(), Scripted::write_echo());
    let ahead = Ahead::begin(task, &[("get", &get), ("put", &put)], Vec::new()).await;
    assert_eq!((get.calls().len(), put.calls().len()), (2, 0));
    let written = ahead.store.inner().records(ahead.bench.only_run().await, Seq(0), usize::MAX).await.unwrap();
    assert!(written.iter().any(|record| record.event.kind() == "action_started"), "its intent is on its way");
    ahead.finish().await;
    assert_eq!(put.calls().len(), 1);
}

#[tokio::test]
async fn a_read_waits_for_the_outcome_of_a_write_but_not_for_that_of_a_read() {
    let task = "
tools: { get: { builtin: get }, put: { builtin: put } }
subgoals: [{ id: a, steps: [{ call: put, with: { n: 1 } }, { call: get, with: { n: 2 } }, { call: get, with: { n: 3 } }] }]
";
    let (get, put) = (Scripted::echo(), Scripted::write_echo());
    let ahead = Ahead::begin(task, &[("get", &get), ("put", &put)], Vec::new()).await;
    ahead.store.let_answers_out(1);
    ahead.settle().await;
    assert_eq!((put.calls().len(), get.calls().len()), (1, 0), "its intent is archived, its outcome isn't");
    ahead.store.let_answers_out(2);
    ahead.settle().await;
    assert_eq!((put.calls().len(), get.calls().len()), (1, 2));
    ahead.finish().await;
}

#[tokio::test]
async fn a_notice_waits_for_the_archive_and_the_next_step_for_the_notice_to_be_made() {
    let task = format!("{READS}hooks: [{{ on: step_completed, every: 3, do: log }}]\n");
    let get = Scripted::echo();
    let ahead = Ahead::begin(&task, &[("get", &get)], Vec::new()).await;
    assert_eq!(get.calls().len(), 3);
    let story = ahead.finish().await;
    assert_eq!((get.calls().len(), story.count("hook_sent")), (12, 4));
}

#[tokio::test]
async fn what_failed_while_reads_ran_ahead_is_archived_in_its_order_once_the_store_heals() {
    let gone = || StoreError::Unavailable("gone".to_owned());
    for fault in [Fault::BeforeCommit(gone()), Fault::AfterCommit(gone())] {
        let get = Scripted::echo();
        // The run is made, two appends are written, the third fails: those behind it find a head that isn't there.
        let faults = vec![Fault::None, Fault::None, Fault::None, fault.clone()];
        let ahead = Ahead::begin(READS, &[("get", &get)], faults).await;
        assert_eq!(get.calls().len(), UNDER_WAY);
        let story = ahead.finish().await;
        assert_eq!(get.called_with("n"), (1..=12).collect::<Vec<_>>(), "{fault:?}");
        assert_eq!(story.count("step_evaluated"), 12, "{fault:?}");
    }
}

#[tokio::test]
async fn a_run_that_was_taken_over_while_reads_ran_ahead_ends_without_another_word() {
    let get = Scripted::echo();
    let Ahead { bench, store, shown, driving } = Ahead::begin(READS, &[("get", &get)], Vec::new()).await;
    let id = bench.only_run().await;
    let owner = store.run(id).await.unwrap().owner.unwrap();
    store.void_lease(id, &owner.id).await.unwrap();
    store.let_answers_out(u64::MAX);
    let error = driving.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::Fenced(run) if run == id), "{error}");
    // What had been archived before is shown; of what came later nothing is.
    let archived = store.records(id, Seq(0), usize::MAX).await.unwrap();
    assert_eq!(*shown.lock().unwrap(), archived);
    assert!(get.calls().len() <= 2 * UNDER_WAY);
}
