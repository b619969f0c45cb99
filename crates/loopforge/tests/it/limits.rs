//! Limits, interruptions, and going on after them (R5, LUP-09).

use std::sync::Arc;
use std::time::Duration;

use loopforge::Resume;
use loopforge_core::json::Json;
use loopforge_core::record::{About, Answer, Event, OutcomeSource, RunOutcome, RunStatus};
use loopforge_core::tool::{Code, ToolResult};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted};

const FOURTEEN: &str = "
loop: { max_steps: 10 }
inputs: { items: { value: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] } }
tools: { put: { builtin: put } }
subgoals:
  - id: all
    foreach: { in: inputs.items, as: item }
    steps: [{ call: put, with: { n: '${ item }' } }]
";

fn numbers(range: std::ops::RangeInclusive<u64>) -> Vec<Json> {
    range.map(Json::from).collect()
}

/// LUP-09
#[tokio::test]
async fn a_higher_limit_runs_only_the_rest() {
    let put = Scripted::write_echo();
    let bench = Bench::new(FOURTEEN).tool("put", &put);
    let stopped = bench.run().await;
    assert_eq!(stopped.report.status, RunStatus::Paused);
    assert_eq!(stopped.report.stopped.as_ref().unwrap().limit, "max_steps");
    assert_eq!(stopped.report.subgoals, [("all".to_owned(), "active")]);
    assert_eq!(put.called_with("n"), numbers(1..=10));

    // Without a higher limit nothing more runs.
    let still = bench.resume(stopped.report.run).await;
    assert_eq!((still.report.outcome, put.calls().len()), (None, 10));

    let raise = Resume { max_steps: Some(60), ..Resume::default() };
    let run = bench.engine().resume(stopped.report.run, raise).await.unwrap();
    let story = bench.drive(run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(put.called_with("n"), numbers(1..=14));
}

#[tokio::test]
async fn a_person_can_let_the_run_go_on_over_its_limit() {
    let put = Scripted::write_echo();
    let task = FOURTEEN.replace("max_steps: 10", "max_steps: 10, on_max_steps: ask");
    let bench = Bench::new(&task).tool("put", &put);
    let asked = bench.run().await;
    assert_eq!(asked.report.status, RunStatus::Waiting);
    assert_eq!(asked.report.questions[0].about, About::Limit);
    bench.answer(&asked, Answer::Continue).await;
    let story = bench.resume(asked.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(put.called_with("n"), numbers(1..=14));
}

#[tokio::test]
async fn no_step_starts_after_the_longest_duration() {
    let put = Scripted::write(|asked| async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        ToolResult::success(asked.arguments)
    });
    let bench = Bench::new(&FOURTEEN.replace("max_steps: 10", "max_duration: 50ms")).tool("put", &put);
    let stopped = bench.run().await;
    assert_eq!(stopped.report.stopped.as_ref().unwrap().limit, "max_duration");
    assert!((1..=3).contains(&put.calls().len()));

    let raise = Resume { max_duration: Some(Duration::from_secs(3600)), ..Resume::default() };
    let run = bench.engine().resume(stopped.report.run, raise).await.unwrap();
    assert_eq!(bench.drive(run).await.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(put.called_with("n"), numbers(1..=14));
}

const TWO: &str = "
tools: { slow: { builtin: slow }, next: { builtin: next } }
subgoals: [{ id: a, steps: [{ call: slow }, { call: next }] }]
";

/// A tool that says when it was called, and then waits for a sign.
fn gated(write: bool) -> (Scripted, Arc<Notify>, Arc<Notify>) {
    let (reached, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&reached), Arc::clone(&gate));
    let script = move |asked: crate::bench::Asked| {
        let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
        async move {
            if asked.number == 1 {
                tell.notify_one();
                wait.notified().await;
            }
            ToolResult::success(Json::Null)
        }
    };
    (if write { Scripted::write(script) } else { Scripted::read(script) }, reached, gate)
}

#[tokio::test]
async fn an_interruption_drops_reads_and_leaves_a_run_that_can_go_on() {
    let (slow, reached, _gate) = gated(false);
    let next = Scripted::echo();
    let bench = Bench::new(TWO).tool("slow", &slow).tool("next", &next);
    let run = bench.start().await.unwrap();
    let cancel = CancellationToken::new();
    let driving = tokio::spawn(run.drive(cancel.clone()));
    reached.notified().await;
    cancel.cancel();
    let report = driving.await.unwrap().unwrap();
    assert!(report.interrupted);
    assert_eq!((report.status, next.calls().len()), (RunStatus::Paused, 0));

    // At once: the lease was given up.
    let story = bench.resume(report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((slow.calls().len(), next.calls().len()), (2, 1));
}

#[tokio::test]
async fn an_interruption_waits_for_a_write_and_archives_what_came_of_it() {
    let (slow, reached, gate) = gated(true);
    let next = Scripted::echo();
    let bench = Bench::new(TWO).tool("slow", &slow).tool("next", &next);
    let run = bench.start().await.unwrap();
    let cancel = CancellationToken::new();
    let driving = tokio::spawn(run.drive(cancel.clone()));
    reached.notified().await;
    cancel.cancel();
    tokio::task::yield_now().await;
    assert!(!driving.is_finished());
    gate.notify_one();
    let report = driving.await.unwrap().unwrap();
    assert!(report.interrupted);

    let story = bench.resume(report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((slow.calls().len(), next.calls().len()), (1, 1));
    assert_eq!(story.finished()[0].source, OutcomeSource::Call);
    assert_eq!(story.count("action_unknown"), 0);
}

#[tokio::test]
async fn a_failure_can_be_put_to_a_person_who_tries_again_or_stops() {
    let task = "
tools: { get: { builtin: get } }
subgoals: [{ id: a, on_failure: ask, steps: [{ call: get }] }]
";
    let get = Scripted::read(|asked| async move {
        if asked.number == 1 { ToolResult::failure(Code::Permanent, "closed") } else { ToolResult::success(Json::Null) }
    });
    let bench = Bench::new(task).tool("get", &get);
    let asked = bench.run().await;
    assert_eq!(asked.report.questions[0].about, About::Failure);
    assert!(asked.report.questions[0].text.contains("closed"));
    bench.answer(&asked, Answer::Continue).await;
    assert_eq!(bench.resume(asked.report.run).await.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(get.calls().len(), 2);
}

/// LUP-06, R7
#[tokio::test]
async fn a_circle_is_reported_and_a_person_can_let_it_go_on() {
    // The same call with the same answer, for each of many items.
    let get = Scripted::read(|_| async { ToolResult::success("as ever".into()) });
    let task = "
inputs: { items: { value: [1, 2, 3, 4] } }
tools: { get: { builtin: get } }
subgoals:
  - id: a
    foreach: { in: inputs.items, as: item }
    steps: [{ call: get }]
hooks: [{ on: loop_exceeded, do: pause_and_alert }]
";
    let bench = Bench::new(task).tool("get", &get);
    let asked = bench.run().await;
    assert_eq!(asked.report.questions[0].about, About::Loop);
    assert_eq!(get.calls().len(), 3);
    let found = asked.records.iter().find_map(|record| match &record.event {
        Event::LoopFound(found) => Some((found.period, found.rounds, found.tools.clone())),
        _ => None,
    });
    assert_eq!(found, Some((1, 3, vec!["get".to_owned()])));
    bench.answer(&asked, Answer::Continue).await;
    let story = bench.resume(asked.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((get.calls().len(), story.count("loop_found")), (4, 1), "what was seen before the hint doesn't count");
}
