//! Plans: made from a goal, amended when something fails, checked before they count, and bounded.

use loopforge_core::json::Json;
use loopforge_core::model::Request;
use loopforge_core::record::{Event, PlanAmended, RunOutcome, RunStatus, SubgoalOutcome};
use loopforge_core::tool::{Code, ToolResult};
use serde_json::json;

use crate::bench::{Bench, Scripted, Story};
use crate::thinker::{Thinker, calls, finish, says};

const GOAL: &str = "
model: test/thinker
tools: { look: { builtin: look } }
evaluator: { criteria: [\"has(state.price)\"] }
";

/// A workflow whose only call fails, and a planner beside it.
const WORKFLOW: &str = "
model: test/thinker
tools: { look: { builtin: look }, other: { builtin: other } }
subgoals:
  - id: fetch
    steps: [{ call: look, with: { page: 1 }, save: page }]
    on_failure: replan
  - id: report
    needs: [fetch]
    steps: [{ set: { report: \"${ state.page }\" } }]
evaluator: { criteria: [\"has(state.report)\", subgoals.fetch.done] }
";

fn bench(task: &str, model: &Thinker) -> Bench {
    Bench::new(task).model("test/thinker", model)
}

fn plan(arguments: Json) -> loopforge_core::model::Reply {
    calls(&[("amend_plan", arguments)])
}

fn set_price() -> loopforge_core::model::Reply {
    calls(&[("set_state", json!({ "key": "price", "value": 399 })), ("finish", json!({ "summary": "399" }))])
}

/// Whether the planner is asked, and not whoever acts.
fn asks_planner(request: &Request) -> bool {
    request.tools.iter().any(|tool| tool.name == "amend_plan")
}

fn asks_judge(request: &Request) -> bool {
    request.tools.iter().any(|tool| tool.name == "judge")
}

fn amended(story: &Story) -> Vec<&PlanAmended> {
    story
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::PlanAmended(event) => Some(event),
            _ => None,
        })
        .collect()
}

fn problems(story: &Story) -> Vec<String> {
    story
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::ConsultFailed(event) => Some(event.problems.join("\n")),
            _ => None,
        })
        .collect()
}

fn failing() -> Scripted {
    Scripted::read(|_| async { ToolResult::failure(Code::NotFound, "the page is gone") })
}

fn instead(arguments: Json) -> Json {
    let mut subgoal = json!({ "id": "fetch_other", "goal": "Get the page elsewhere." });
    for (key, value) in arguments.as_object().unwrap() {
        subgoal[key] = value.clone();
    }
    json!({ "reason": "the page is gone there", "replace": [{ "id": "fetch", "with": subgoal }] })
}

fn other_steps() -> Json {
    json!({ "steps": [{ "call": "other", "with": { "page": 1 }, "save": "page" }] })
}

#[tokio::test]
async fn a_goal_without_subgoals_is_planned_and_each_part_is_carried_out() {
    let model = Thinker::new(|_, request| {
        if asks_planner(request) {
            return Ok(plan(json!({
                "reason": "find, then keep",
                "add": [
                    { "id": "find", "goal": "Look the price up.", "steps": [{ "call": "look", "with": { "page": 1 }, "save": "page" }] },
                    { "id": "keep", "goal": "Keep the price.", "needs": ["find"], "done_when": "state.price == 399" }
                ]
            })));
        }
        Ok(set_price())
    });
    let story = bench(GOAL, &model).tool("look", &Scripted::echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{:?}", story.end());
    assert_eq!(story.subgoal("find").0, SubgoalOutcome::Done);
    assert_eq!(story.subgoal("keep").0, SubgoalOutcome::Done);
    // The goal as a whole is no part of the plan any more, and nobody worked on it.
    assert_eq!(amended(&story)[0].amendment.drop, ["goal"]);
    assert!(story.end().unverified.iter().all(|part| !part.contains("goal")), "{:?}", story.end().unverified);
    let prompts = model.prompts();
    assert_eq!(prompts.len(), 2);
    let shown = prompts[0].messages[0].text();
    assert!(
        shown.contains("Be tested.") && shown.contains("- look: reads") && shown.contains("has(state.price)"),
        "{shown}"
    );
    assert!(prompts[1].messages[0].text().contains("Keep the price."));
}

#[tokio::test]
async fn a_planner_that_changes_nothing_leaves_the_goal_as_a_whole() {
    let model = Thinker::new(|_, request| {
        Ok(if asks_planner(request) { plan(json!({ "reason": "it is one step" })) } else { set_price() })
    });
    let story = bench(GOAL, &model).tool("look", &Scripted::echo()).run().await;
    assert_eq!(story.subgoal("goal").0, SubgoalOutcome::Done);
    assert_eq!(story.count("plan_amended"), 1);
}

#[tokio::test]
async fn a_planner_that_talks_nonsense_is_told_and_after_three_tries_the_goal_is_worked_on_as_a_whole() {
    let model = Thinker::new(|_, request| Ok(if asks_planner(request) { says("Let me think.") } else { set_price() }));
    let story = bench(GOAL, &model).tool("look", &Scripted::echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.count("consult_failed"), 3);
    assert!(model.prompts()[1].messages[0].text().contains("nothing was called: answer by a call of `amend_plan`"));
}

#[tokio::test]
async fn all_that_is_wrong_with_a_plan_is_said_at_once_and_the_mended_one_counts() {
    let model = Thinker::new(|number, request| {
        if !asks_planner(request) {
            return Ok(set_price());
        }
        Ok(plan(match number {
            1 => json!({
                "reason": "so",
                "add": [
                    { "id": "a", "goal": "A.", "needs": ["b"] },
                    { "id": "b", "goal": "B.", "needs": ["a"], "done_when": "stat.price > 1" },
                    { "id": "c", "goal": "C.", "steps": [{ "call": "lookk", "with": {} }] },
                    { "id": "goal", "goal": "D.", "needs": ["nothing"], "done_when": "1 +" }
                ],
                "drop": ["unknown"]
            }),
            _ => json!({ "reason": "so", "add": [{ "id": "a", "goal": "Find it.", "done_when": "has(state.price)" }] }),
        }))
    });
    let story = bench(GOAL, &model).tool("look", &Scripted::echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    let told = &problems(&story)[0];
    for part in ["there is no subgoal `unknown`", "`goal` done_when"] {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    assert!(model.prompts()[1].messages[0].text().contains("`goal` done_when"));
}

#[tokio::test]
async fn names_cycles_and_needs_of_a_plan_are_checked() {
    let cases = [
        (
            json!({ "add": [{ "id": "x", "goal": "X.", "steps": [{ "call": "lookk" }] }] }),
            "the task lists no tool `lookk`",
        ),
        (json!({ "add": [{ "id": "x", "goal": "X.", "tools": ["lookk"] }] }), "did you mean `look`?"),
        (
            json!({ "add": [{ "id": "x", "goal": "X.", "needs": ["y"] }, { "id": "y", "goal": "Y.", "needs": ["x"] }] }),
            "x",
        ),
        (json!({ "add": [{ "id": "x", "goal": "X.", "needs": ["nobody"] }] }), "nobody"),
        (json!({ "add": [{ "id": "report", "goal": "X." }] }), "`report` is the id of another subgoal too"),
        (json!({ "add": [{ "id": "x", "goal": "X.", "needs": ["fetch"] }] }), "could never begin"),
        (json!({ "add": [{ "id": "x", "goal": "X.", "done_when": "inputs.nothing" }] }), "there is no input `nothing`"),
        (json!({ "add": [{ "id": "x" }] }), "`x` has neither steps nor a goal"),
        (json!({ "drop": ["first"] }), "`first` is done, and what has ended well stays"),
        (json!({ "drop": ["fetch"] }), "`report` needs"),
        (json!({ "remove": ["fetch"] }), "there is no `remove`"),
        (json!({ "replace": [{ "id": "fetch" }] }), "an entry of `replace` must be"),
    ];
    for (mut arguments, expected) in cases {
        arguments["reason"] = json!("a test");
        let model = Thinker::saying(vec![plan(arguments.clone())]);
        let task = WORKFLOW.replace("  - id: report", "  - { id: first, steps: [{ set: { a: 1 } }] }\n  - id: report");
        let story = bench(&task, &model).tool("look", &failing()).tool("other", &Scripted::echo()).run().await;
        assert_eq!(story.report.outcome, Some(RunOutcome::Failed), "{arguments}");
        assert_eq!(story.count("consult_failed"), 3, "{arguments}");
        assert!(problems(&story)[0].contains(expected), "{expected} in\n{}", problems(&story)[0]);
        assert_eq!(story.subgoal("report").0, SubgoalOutcome::Blocked);
    }
}

#[tokio::test]
async fn a_workflow_that_fails_is_replaced_and_what_needs_it_goes_on() {
    let model = Thinker::saying(vec![plan(instead(other_steps()))]);
    let bench = bench(WORKFLOW, &model).tool("look", &failing()).tool("other", &Scripted::echo());
    let story = bench.run().await;
    // The criterion that names the replaced one means what stands in its place.
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{:?}", story.end());
    assert_eq!(story.subgoal("report").0, SubgoalOutcome::Done);
    assert_eq!(bench.state(story.report.run, "report").await, json!({ "page": 1 }));
    let shown = model.prompts()[0].messages[0].text();
    assert!(shown.contains("- step 1 (fetch): look not_found: the page is gone"), "{shown}");
    assert!(shown.contains("fetch [failed] (fixed steps)"), "{shown}");
}

#[tokio::test]
async fn a_failure_without_replan_takes_its_course() {
    let model = Thinker::saying(vec![plan(instead(other_steps()))]);
    let task = WORKFLOW.replace("    on_failure: replan\n", "");
    let story = bench(&task, &model).tool("look", &failing()).tool("other", &Scripted::echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert!(model.prompts().is_empty());
}

#[tokio::test]
async fn a_plan_that_fails_again_and_again_is_amended_a_bounded_number_of_times() {
    let model = Thinker::new(|number, _| {
        let id = if number == 1 { "fetch".to_owned() } else { format!("try_{}", number - 1) };
        Ok(plan(json!({
            "reason": "once more",
            "replace": [{ "id": id, "with": { "id": format!("try_{number}"), "goal": "Get it.", "steps": [{ "call": "look", "with": { "page": number }, "save": "page" }] } }]
        })))
    });
    let story = bench(WORKFLOW, &model).tool("look", &failing()).tool("other", &Scripted::echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(amended(&story).len(), 3);
    assert_eq!(model.prompts().len(), 3);
}

#[tokio::test]
async fn the_rule_of_a_replaced_subgoal_stays() {
    let task = WORKFLOW.replace("    on_failure: replan", "    on_failure: replan\n    done_when: has(state.page)");
    let softer = instead(json!({ "done_when": "true", "steps": [{ "set": { "a": 1 } }] }));
    let model = Thinker::saying(vec![plan(softer), plan(instead(json!({ "steps": [{ "set": { "a": 1 } }] })))]);
    let story = bench(&task, &model).tool("look", &failing()).tool("other", &Scripted::echo()).run().await;
    assert!(problems(&story)[0].contains("the rule of `fetch` stays"));
    // The second one has inherited it, and does nothing for it.
    assert_eq!(story.subgoal("fetch_other").0, SubgoalOutcome::Failed);
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
}

#[tokio::test]
async fn a_subgoal_of_the_task_is_not_dropped_where_no_criterion_would_miss_it() {
    let task = WORKFLOW.replace("evaluator: { criteria: [\"has(state.report)\", subgoals.fetch.done] }\n", "");
    let model = Thinker::saying(vec![plan(json!({ "reason": "not needed", "drop": ["fetch", "report"] }))]);
    let story = bench(&task, &model).tool("look", &failing()).tool("other", &Scripted::echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert!(problems(&story)[0].contains("no criterion would tell that it is missing"));
}

#[tokio::test]
async fn a_way_of_a_model_that_fails_brings_the_planner_in_before_the_next_step() {
    let task = "
model: test/thinker
tools: { look: { builtin: look } }
subgoals:
  - { id: find, goal: Find the price., done_when: has(state.price) }
";
    let model = Thinker::new(|_, request| {
        if asks_planner(request) {
            return Ok(plan(json!({
                "reason": "pages are gone",
                "replace": [{ "id": "find", "with": { "id": "recall", "goal": "Take the price from the archive." } }]
            })));
        }
        let recalls = request.messages[0].text().contains("Take the price from the archive.");
        Ok(if recalls { set_price() } else { calls(&[("look", json!({ "page": request.messages.len() }))]) })
    });
    let story = bench(task, &model).tool("look", &failing()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{:?}", story.end());
    // Three failures in a row, then the plan, then one step.
    assert_eq!(story.report.totals.steps, 4);
    assert_eq!(story.subgoal("recall").0, SubgoalOutcome::Done);
    assert!(story.report.subgoals.contains(&("find".to_owned(), "replaced")));
}

#[tokio::test]
async fn advice_of_the_planner_reaches_whoever_works_on_the_subgoal() {
    let task = "
model: test/thinker
tools: { look: { builtin: look } }
subgoals:
  - { id: find, goal: Find the price., done_when: has(state.price) }
";
    let model = Thinker::new(|_, request| {
        if asks_planner(request) {
            return Ok(plan(json!({ "reason": "wrong pages", "advice": "The price stands in the catalogue." })));
        }
        let told = request.messages.iter().any(|message| message.text().contains("The price stands in the catalogue."));
        Ok(if told { set_price() } else { calls(&[("look", json!({ "page": request.messages.len() }))]) })
    });
    let story = bench(task, &model).tool("look", &failing()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.subgoal("find").0, SubgoalOutcome::Done);
    assert_eq!(story.report.totals.steps, 4);
}

#[tokio::test]
async fn a_criterion_that_does_not_hold_at_the_end_is_planned_for_unless_the_task_forbids_it() {
    let task = "
model: test/thinker
subgoals: [{ id: a, steps: [{ set: { a: 1 } }, { set: { b: 1 }, when: \"false\" }] }]
evaluator: { criteria: [\"has(state.b)\"] }
";
    let add =
        json!({ "reason": "b is missing", "add": [{ "id": "b", "goal": "Set b.", "steps": [{ "set": { "b": 2 } }] }] });
    let model = Thinker::saying(vec![plan(add.clone())]);
    let story = bench(task, &model).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{:?}", story.end());
    assert!(model.prompts()[0].messages[0].text().contains("a criterion does not hold"));
    let model = Thinker::saying(vec![plan(add)]);
    let strict = task.replace("evaluator: {", "evaluator: { allow_replan: false,");
    let story = bench(&strict, &model).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert!(model.prompts().is_empty());
    // One who knows nothing better is asked once.
    let model = Thinker::saying(vec![plan(json!({ "reason": "nothing can be done" }))]);
    let story = bench(task, &model).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(model.prompts().len(), 1);
}

const JUDGED: &str = "
model: test/thinker
subgoals: [{ id: a, steps: [{ set: { a: 1 } }] }]
evaluator: { criteria: [state.a == 1], judge: true }
";

#[tokio::test]
async fn a_judge_is_asked_after_all_rules_and_its_word_is_told_as_judged() {
    let yes =
        json!({ "reached": true, "reason": "a is there", "verified": ["a, by state"], "unverified": ["its origin"] });
    let model = Thinker::saying(vec![calls(&[("judge", yes)])]);
    let story = bench(JUDGED, &model).run().await;
    let end = story.end();
    assert_eq!(end.outcome, RunOutcome::Succeeded);
    assert_eq!(end.judged.as_ref().unwrap().verified, ["a, by state"]);
    assert!(end.unverified.iter().any(|part| part.contains("its origin")));
    assert!(asks_judge(&model.prompts()[0]));
    // A rule's no is final: nobody is asked.
    let model = Thinker::saying(vec![calls(&[("judge", json!({ "reached": true, "reason": "so" }))])]);
    let story = bench(&JUDGED.replace("state.a == 1]", "state.a == 2], allow_replan: false"), &model).run().await;
    assert_eq!(story.end().outcome, RunOutcome::Failed);
    assert!(model.prompts().is_empty());
}

#[tokio::test]
async fn a_no_of_the_judge_leads_to_another_plan_and_in_the_end_to_failure() {
    let no = || calls(&[("judge", json!({ "reached": false, "reason": "b is missing" }))]);
    let model = Thinker::new(move |number, request| {
        Ok(if asks_judge(request) {
            no()
        } else {
            let id = format!("b{number}");
            plan(
                json!({ "reason": "b", "add": [{ "id": id, "goal": "Set b.", "steps": [{ "set": { "b": number } }] }] }),
            )
        })
    });
    let story = bench(JUDGED, &model).run().await;
    assert_eq!(story.end().outcome, RunOutcome::Failed);
    assert!(story.end().reason.contains("the judge says that the goal is not reached: b is missing"));
    assert_eq!(amended(&story).len(), 3);
    assert_eq!(story.count("judged"), 4);
}

#[tokio::test]
async fn a_judge_without_an_answer_stands_in_the_report_and_ends_nothing() {
    let model =
        Thinker::saying(vec![says("I can't say."), finish("done"), calls(&[("judge", json!({ "reason": 1 }))])]);
    let story = bench(JUDGED, &model).run().await;
    assert_eq!(story.end().outcome, RunOutcome::Succeeded);
    assert!(story.end().unverified.iter().any(|part| part.contains("gave no answer that can be used")));
    assert_eq!(model.prompts().len(), 3);
}

#[tokio::test]
async fn a_planner_that_cannot_be_asked_pauses_the_run_and_a_resume_asks_again() {
    use loopforge_core::model::{ErrorKind, ModelError};
    let model = Thinker::new(|number, _| match number {
        1 => Err(ModelError::new(ErrorKind::Unauthorized, "the key is refused")),
        2 => Err(ModelError::new(ErrorKind::Overloaded, "busy").retry_after(Some(std::time::Duration::from_millis(5)))),
        _ => Ok(plan(instead(other_steps()))),
    });
    let bench = bench(WORKFLOW, &model).tool("look", &failing()).tool("other", &Scripted::echo());
    let story = bench.run().await;
    assert_eq!(story.report.status, RunStatus::Paused);
    let story = bench.resume(story.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.count("model_called"), 3);
}

#[tokio::test]
async fn replies_far_from_the_goal_are_reminded_of_it_and_nothing_is_stopped() {
    let task = "
model: test/thinker
tools: { look: { builtin: look }, cook: { builtin: cook } }
loop: { mode: react }
subgoals:
  - { id: prices, goal: Find the price of every lamp in the catalogue., tools: [look], done_when: has(state.price) }
";
    let model = Thinker::new(|number, _| {
        let mut reply = calls(&[("cook", json!({ "dish": number }))]);
        reply.blocks.insert(
            0,
            loopforge_core::model::Block::text("Today I would rather prepare dinner with fresh tomatoes and basil."),
        );
        Ok(if number < 5 { reply } else { set_price() })
    });
    let task = task.replace("tools: [look], ", "");
    let story = bench(&task, &model).tool("look", &Scripted::echo()).tool("cook", &Scripted::echo()).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    let reminded: Vec<usize> = (0..)
        .zip(model.prompts())
        .filter(|(_, prompt)| prompt.messages.last().unwrap().text().contains("come back to it: Find the price"))
        .map(|(number, _)| number)
        .collect();
    assert_eq!(reminded, [3]);
}
