//! Lists: items set aside, given up, tried another way (R16, R17).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loopforge_core::json::Json;
use loopforge_core::record::{RunOutcome, SubgoalOutcome};
use loopforge_core::tool::{Code, ToolResult};
use serde_json::json;

use crate::bench::{Bench, Scripted};

const DEFERRING: &str = "
inputs: { items: { value: [a, b, c] } }
tools: { get: { builtin: get, retry: { max_attempts: 1 } } }
subgoals:
  - id: all
    foreach: { in: inputs.items, as: item, parallel: 1 }
    steps: [{ call: get, with: { item: '${ item }' }, save: 'got[item]' }]
    on_failure: defer
";

/// An answer, but for `b`, which fails `times` times in a passing way.
fn b_fails(times: usize, code: Code) -> Scripted {
    let failed = Arc::new(AtomicUsize::new(0));
    Scripted::read(move |asked| {
        let fails = asked.arguments["item"] == "b" && failed.fetch_add(1, Ordering::SeqCst) < times;
        async move {
            if fails {
                return ToolResult::failure(code, "not now").retry_after(Some(Duration::from_millis(5)));
            }
            ToolResult::success(asked.arguments)
        }
    })
}

#[tokio::test]
async fn an_item_that_fails_in_passing_is_tried_again_after_the_rest() {
    let get = b_fails(1, Code::Unavailable);
    let story = Bench::new(DEFERRING).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(get.called_with("item"), ["a", "b", "c", "b"]);
    assert_eq!(story.subgoal("all").0, SubgoalOutcome::Done);
    assert_eq!(story.report.totals.deferrals, 1);
}

#[tokio::test]
async fn an_item_that_does_not_heal_is_given_up_after_the_rounds_and_named() {
    let get = b_fails(usize::MAX, Code::Unavailable);
    let story = Bench::new(DEFERRING).tool("get", &get).run().await;
    // The first time, and two rounds.
    assert_eq!(get.called_with("item").iter().filter(|item| **item == "b").count(), 3);
    assert_eq!(story.subgoal("all").0, SubgoalOutcome::Partial);
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert!(story.end().unverified.iter().any(|line| line.contains("1 items of `all` were given up")));
}

#[tokio::test]
async fn an_item_that_can_not_heal_is_given_up_at_once() {
    let get = b_fails(usize::MAX, Code::NotFound);
    let story = Bench::new(DEFERRING).tool("get", &get).run().await;
    assert_eq!(get.called_with("item"), ["a", "b", "c"]);
    assert_eq!(story.subgoal("all").0, SubgoalOutcome::Partial);
}

#[tokio::test]
async fn alternatives_are_tried_in_order_and_the_first_that_works_counts() {
    let fails = |word: &'static str| Scripted::read(move |_| async move { ToolResult::failure(Code::Permanent, word) });
    let (first, second) = (fails("first"), fails("second"));
    let (third, fourth) = (Scripted::echo(), Scripted::echo());
    let task = "
tools: { first: { builtin: first }, second: { builtin: second }, third: { builtin: third }, fourth: { builtin: fourth } }
subgoals:
  - id: a
    steps:
      - call: first
        or_else: [{ call: second }, { call: third, with: { way: 3 } }, { call: fourth }]
        save: got
";
    let bench =
        Bench::new(task).tool("first", &first).tool("second", &second).tool("third", &third).tool("fourth", &fourth);
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(bench.state(story.report.run, "got").await, json!({ "way": 3 }));
    assert_eq!((first.calls().len(), second.calls().len(), fourth.calls().len()), (1, 1, 0));
}

