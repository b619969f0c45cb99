//! Subgoals on which a model works: its calls, its claims, its mistakes, and what the loop makes of them.

use std::time::Duration;

use loopforge_core::id::StepNo;
use loopforge_core::model::{ErrorKind, ModelError, Role, StopReason};
use loopforge_core::record::{Event, Route, RunOutcome, RunStatus, SubgoalOutcome};
use loopforge_core::tool::{Code, ToolResult};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted, Story};
use crate::thinker::{Thinker, calls, finish, raw_call, reply, says};

const TASK: &str = "
model: test/thinker
tools: { look: { builtin: look }, send: { builtin: send } }
loop: { mode: react }
subgoals:
  - id: find
    goal: Find the price and keep it under `price`.
    done_when: has(state.price) && state.price == 399
";

fn bench(task: &str, model: &Thinker) -> Bench {
    Bench::new(task).model("test/thinker", model)
}

fn routes(story: &Story) -> Vec<Route> {
    story
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::StepEvaluated(event) => Some(event.verdict.route),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_model_calls_tools_keeps_a_value_and_the_rule_ends_the_subgoal() {
    let look = Scripted::read(|_| async { ToolResult::success(json!({ "price": "399元" })) });
    let model = Thinker::saying(vec![
        calls(&[("look", json!({ "page": 1 }))]),
        calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
    ]);
    let bench = bench(TASK, &model).tool("look", &look).tool("send", &Scripted::write_echo());
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(look.called_with("page"), [json!(1)]);
    assert_eq!(bench.state(story.report.run, "price").await, json!(399));
    let prompts = model.prompts();
    assert_eq!(prompts.len(), 2);
    // The goal is pinned, the result is there verbatim, and the status stands last.
    assert!(prompts[1].messages[0].text().contains("Find the price"));
    let result = prompts[1].messages.iter().find(|message| message.role == Role::Tool).unwrap();
    assert!(format!("{result:?}").contains("399元"));
    assert!(prompts[1].messages.last().unwrap().text().starts_with("# Status at step 2"));
}

#[tokio::test]
async fn what_was_sent_stays_the_beginning_of_what_is_sent_next() {
    let look = Scripted::echo();
    let model = Thinker::new(|number, _| Ok(calls(&[("look", json!({ "page": number }))])));
    let task = TASK.replace("mode: react", "mode: react, max_steps: 6, max_calls_per_tool: 50");
    bench(&task, &model).tool("look", &look).tool("send", &Scripted::write_echo()).run().await;
    let prompts = model.prompts();
    assert_eq!(prompts.len(), 6);
    for pair in prompts.windows(2) {
        let kept = pair[0].messages.len() - 1;
        assert_eq!(pair[0].system, pair[1].system);
        assert_eq!(pair[0].tools, pair[1].tools);
        let texts = |messages: &[loopforge_core::model::Message]| {
            messages.iter().map(|message| format!("{:?}", message.blocks)).collect::<Vec<_>>()
        };
        assert_eq!(texts(&pair[0].messages[..kept]), texts(&pair[1].messages[..kept]));
    }
}

#[tokio::test]
async fn the_prompt_of_every_step_can_be_made_again_byte_for_byte() {
    let look = Scripted::read(|asked| async move {
        ToolResult::success(json!({ "page": asked.number, "text": "价格 399元 ".repeat(400) }))
    });
    let model = Thinker::new(|number, _| {
        Ok(match number {
            1..=8 => calls(&[("look", json!({ "page": number })), ("nothing", json!({}))]),
            9 => finish("about 400"),
            _ => calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
        })
    });
    let task = TASK.replace("model: test/thinker", "model: { use: test/thinker, context_budget: 9000 }");
    let bench = bench(&task, &model).tool("look", &look).tool("send", &Scripted::write_echo());
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    let sent = model.prompts();
    for (step, sent) in (1..).zip(&sent) {
        let shown = bench.engine().prompts(story.report.run, StepNo(step)).await.unwrap();
        assert_eq!(shown.len(), 1, "step {step}");
        assert!(shown[0].exact, "step {step}");
        assert_eq!(&shown[0].prompt.request, sent, "step {step}");
    }
    assert!(sent.len() == 10 && bench.engine().prompts(story.report.run, StepNo(11)).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_result_is_passed_on_by_its_handle_and_a_long_one_can_be_read_on() {
    let page = format!("{}needle{}", "甲".repeat(9000), "乙".repeat(9000));
    let body = page.clone();
    let look = Scripted::read(move |_| {
        let body = body.clone();
        async move { ToolResult::success(json!({ "body": body, "price": 399 })) }
    });
    let send = Scripted::write_echo();
    let model = Thinker::saying(vec![
        calls(&[("look", json!({}))]),
        calls(&[("send", json!({ "page": "@1.0/body", "other": "@7.0" }))]),
        calls(&[("recall", json!({ "handle": "@1.0/body", "query": "needle" }))]),
        calls(&[
            ("send", json!({ "page": "@1.0/body" })),
            ("set_state", json!({ "key": "price", "value": "@1.0/price" })),
        ]),
    ]);
    let story = bench(TASK, &model).tool("look", &look).tool("send", &send).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(send.called_with("page"), [json!(page)]);
    assert_eq!(story.refused()[0].check, "handle");
    let prompts = model.prompts();
    assert!(format!("{:?}", prompts[1].messages).contains("@1.0: "));
    assert!(format!("{:?}", prompts[1].messages).contains("recall reads on"));
    assert!(format!("{:?}", prompts[3].messages).contains("甲needle乙"));
}

#[tokio::test]
async fn a_member_that_is_no_text_replaces_no_map() {
    let model = Thinker::saying(vec![
        calls(&[
            ("set_state", json!({ "key": "prices", "member": "a", "value": 1 })),
            ("set_state", json!({ "key": "prices", "member": 7, "value": 2 })),
            ("set_state", json!({ "key": "prices", "value": {}, "member": null })),
            ("set_state", json!({ "key": "prices", "member": "b" })),
        ]),
        calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
    ]);
    let bench = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo());
    let story = bench.run().await;
    assert_eq!(story.refused().iter().map(|refused| refused.check.as_str()).collect::<Vec<_>>(), ["schema"; 2]);
    assert!(story.refused()[0].reason.contains("`member` must be a text"));
    // The third one said so.
    assert_eq!(bench.state(story.report.run, "prices").await, json!({}));
}

#[tokio::test]
async fn a_claim_that_the_rule_refutes_is_corrected_and_ends_nothing() {
    let model = Thinker::saying(vec![
        finish("The price is about 400."),
        calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
    ]);
    let story = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(routes(&story), [Route::Correct, Route::BranchDone]);
    let second = &model.prompts()[1];
    assert!(second.messages.iter().any(|message| message.text().contains("said to be done, but `has(state.price)")));
}

#[tokio::test]
async fn a_model_that_only_claims_ends_in_failure_and_not_in_success() {
    let model = Thinker::saying(vec![says("All done!")]);
    let story = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(story.subgoal("find").0, SubgoalOutcome::Failed);
    // Three claims to a way, and three further ways.
    assert_eq!(routes(&story).iter().filter(|route| **route == Route::Replan).count(), 3);
    assert_eq!(model.prompts().len(), 12);
}

#[tokio::test]
async fn without_a_rule_the_word_of_the_model_counts_and_the_report_says_that_nothing_verified_it() {
    let task = "
model: test/thinker
loop: { mode: react }
subgoals: [{ id: think, goal: Think. }]
";
    let model = Thinker::saying(vec![says("I thought.")]);
    let story = bench(task, &model).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.subgoal("think"), (SubgoalOutcome::Done, "I thought."));
    assert!(story.end().unverified[0].contains("no rule says what `think` must have reached"));
}

#[tokio::test]
async fn malformed_arguments_never_reach_a_tool_and_come_back_with_the_reason() {
    let look = Scripted::echo();
    let model = Thinker::new(|number, _| {
        Ok(match number {
            1 => raw_call("look", "{\"page\": 1"),
            2 => raw_call("look", "[1]"),
            _ => calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
        })
    });
    let story = bench(TASK, &model).tool("look", &look).tool("send", &Scripted::write_echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert!(look.calls().is_empty());
    assert_eq!(story.refused().iter().map(|refused| refused.check.as_str()).collect::<Vec<_>>(), ["arguments"; 2]);
    assert!(format!("{:?}", model.prompts()[1].messages).contains("no valid JSON"));
}

#[tokio::test]
async fn a_tool_that_does_not_exist_is_refused_with_the_names_of_those_that_do() {
    let model = Thinker::saying(vec![
        calls(&[("fetch_price", json!({}))]),
        calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
    ]);
    let story = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.refused()[0].check, "whitelist");
    assert!(story.refused()[0].reason.contains("look, send, finish"));
}

#[tokio::test]
async fn reads_of_one_reply_run_side_by_side_and_writes_wait_for_what_stands_before_them() {
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = |name: &'static str| {
        let order = order.clone();
        move |asked: crate::bench::Asked| {
            let order = order.clone();
            async move {
                order.lock().unwrap().push(format!("{name} {} begins", asked.arguments["n"]));
                tokio::time::sleep(Duration::from_millis(30)).await;
                order.lock().unwrap().push(format!("{name} {} ends", asked.arguments["n"]));
                ToolResult::success(asked.arguments)
            }
        }
    };
    let model = Thinker::saying(vec![
        calls(&[
            ("look", json!({ "n": 1 })),
            ("look", json!({ "n": 2 })),
            ("send", json!({ "n": 3 })),
            ("look", json!({ "n": 4 })),
        ]),
        calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
    ]);
    let story = bench(TASK, &model)
        .tool("look", &Scripted::read(log("look")))
        .tool("send", &Scripted::write(log("send")))
        .run()
        .await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    let order = order.lock().unwrap().clone();
    assert_eq!(order.iter().take(2).filter(|line| line.ends_with("begins")).count(), 2, "{order:?}");
    assert_eq!(order[4..], ["send 3 begins", "send 3 ends", "look 4 begins", "look 4 ends"]);
}

