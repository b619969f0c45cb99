//! Effects are made once (R40 to R42).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loopforge_core::id::StepNo;
use loopforge_core::json::Json;
use loopforge_core::record::{Answer, OutcomeSource, RunOutcome, RunStatus};
use loopforge_core::tool::{Code, ToolResult};
use loopforge_store::EffectState;
use loopforge_tools::EffectStatus;
use serde_json::json;

use crate::bench::{Bench, Scripted};

const ONE_WRITE: &str = "
tools: { put: { builtin: put, timeout: 50ms, retry: { max_attempts: 3, backoff: [1ms] } } }
subgoals: [{ id: a, steps: [{ call: put, with: { n: 1 }, save: done }] }]
";

/// A write that loses its first answer.
fn loses_first_answer() -> Scripted {
    Scripted::write(|asked| async move {
        match asked.number {
            1 => ToolResult::failure(Code::Timeout, "no answer"),
            _ => ToolResult::success("done".into()),
        }
    })
}

/// IDM-02
#[tokio::test]
async fn a_timeout_of_a_write_is_never_taken_for_did_not_happen() {
    let put = loses_first_answer();
    let bench = Bench::new(ONE_WRITE).tool("put", &put);
    let story = bench.run().await;
    assert_eq!(story.report.status, RunStatus::Waiting);
    assert_eq!(story.count("action_unknown"), 1);
    assert_eq!(put.calls().len(), 1, "not repeated by itself");
    assert!(story.step_of_question().is_some());
    let effects = bench.store.effects(story.report.run).await.unwrap();
    assert_eq!(effects[0].state, EffectState::Unknown);
}

#[tokio::test]
async fn a_person_says_that_it_happened_and_it_is_not_made_again() {
    let put = loses_first_answer();
    let bench = Bench::new(ONE_WRITE).tool("put", &put);
    let asked = bench.run().await;
    bench.answer(&asked, Answer::Happened).await;
    let story = bench.resume(asked.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(put.calls().len(), 1);
    assert_eq!(story.finished()[0].source, OutcomeSource::Person);
    assert_eq!(bench.store.effects(story.report.run).await.unwrap()[0].state, EffectState::Confirmed);
}

#[tokio::test]
async fn a_person_says_that_it_did_not_happen_and_it_is_made_with_the_same_token() {
    let put = loses_first_answer();
    let bench = Bench::new(ONE_WRITE).tool("put", &put);
    let asked = bench.run().await;
    bench.answer(&asked, Answer::Not).await;
    let story = bench.resume(asked.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(bench.state(story.report.run, "done").await, "done");
    let calls = put.calls();
    assert_eq!(calls.len(), 2);
    assert!(calls[0].token.is_some());
    assert_eq!(calls[0].token, calls[1].token);
}

#[tokio::test]
async fn a_person_stops_the_run_and_the_effect_stays_in_the_list() {
    let put = loses_first_answer();
    let bench = Bench::new(ONE_WRITE).tool("put", &put);
    let asked = bench.run().await;
    bench.answer(&asked, Answer::Abort).await;
    let run = asked.report.run;
    assert_eq!(bench.store.run(run).await.unwrap().status, RunStatus::Cancelled, "it ends at once");
    assert_eq!(put.calls().len(), 1);
    assert_eq!(bench.store.effects(run).await.unwrap()[0].state, EffectState::Unknown);
    assert!(
        bench.engine().answer(run, Some(StepNo(1)), Answer::Happened, "a person").await.is_err(),
        "nothing is open"
    );
}

/// IDM-02
#[tokio::test]
async fn a_late_answer_completes_the_same_call() {
    // It ignores its limit of 50 ms, and the half second that it has beyond that.
    let put = Scripted::write(|_| async {
        tokio::time::sleep(Duration::from_millis(800)).await;
        ToolResult::success("late".into())
    });
    let bench = Bench::new(ONE_WRITE).tool("put", &put);
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(put.calls().len(), 1);
    assert_eq!(story.count("action_unknown"), 1);
    assert_eq!(story.count("question_asked"), 0);
    assert_eq!(story.finished()[0].source, OutcomeSource::LateAnswer);
    assert_eq!(bench.state(story.report.run, "done").await, "late");
}

#[tokio::test]
async fn the_status_query_decides_where_the_tool_has_one() {
    for (status, calls, source) in [
        (EffectStatus::Happened("as asked".into()), 1, OutcomeSource::StatusQuery),
        (EffectStatus::NotHappened, 2, OutcomeSource::Call),
    ] {
        let answer = status.clone();
        let put = loses_first_answer().with_status(move |_| answer.clone());
        let bench = Bench::new(ONE_WRITE).tool("put", &put);
        let story = bench.run().await;
        assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{status:?}");
        assert_eq!(put.calls().len(), calls, "{status:?}");
        assert_eq!(story.finished()[0].source, source, "{status:?}");
        assert_eq!(story.count("question_asked"), 0);
    }
}

#[tokio::test]
async fn another_tool_of_the_task_can_be_the_status_query() {
    let put = loses_first_answer();
    let find = Scripted::read(|asked| async move {
        assert_eq!(asked.arguments["n"], 1);
        assert!(asked.arguments["step_token"].is_string());
        ToolResult::success(json!({ "happened": true, "result": "found" }))
    });
    let task = ONE_WRITE
        .replace("builtin: put,", "builtin: put, status: find,")
        .replace("tools: {", "tools: { find: { builtin: find },");
    let bench = Bench::new(&task).tool("put", &put).tool("find", &find);
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((put.calls().len(), find.calls().len()), (1, 1));
    assert_eq!(bench.state(story.report.run, "done").await, "found");
}

#[tokio::test]
async fn an_idempotent_write_is_repeated_with_its_token() {
    let put = loses_first_answer();
    let task = ONE_WRITE.replace("builtin: put,", "builtin: put, idempotent: true,");
    let story = Bench::new(&task).tool("put", &put).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    let calls = put.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].token, calls[1].token);
}

