//! What the gateway refuses: the tool is not called, and the reason is archived.

use std::sync::Arc;

use loopforge::{Prepared, Start};
use loopforge_core::json::Json;
use loopforge_core::record::{OutcomeSource, RunOutcome};
use loopforge_core::tool::{Code, ToolResult};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted};

/// R14
#[tokio::test]
async fn a_call_whose_precondition_does_not_hold_is_refused_with_the_rule() {
    let send = Scripted::write_echo();
    let task = "
tools: { send: { builtin: send, requires: subgoals.collect.done } }
subgoals:
  - { id: report, steps: [{ call: send }] }
  - { id: collect, needs: [report], steps: [{ set: { n: 1 } }] }
";
    let story = Bench::new(task).tool("send", &send).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(send.calls().len(), 0);
    let refused = story.refused()[0];
    assert_eq!((refused.code, refused.check.as_str()), (Code::Refused, "precondition"));
    assert!(refused.reason.contains("subgoals.collect.done"), "{}", refused.reason);
    assert_eq!(story.count("action_started"), 0, "there is no intent of a call that isn't made");
}

/// R46: what the check of a task file would have found is refused at the call, too. Here the task is another than the file.
#[tokio::test]
async fn a_tool_that_is_not_listed_is_refused() {
    let (send, other) = (Scripted::write_echo(), Scripted::echo());
    let task = "
tools: { send: { builtin: send }, other: { builtin: other } }
subgoals: [{ id: a, steps: [{ call: send }] }]
";
    let bench = Bench::new(task).tool("send", &send).tool("other", &other);
    let refusal = async |change: &dyn Fn(&mut Prepared)| {
        let mut prepared = Arc::into_inner(bench.prepared()).unwrap();
        change(&mut prepared);
        let run = bench.engine().start(Arc::new(prepared), Start::default()).await.unwrap();
        let report = run.drive(CancellationToken::new()).await.unwrap();
        assert_eq!(report.outcome, Some(RunOutcome::Failed));
        let story = bench.story(report).await;
        assert_eq!((send.calls().len(), story.count("action_started")), (0, 0));
        let refused = story.refused()[0];
        assert_eq!((refused.code, refused.check.as_str()), (Code::Refused, "whitelist"));
        refused.reason.clone()
    };
    let reason =
        refusal(&|prepared| Arc::make_mut(&mut prepared.task).subgoals[0].tools = Some(vec!["other".to_owned()])).await;
    assert!(reason.contains("subgoal `a` may not call `send`"), "{reason}");
    let without = Bench::new("subgoals: [{ id: a, steps: [{ set: { n: 1 } }] }]").prepared();
    let without = std::cell::Cell::new(Arc::into_inner(without));
    let reason = refusal(&|prepared| prepared.toolbox = without.take().unwrap().toolbox).await;
    assert!(reason.contains("the task lists no tool `send`"), "{reason}");
}

/// R10
#[tokio::test]
async fn a_tool_that_the_lifecycle_does_not_allow_now_is_refused() {
    let send = Scripted::write_echo();
    let task = "
tools: { send: { builtin: send } }
subgoals: [{ id: a, steps: [{ call: send }] }]
states: { initial: NEW, transitions: { NEW: [OPEN], OPEN: [] }, tools: { NEW: [], OPEN: [send] } }
";
    let story = Bench::new(task).tool("send", &send).run().await;
    assert_eq!((send.calls().len(), story.refused()[0].check.as_str()), (0, "lifecycle"));

    let story = Bench::new(&task.replace("[{ call: send }]", "[{ enter: OPEN }, { call: send }]"))
        .tool("send", &send)
        .run()
        .await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(send.calls().len(), 1);
}

/// R10
#[tokio::test]
async fn an_illegal_change_of_the_lifecycle_is_refused_and_recorded() {
    let task = "
inputs: { skip: { value: true } }
subgoals: [{ id: a, steps: [{ enter: OPEN, when: '!inputs.skip' }, { enter: CLOSED }] }]
states: { initial: NEW, transitions: { NEW: [OPEN], OPEN: [CLOSED] } }
";
    let story = Bench::new(task).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!((story.count("lifecycle_refused"), story.count("lifecycle_moved")), (1, 0));
}

/// R8
#[tokio::test]
async fn a_tool_over_its_quota_is_refused() {
    let get = Scripted::echo();
    let task = "
inputs: { items: { value: [1, 2, 3] } }
tools: { get: { builtin: get, max_calls: 2 } }
subgoals:
  - id: a
    foreach: { in: inputs.items, as: item }
    steps: [{ call: get, with: { n: '${ item }' } }]
    on_failure: defer
";
    let story = Bench::new(task).tool("get", &get).run().await;
    assert_eq!(get.called_with("n"), [1, 2]);
    assert_eq!(story.refused()[0].check, "quota");
    assert!(story.refused()[0].reason.contains("`max_calls`"));
}

#[tokio::test]
async fn arguments_that_break_the_schema_never_reach_the_tool() {
    let get = Scripted::echo();
    let task = "
inputs: { n: { value: not a number } }
tools: { get: { builtin: get, input_schema: { type: object, properties: { n: { type: integer } } } } }
subgoals: [{ id: a, steps: [{ call: get, with: { n: '${ inputs.n }' } }] }]
";
    let story = Bench::new(task).tool("get", &get).run().await;
    assert_eq!(get.calls().len(), 0);
    let refused = story.refused()[0];
    assert_eq!((refused.code, refused.check.as_str()), (Code::InvalidArgument, "schema"));
    assert!(refused.reason.contains("/n"), "{}", refused.reason);
}

/// R26
#[tokio::test]
async fn a_result_that_breaks_its_schema_does_not_enter_state() {
    let task = "
tools: { get: { builtin: get, output_schema: { type: object, required: [price] } } }
subgoals: [{ id: a, steps: [{ call: get, save: got }] }]
";
    // It is asked once more; then the step fails.
    let get = Scripted::read(|_| async { ToolResult::success(json!({ "prize": 1 })) });
    let bench = Bench::new(task).tool("get", &get);
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(bench.state(story.report.run, "got").await, Json::Null);
    assert_eq!(get.calls().len(), 2);
    assert_eq!(story.finished()[0].result.code, Code::MalformedOutput);

    let get = Scripted::read(|asked| async move {
        ToolResult::success(if asked.number == 1 { json!({}) } else { json!({ "price": 399 }) })
    });
    let bench = Bench::new(task).tool("get", &get);
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(bench.state(story.report.run, "got").await, json!({ "price": 399 }));
}

#[tokio::test]
async fn an_answer_that_is_still_good_is_taken_from_the_cache() {
    let get = Scripted::echo();
    let task = "
tools: { get: { builtin: get, cache: 1h } }
subgoals: [{ id: a, steps: [{ call: get, with: { n: 1 } }, { call: get, with: { n: 1 }, save: got }, { call: get, with: { n: 2 } }] }]
";
    let bench = Bench::new(task).tool("get", &get);
    let story = bench.run().await;
    assert_eq!(get.called_with("n"), [1, 2]);
    let sources: Vec<_> = story.finished().iter().map(|finished| finished.source).collect();
    assert_eq!(sources, [OutcomeSource::Call, OutcomeSource::Cache, OutcomeSource::Call]);
    assert_eq!(bench.state(story.report.run, "got").await, json!({ "n": 1 }));
}