#[tokio::test]
async fn a_write_after_a_failure_in_the_same_reply_is_not_made() {
    let send = Scripted::write_echo();
    let look = Scripted::read(|_| async { ToolResult::failure(Code::NotFound, "no such page") });
    let model = Thinker::saying(vec![
        calls(&[("look", json!({ "n": 1 })), ("send", json!({ "n": 2 }))]),
        calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
    ]);
    let story = bench(TASK, &model).tool("look", &look).tool("send", &send).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert!(send.calls().is_empty());
    assert_eq!(story.refused()[0].check, "order");
}

#[tokio::test]
async fn a_question_waits_for_a_person_and_the_answer_is_the_result() {
    let model = Thinker::new(|number, request| {
        Ok(if number == 1 {
            calls(&[("ask_person", json!({ "question": "Which shop?" }))])
        } else {
            assert!(format!("{:?}", request.messages).contains("the one in 上海"));
            calls(&[("set_state", json!({ "key": "price", "value": 399 }))])
        })
    });
    let bench = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo());
    let story = bench.run().await;
    assert_eq!(story.report.status, RunStatus::Waiting);
    assert_eq!(story.report.questions[0].text, "Which shop?");
    bench.engine().tell(story.report.run, None, "the one in 上海", "a test").await.unwrap();
    let story = bench.resume(story.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(model.prompts().len(), 2);
}