/// It may have happened already: whether it should is no question any more.
#[tokio::test]
async fn a_repetition_is_not_held_up_by_a_check_that_the_first_try_passed() {
    let put = Scripted::write(|asked| async move {
        // Meanwhile the other subgoal ends, and the precondition with it.
        tokio::time::sleep(Duration::from_millis(300)).await;
        match asked.number {
            1 => ToolResult::failure(Code::Unknown, "the line broke"),
            _ => ToolResult::success(Json::Null),
        }
    });
    let task = "
tools: { put: { builtin: put, idempotent: true, requires: '!subgoals.other.done' } }
subgoals: [{ id: a, steps: [{ call: put }] }, { id: other, steps: [{ wait: 20ms }] }]
";
    let story = Bench::new(task).tool("put", &put).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((put.calls().len(), story.refused().len()), (2, 0));
}

#[tokio::test]
async fn a_write_that_never_reached_its_target_is_simply_tried_again() {
    let put = Scripted::write(|asked| async move {
        match asked.number {
            1 => ToolResult::failure(Code::Unavailable, "no connection").not_sent(),
            _ => ToolResult::success(Json::Null),
        }
    });
    let story = Bench::new(ONE_WRITE).tool("put", &put).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((put.calls().len(), story.count("action_unknown")), (2, 0));
}

#[tokio::test]
async fn a_panic_in_a_write_leaves_its_effect_unknown() {
    let put = Scripted::write(|_| async { panic!("a bug in a tool") });
    let story = Bench::new(ONE_WRITE).tool("put", &put).run().await;
    assert_eq!(story.report.status, RunStatus::Waiting);
    assert_eq!(put.calls().len(), 1);
}

/// IDM-03
#[tokio::test]
async fn tokens_differ_between_actions_also_of_equal_arguments() {
    let put = Scripted::write_echo();
    let task = "
tools: { put: { builtin: put } }
subgoals: [{ id: a, steps: [{ call: put, with: { n: 1 } }, { call: put, with: { n: 1 } }] }]
";
    let story = Bench::new(task).tool("put", &put).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    let calls = put.calls();
    assert_eq!(calls.len(), 2, "two deliberate sends are two effects");
    assert_ne!(calls[0].token, calls[1].token);
}

const KEYED: &str = "
inputs: { orders: { value: [{ id: A, note: 1 }, { id: B, note: 2 }, { id: A, note: 3 }] } }
tools: { refund: { builtin: refund, effect_key: [order] } }
subgoals:
  - id: a
    foreach: { in: inputs.orders, as: item, parallel: 3 }
    steps: [{ call: refund, with: { order: '${ item.id }', note: '${ item.note }' }, save: 'refunds[string(item.note)]' }]
";

