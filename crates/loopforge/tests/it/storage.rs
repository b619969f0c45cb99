//! A store that fails (STO-03): nothing is done that isn't archived, and nothing twice.

use std::sync::Arc;
use std::time::Duration;

use loopforge::{EngineError, Report};
use loopforge_core::json::Json;
use loopforge_core::record::{RunOutcome, RunStatus};
use loopforge_core::time::Timestamp;
use loopforge_core::tool::ToolResult;
use loopforge_store::memory::MemoryStore;
use loopforge_store::postgres::{self, PostgresStore};
use loopforge_store::testing::{Fault, Faulty, ManualClock};
use loopforge_store::{Store, StoreError};
use loopforge_testing::postgres::place;
use loopforge_tools::EffectStatus;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted};

const WRITES: &str = "
loop: { checkpoint_interval: 2 }
inputs: { items: { value: [1, 2, 3, 4] } }
tools: { put: { builtin: put } }
subgoals:
  - id: all
    foreach: { in: inputs.items, as: item, parallel: 2 }
    steps: [{ call: put, with: { n: '${ item }' }, save: 'got[string(item)]' }]
evaluator: { criteria: ['size(state.got) == 4'] }
";

/// More writing calls than a run of `WRITES` makes.
const WRITING_CALLS: usize = 16;

/// A write that can be asked.
fn askable() -> Scripted {
    let tool = Scripted::write_echo();
    let log = tool.clone();
    tool.with_status(move |arguments| {
        if log.called_with("n").contains(&arguments["n"]) {
            EffectStatus::Happened(arguments.clone())
        } else {
            EffectStatus::NotHappened
        }
    })
}

fn sorted(mut values: Vec<Json>) -> Vec<Json> {
    values.sort_by_key(Json::as_u64);
    values
}

async fn attempt(bench: &Bench) -> Result<Report, EngineError> {
    let run = match bench.store.runs(1).await.unwrap().first() {
        None => bench.start().await?,
        Some(run) => bench.engine().resume(run.id, loopforge::Resume::default()).await?,
    };
    run.drive(CancellationToken::new()).await
}

#[tokio::test]
async fn whatever_append_fails_each_effect_is_made_once_and_the_run_ends_after_the_repair() {
    let broken = || StoreError::Full("no room".to_owned());
    for position in 0..WRITING_CALLS {
        for fault in [Fault::BeforeCommit(broken()), Fault::AfterCommit(StoreError::Unavailable("gone".to_owned()))] {
            let clock = ManualClock::new(Timestamp(1));
            each_effect_is_made_once(MemoryStore::with_clock(clock.clock()), &clock, &fault, position).await;
        }
    }
}

/// The same on PostgreSQL, at some of the places.
#[tokio::test]
async fn whatever_append_fails_in_postgres_each_effect_is_made_once() {
    for position in [0, 1, 2, 5, 9] {
        let clock = ManualClock::new(Timestamp(1));
        let mut options = postgres::Options::default();
        options.clock = Some(clock.clock());
        let store = PostgresStore::new_with(&place(), options).unwrap();
        let fault = Fault::AfterCommit(StoreError::Unavailable("gone".to_owned()));
        each_effect_is_made_once(store, &clock, &fault, position).await;
    }
}

async fn each_effect_is_made_once(store: impl Store + 'static, clock: &ManualClock, fault: &Fault, position: usize) {
    let store = Arc::new(Faulty::new(store));
    store.plan(std::iter::repeat_n(Fault::None, position).chain([fault.clone()]));
    let put = askable();
    let mut bench = Bench::on(Arc::clone(&store) as _, WRITES).tool("put", &put);
    bench.patience = Duration::ZERO;
    let mut report = attempt(&bench).await;
    if report.is_err() {
        clock.advance(Duration::from_secs(61));
        report = attempt(&bench).await;
    }
    match report {
        Ok(report) => assert_eq!(report.outcome, Some(RunOutcome::Succeeded), "{fault:?} at {position}"),
        // Only the word of the last append was lost.
        Err(EngineError::Ended { status: RunStatus::Succeeded, .. }) => {}
        Err(error) => panic!("{fault:?} at {position}: {error}"),
    }
    assert_eq!(sorted(put.called_with("n")), [1, 2, 3, 4], "{fault:?} at {position}");
    assert_eq!(bench.store.check().await.unwrap(), []);
}

#[tokio::test]
async fn while_the_store_fails_no_call_is_made_and_then_the_run_goes_on() {
    let full = || Fault::BeforeCommit(StoreError::Full("no room".to_owned()));
    let store = Arc::new(Faulty::new(MemoryStore::new()));
    // The run is made; then the first intent can't be archived, twice.
    store.plan([Fault::None, full(), full()]);
    let put = askable();
    let bench = Bench::on(Arc::clone(&store) as _, WRITES).tool("put", &put);
    let began = std::time::Instant::now();
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(sorted(put.called_with("n")), [1, 2, 3, 4]);
    let first_call = put.calls()[0].at - began;
    assert!(first_call >= Duration::from_millis(1000), "two waits, and no call before: {first_call:?}");
}

#[tokio::test]
async fn a_store_that_stays_broken_ends_the_work_with_the_right_cause_and_without_a_call() {
    let store = Arc::new(Faulty::new(MemoryStore::new()));
    let cause = StoreError::ReadOnly("mounted read-only".to_owned());
    store.plan([Fault::None, Fault::BeforeCommit(cause.clone())]);
    let put = Scripted::write(|_| async { ToolResult::success(Json::Null) });
    let mut bench = Bench::on(Arc::clone(&store) as _, WRITES).tool("put", &put);
    bench.patience = Duration::ZERO;
    let error = attempt(&bench).await.unwrap_err();
    assert!(matches!(&error, EngineError::Store(found) if *found == cause), "{error}");
    assert_eq!(put.calls().len(), 0);
    assert_eq!(bench.store.run(bench.only_run().await).await.unwrap().head.0, 1);
}