#[tokio::test]
async fn the_same_call_again_and_again_is_told_then_taken_away_then_another_way_then_a_person() {
    let look = Scripted::read(|_| async { ToolResult::success(json!("nothing new")) });
    let model = Thinker::saying(vec![calls(&[("look", json!({ "page": 1 }))])]);
    let task = TASK.replace("mode: react", "mode: react, max_calls_per_tool: 100, max_replans: 100");
    let story = bench(&task, &model).tool("look", &look).tool("send", &Scripted::write_echo()).run().await;
    let responses: Vec<String> = story
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::LoopFound(found) => Some(format!("{:?}", found.response.unwrap())),
            _ => None,
        })
        .collect();
    assert_eq!(responses, ["Tell", "Withhold", "Replan", "Ask"]);
    assert_eq!(story.report.status, RunStatus::Waiting);
    // Three times until it was told, three until it was taken away; from then on it was refused.
    assert_eq!(look.calls().len(), 6);
    assert!(story.refused().iter().all(|refused| refused.check == "repetition"));
}

#[tokio::test]
async fn a_poll_whose_answer_changes_is_no_loop() {
    let look = Scripted::read(|asked| async move { ToolResult::success(json!({ "done": asked.number })) });
    let model = Thinker::new(|number, _| {
        Ok(if number < 9 {
            calls(&[("look", json!({ "job": 7 }))])
        } else {
            calls(&[("set_state", json!({ "key": "price", "value": 399 }))])
        })
    });
    let story = bench(TASK, &model).tool("look", &look).tool("send", &Scripted::write_echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.count("loop_found"), 0);
}

#[tokio::test]
async fn growing_arguments_that_always_find_the_same_nothing_are_fruitless() {
    let look = Scripted::read(|_| async { ToolResult::success(json!([])) });
    let model = Thinker::new(|number, _| Ok(calls(&[("look", json!({ "query": "x".repeat(number) }))])));
    let task = TASK.replace("mode: react", "mode: react, max_calls_per_tool: 100, max_continuous_loops: 4");
    let story = bench(&task, &model).tool("look", &look).tool("send", &Scripted::write_echo()).run().await;
    assert!(story.count("loop_found") >= 2);
    assert_eq!(story.report.outcome, None);
    assert!(story.report.totals.steps < 20, "{}", story.report.totals.steps);
}

