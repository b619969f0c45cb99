//! Subgoals that need others (GRF).

use std::sync::Arc;
use std::time::Duration;

use loopforge::Resume;
use loopforge_core::record::{Event, RunOutcome, SubgoalOutcome};
use loopforge_core::time::Timestamp;
use loopforge_core::tool::{Code, ToolResult};
use loopforge_store::memory::MemoryStore;
use loopforge_store::testing::ManualClock;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted};

const CHAIN: &str = "
tools: { get: { builtin: get } }
subgoals:
  - { id: a, steps: [{ call: get, with: { of: a } }] }
  - { id: b, needs: [a], steps: [{ call: get, with: { of: b } }] }
  - { id: c, needs: [b], steps: [{ call: get, with: { of: c } }] }
  - { id: beside, steps: [{ call: get, with: { of: beside } }] }
  - { id: d, needs: [b, beside], steps: [{ call: get, with: { of: d } }] }
";

/// GRF-01
#[tokio::test]
async fn what_needs_a_failed_subgoal_is_blocked_with_the_cause_and_the_run_ends() {
    let get = Scripted::read(|asked| async move {
        if asked.arguments["of"] == "a" {
            return ToolResult::failure(Code::Permanent, "broken");
        }
        ToolResult::success(asked.arguments)
    });
    let story = Bench::new(CHAIN).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(story.subgoal("a").0, SubgoalOutcome::Failed);
    for (id, cause) in [("b", "`a`"), ("c", "`b`"), ("d", "`b`")] {
        let (outcome, reason) = story.subgoal(id);
        assert_eq!(outcome, SubgoalOutcome::Blocked, "{id}");
        assert!(reason.contains(cause), "{id}: {reason}");
    }
    assert_eq!(story.subgoal("beside").0, SubgoalOutcome::Done, "what doesn't need it goes on");
}

/// GRF-01
#[tokio::test]
async fn what_needs_a_skipped_subgoal_runs() {
    let get = Scripted::echo();
    let task = CHAIN.replace("{ id: a, steps", "{ id: a, when: 'false', steps");
    let story = Bench::new(&task).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.subgoal("a").0, SubgoalOutcome::Skipped);
    assert_eq!(story.subgoal("c").0, SubgoalOutcome::Done);
    assert!(!get.called_with("of").contains(&json!("a")));
    assert!(story.end().unverified.iter().any(|line| line.contains("`a` was skipped")));
}

/// GRF-04
#[tokio::test]
async fn a_join_runs_once_with_both_results_also_after_a_crash_in_between() {
    let clock = ManualClock::new(Timestamp(1));
    let store = MemoryStore::with_clock(clock.clock());
    let (hangs, reached) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let tell = Arc::clone(&reached);
    let (left, join) = (Scripted::echo(), Scripted::write_echo());
    // The first time it hangs until its process is gone.
    let right = Scripted::read(move |asked| {
        let (hangs, tell) = (Arc::clone(&hangs), Arc::clone(&tell));
        async move {
            if asked.number == 1 {
                tell.notify_one();
                hangs.notified().await;
            }
            ToolResult::success(asked.arguments)
        }
    });
    let task = "
tools: { left: { builtin: left }, right: { builtin: right }, join: { builtin: join } }
subgoals:
  - { id: one, steps: [{ call: left, with: { n: 1 }, save: one }] }
  - { id: two, steps: [{ call: right, with: { n: 2 }, save: two }] }
  - { id: both, needs: [one, two], steps: [{ call: join, with: { sum: '${ state.one.n + state.two.n }' }, save: sum }] }
";
    let bench = Bench::on(Arc::new(store), task).tool("left", &left).tool("right", &right).tool("join", &join);
    let run = bench.start().await.unwrap();
    let id = run.id();
    let driving = tokio::spawn(run.drive(CancellationToken::new()));
    reached.notified().await;
    // A crash: everything in memory is gone, the lease stays.
    driving.abort();
    let _ = driving.await;
    assert!(bench.engine().resume(id, Resume::default()).await.is_err(), "the lease is live");
    clock.advance(Duration::from_secs(61));

    let story = bench.resume(id).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(join.called_with("sum"), [3]);
    let joined = story
        .records
        .iter()
        .filter(|record| matches!(&record.event, Event::SubgoalStarted(started) if started.subgoal == "both"));
    assert_eq!(joined.count(), 1);
}

#[tokio::test]
async fn a_rule_that_does_not_hold_at_the_end_of_a_subgoal_fails_it() {
    let get = Scripted::echo();
    let task = "
tools: { get: { builtin: get } }
subgoals: [{ id: a, done_when: size(state.got) == 2, steps: [{ call: get, with: { n: 1 }, save: got }] }]
";
    let story = Bench::new(task).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert!(story.subgoal("a").1.contains("does not hold"));
}

/// R23: the steps' end alone doesn't make a success.
#[tokio::test]
async fn a_criterion_that_does_not_hold_fails_the_run_and_is_named() {
    let get = Scripted::echo();
    let task = "
tools: { get: { builtin: get } }
subgoals: [{ id: a, steps: [{ call: get, save: got }] }]
evaluator: { criteria: ['size(state.got) == 0', 'size(state.got) == 1'] }
";
    let story = Bench::new(task).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    let checks: Vec<bool> = story.end().checks.iter().map(|check| check.holds).collect();
    assert_eq!(checks, [true, false]);
    assert!(story.end().reason.contains("size(state.got) == 1"));
}