/// R41
#[tokio::test]
async fn the_same_business_effect_is_made_once_and_its_first_result_returned() {
    for parallel in ["parallel: 1", "parallel: 3"] {
        let refund = Scripted::write(|asked| async move {
            // Long enough that the second call for the same order comes meanwhile.
            tokio::time::sleep(Duration::from_millis(30)).await;
            ToolResult::success(json!({ "paid": asked.arguments["note"] }))
        });
        let bench = Bench::new(&KEYED.replace("parallel: 3", parallel)).tool("refund", &refund);
        let story = bench.run().await;
        assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
        let mut orders: Vec<_> = refund.called_with("order");
        orders.sort_by_key(Json::to_string);
        assert_eq!(orders, ["A", "B"], "{parallel}");
        let refunds = bench.state(story.report.run, "refunds").await;
        assert_eq!(refunds["1"], refunds["3"], "{parallel}: the first result");
        let repeats = story.finished().iter().filter(|done| done.source == OutcomeSource::FirstResult).count();
        assert_eq!(repeats, 1);
    }
}

#[tokio::test]
async fn a_business_effect_whose_outcome_is_unknown_is_not_made_a_second_time() {
    let refund = Scripted::write(|asked| async move {
        if asked.arguments["order"] == "A" {
            ToolResult::failure(Code::Unknown, "the line broke")
        } else {
            ToolResult::success(Json::Null)
        }
    });
    let story = Bench::new(KEYED).tool("refund", &refund).run().await;
    let to_a = refund.called_with("order").iter().filter(|order| **order == "A").count();
    assert_eq!(to_a, 1);
    // The other one waits for the first, or was refused; it was not made.
    assert_ne!(story.report.outcome, Some(RunOutcome::Succeeded));
}

#[tokio::test]
async fn a_business_effect_that_the_target_refused_may_be_tried_anew() {
    let tried = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tried);
    let refund = Scripted::write(move |asked| {
        let first_of_a = asked.arguments["order"] == "A" && count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first_of_a { ToolResult::failure(Code::Permanent, "not yet") } else { ToolResult::success(Json::Null) }
        }
    });
    let task = KEYED.replace("parallel: 3", "parallel: 1").replace("    steps:", "    on_failure: defer\n    steps:");
    let story = Bench::new(&task).tool("refund", &refund).run().await;
    assert_eq!(tried.load(Ordering::SeqCst), 2);
    assert_eq!(story.report.subgoals[0].1, "partial");
}

/// The same effect proposed by two branches, the first of them unknown: the second waits for the same answer, and the run says both.
#[tokio::test]
async fn a_call_that_is_held_by_a_question_is_told_and_the_run_waits() {
    const TWICE: &str = "
inputs: { items: { value: [1, 2] } }
tools: { refund: { builtin: refund, effect_key: [order] } }
subgoals: [{ id: a, foreach: { in: inputs.items, as: item, parallel: 2 }, steps: [{ call: refund, with: { order: 7 } }] }]
";
    let refund = Scripted::write(|_| async { ToolResult::failure(Code::Timeout, "no answer") });
    let bench = Bench::new(TWICE).tool("refund", &refund);
    let story = bench.run().await;
    assert_eq!(refund.calls().len(), 1);
    assert_eq!(story.report.questions.len(), 1);
    assert_eq!((story.report.status, story.report.wake_at), (RunStatus::Waiting, None));
    let asked = story.report.questions[0].step.unwrap();
    let [(held, behind)] = story.report.held[..] else { panic!("{:?}", story.report.held) };
    assert!(behind == asked && held != asked, "{held} behind {behind}, asked about {asked}");
    assert_eq!(bench.store.run(story.report.run).await.unwrap().status, RunStatus::Waiting);

    bench.answer(&story, Answer::Happened).await;
    let story = bench.resume(story.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((refund.calls().len(), story.report.held.len()), (1, 0));
}

/// A query that never answers is ended at its own time limit, and then a person is asked: the effect stays unknown.
#[tokio::test]
async fn a_status_query_that_never_answers_leaves_the_question_to_a_person() {
    const ASKED: &str = "
tools:
  put: { builtin: put, timeout: 50ms, status: ask }
  ask: { builtin: ask, timeout: 50ms }
subgoals: [{ id: a, steps: [{ call: put, with: { n: 1 }, save: done }] }]
";
    let put = loses_first_answer();
    let ask = Scripted::read(|_| std::future::pending());
    let bench = Bench::new(ASKED).tool("put", &put).tool("ask", &ask);
    let story = bench.run().await;
    assert_eq!((story.report.status, story.report.questions.len()), (RunStatus::Waiting, 1));
    assert_eq!((put.calls().len(), ask.calls().len()), (1, 3), "asked three times, made once");
    let effect = &bench.store.effects(story.report.run).await.unwrap()[0];
    assert_eq!(effect.state, EffectState::Unknown);

    bench.answer(&story, Answer::Not).await;
    let story = bench.resume(story.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(put.calls().len(), 2);
}