#[tokio::test]
async fn quotas_count_what_a_model_decides() {
    let look = Scripted::read(|asked| async move { ToolResult::success(json!(asked.number)) });
    let model = Thinker::new(|number, _| {
        Ok(if number < 6 {
            calls(&[("look", json!({ "page": number }))])
        } else {
            calls(&[("set_state", json!({ "key": "price", "value": 399 }))])
        })
    });
    let task = TASK.replace("builtin: look", "builtin: look, max_calls: 3");
    let story = bench(&task, &model).tool("look", &look).tool("send", &Scripted::write_echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(look.calls().len(), 3);
    assert_eq!(story.refused()[0].check, "quota");
    assert!(model.prompts()[3].messages.last().unwrap().text().contains("Calls of look left: 0."));
}

#[tokio::test]
async fn a_passing_failure_of_the_model_is_tried_again_and_the_wait_of_the_provider_holds() {
    let model = Thinker::new(|number, _| match number {
        1 => Err(ModelError::new(ErrorKind::Overloaded, "busy").retry_after(Some(Duration::from_millis(20)))),
        _ => Ok(calls(&[("set_state", json!({ "key": "price", "value": 399 }))])),
    });
    let story = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.count("model_failed"), 1);
    assert_eq!(story.count("model_called"), 2);
    assert_eq!(story.report.totals.steps, 1);
}

#[tokio::test]
async fn a_wrong_key_pauses_the_run_and_a_resume_goes_on_where_it_was() {
    let model = Thinker::new(|number, _| match number {
        1 => Err(ModelError::new(ErrorKind::Unauthorized, "the key is refused")),
        _ => Ok(calls(&[("set_state", json!({ "key": "price", "value": 399 }))])),
    });
    let bench = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo());
    let story = bench.run().await;
    assert_eq!(story.report.status, RunStatus::Paused);
    let story = bench.resume(story.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
}

#[tokio::test]
async fn refusals_empty_replies_and_cut_off_ones_end_in_a_bounded_number_of_steps() {
    for unusable in [
        reply(Vec::new(), StopReason::End),
        reply(Vec::new(), StopReason::Refused),
        reply(vec![loopforge_core::model::Block::text("The price is 3")], StopReason::Length),
    ] {
        let model = Thinker::saying(vec![unusable]);
        let story =
            bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo()).run().await;
        assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
        assert_eq!(model.prompts().len(), 12);
    }
}

#[tokio::test]
async fn a_wait_costs_no_call_of_the_model() {
    let model = Thinker::saying(vec![
        calls(&[("wait", json!({ "seconds": 1, "reason": "the job needs time" }))]),
        calls(&[("set_state", json!({ "key": "price", "value": 399 }))]),
    ]);
    let story = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((story.count("wait_started"), story.count("wait_ended")), (1, 1));
    assert_eq!(model.prompts().len(), 2);
}

#[tokio::test]
async fn a_long_run_keeps_its_prompt_under_the_budget_and_says_what_it_left_out() {
    let look = Scripted::read(|asked| async move {
        ToolResult::success(json!({ "page": asked.number, "text": "lorem ipsum ".repeat(60) }))
    });
    let model = Thinker::new(|number, _| Ok(calls(&[("look", json!({ "page": number }))])));
    let task = TASK
        .replace("model: test/thinker", "model: { use: test/thinker, context_budget: 6000 }")
        .replace("mode: react", "mode: react, max_steps: 60, max_calls_per_tool: 100");
    let story = bench(&task, &model).tool("look", &look).tool("send", &Scripted::write_echo()).run().await;
    let sizes: Vec<(u64, u32)> = story
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::ModelCalled(called) => Some((called.prompt.tokens, called.prompt.left_out)),
            _ => None,
        })
        .collect();
    assert_eq!(sizes.len(), 60);
    assert!(sizes.iter().all(|(tokens, _)| *tokens <= 6000), "{sizes:?}");
    assert!(sizes[59].1 > 40);
    assert!(model.prompts()[59].messages[1].text().contains("steps before these"));
}

#[tokio::test]
async fn a_run_that_is_stopped_while_a_model_thinks_goes_on_with_another_call() {
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let model = Thinker::new(move |number, _| {
        if number == 1 {
            stop.cancel();
            return Err(ModelError::new(ErrorKind::Cancelled, "given up"));
        }
        Ok(calls(&[("set_state", json!({ "key": "price", "value": 399 }))]))
    });
    let bench = bench(TASK, &model).tool("look", &Scripted::echo()).tool("send", &Scripted::write_echo());
    let report = bench.start().await.unwrap().drive(cancel).await.unwrap();
    assert!(report.interrupted);
    let story = bench.resume(report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.count("model_called"), 2);
}