/// GRF-06, R17
#[tokio::test]
async fn a_failing_branch_does_not_void_its_siblings() {
    for failing in ["a", "c"] {
        let put = Scripted::write(move |asked| async move {
            let item = asked.arguments["item"].clone();
            // At once, or after the others.
            tokio::time::sleep(Duration::from_millis(if item == "a" { 0 } else { 30 })).await;
            if item == failing { ToolResult::failure(Code::Permanent, "no") } else { ToolResult::success(item) }
        });
        let task = DEFERRING
            .replace("parallel: 1", "parallel: 3")
            .replace("builtin: get", "builtin: put")
            .replace("    on_failure: defer\n", "");
        let bench = Bench::new(&task).tool("put", &put);
        let story = bench.run().await;
        assert_eq!(story.subgoal("all").0, SubgoalOutcome::Failed);
        assert!(story.end().reason.contains("no"), "{}", story.end().reason);
        let kept: BTreeSet<String> =
            bench.state(story.report.run, "got").await.as_object().unwrap().keys().cloned().collect();
        let expected: BTreeSet<String> =
            ["a", "b", "c"].into_iter().filter(|item| *item != failing).map(str::to_owned).collect();
        assert_eq!(kept, expected);
        assert_eq!(put.calls().len(), 3);
    }
}

#[tokio::test]
async fn no_more_calls_of_a_tool_run_at_once_than_its_concurrency() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (gauge, top) = (Arc::clone(&now), Arc::clone(&most));
    let get = Scripted::read(move |asked| {
        let (gauge, top) = (Arc::clone(&gauge), Arc::clone(&top));
        async move {
            top.fetch_max(gauge.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            gauge.fetch_sub(1, Ordering::SeqCst);
            ToolResult::success(asked.arguments)
        }
    });
    let task = DEFERRING
        .replace("[a, b, c]", "[a, b, c, d, e, f]")
        .replace("parallel: 1", "parallel: 5")
        .replace("builtin: get,", "builtin: get, concurrency: 2,");
    let story = Bench::new(&task).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(get.calls().len(), 6);
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_empty_list_is_done_at_once() {
    let get = Scripted::echo();
    let story = Bench::new(&DEFERRING.replace("[a, b, c]", "[]")).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((get.calls().len(), story.count("step_started")), (0, 0));
}

#[tokio::test]
async fn large_items_and_results_reach_steps_and_state_unchanged() {
    let items: Vec<Json> =
        (0..3).map(|number| json!({ "id": format!("i{number}"), "text": "长".repeat(4000) })).collect();
    let get = Scripted::echo();
    let task =
        DEFERRING.replace("[a, b, c]", &Json::from(items.clone()).to_string()).replace("got[item]", "got[item.id]");
    let bench = Bench::new(&task).tool("get", &get);
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(get.called_with("item"), items);
    assert_eq!(bench.state(story.report.run, "got").await["i2"]["item"], items[2]);
}

#[tokio::test]
async fn a_list_that_finds_no_room_waits_for_it_and_is_worked_on() {
    let get = Scripted::read(|asked| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        ToolResult::success(asked.arguments)
    });
    let task = "
inputs: { items: { value: [a, b, c] } }
tools: { get: { builtin: get } }
loop: { parallel: 1 }
subgoals:
  - id: first
    foreach: { in: inputs.items, as: item, parallel: 4 }
    steps: [{ call: get, with: { item: '${ item }' }, save: 'one[item]' }]
  - id: second
    foreach: { in: inputs.items, as: item, parallel: 4 }
    steps: [{ call: get, with: { item: '${ item }' }, save: 'two[item]' }]
  - id: third
    steps: [{ call: get, with: { item: 1 }, save: three }]
evaluator: { criteria: ['size(state.one) == 3 && size(state.two) == 3 && state.three.item == 1'] }
";
    let story = Bench::new(task).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{:?}", story.report);
    assert_eq!(get.calls().len(), 7);
}

#[tokio::test]
async fn a_condition_without_a_value_fails_its_step() {
    let get = Scripted::read(|asked| async move { ToolResult::success(asked.arguments) });
    for when in ["state.a.c == 1", "state.a / 0 == 1", "state.a"] {
        let task = format!(
            "
tools: {{ get: {{ builtin: get }} }}
subgoals:
  - id: one
    steps: [{{ set: {{ a: 1 }} }}, {{ call: get, when: '{when}' }}]
"
        );
        let story = Bench::new(&task).tool("get", &get).run().await;
        assert_eq!(story.report.outcome, Some(RunOutcome::Failed), "{when}");
    }
    assert_eq!(get.calls().len(), 0);
}
