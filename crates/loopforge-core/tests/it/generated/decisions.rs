//! Decisions that a whole run shows better than one state: limits, deferral, downgrade, turns.

use std::time::Duration;

use loopforge_core::checkpoint;
use loopforge_core::json::Json;
use loopforge_core::record::{Event, Route, RunOutcome};
use loopforge_core::run::Phase;
use loopforge_core::tool::Code;
use serde_json::json;

use super::sim::{Ask, Brings, Rest, Script, Sim, raised};

fn task(limits: Json, subgoals: Json) -> Json {
    json!({ "name": "t", "goal": "g", "loop": limits, "subgoals": subgoals })
}

/// A subgoal that fetches each of `inputs.items`.
fn fetches(id: &str, more: Json) -> Json {
    let mut subgoal = json!({
        "id": id,
        "foreach": { "in": "inputs.items", "as": "item", "parallel": 4 },
        "steps": [{ "call": "fetch", "with": { "item": "${ item }", "for": id } }],
    });
    for (key, value) in more.as_object().unwrap() {
        subgoal[key] = value.clone();
    }
    subgoal
}

fn fine(_: &Ask<'_>) -> Brings {
    Brings::Data(json!(1))
}

fn statuses(sim: &Sim) -> Vec<&'static str> {
    sim.state.subgoals.iter().map(|progress| progress.status.name()).collect()
}

/// A list for which there was no room when it began ended as done, with none of its items.
#[test]
fn a_list_that_found_no_room_has_its_turn_later() {
    let subgoals =
        json!([fetches("a", json!({})), fetches("b", json!({})), { "id": "c", "steps": [{ "call": "push" }] }]);
    let sim = Script::new(task(json!({ "parallel": 2 }), subgoals), fine).input("items", json!([1, 2, 3, 4])).run();
    assert_eq!(sim.rest, Some(Rest::Ended(RunOutcome::Succeeded)));
    assert_eq!(sim.state.subgoals.iter().map(|progress| progress.done).collect::<Vec<_>>(), [4, 4, 1]);
}

#[test]
fn branches_keep_to_the_limit_of_the_run_also_without_a_list() {
    let alone = |id: &str| json!({ "id": id, "steps": [{ "call": "fetch", "with": { "for": id } }] });
    let subgoals = json!([alone("a"), alone("b"), alone("c")]);
    let mut sim = Script::new(task(json!({ "parallel": 1 }), subgoals), fine).run();
    assert_eq!(sim.rest, Some(Rest::Ended(RunOutcome::Succeeded)));
    let mut state = loopforge_core::run::RunState::new(sim.state.run, &sim.script.task);
    for record in sim.records() {
        state.apply(record).unwrap();
        assert!(state.branches.len() <= 1);
    }
    assert_eq!(sim.seen_state(), json!({}));
}

#[test]
fn what_needs_a_failed_subgoal_is_blocked_and_what_needs_a_skipped_one_is_not() {
    let alone = |id: &str, tool: &str, needs: Json| json!({ "id": id, "needs": needs, "steps": [{ "call": tool }] });
    let bad = |ask: &Ask<'_>| if ask.tool == "push" { Brings::Fails(Code::Permanent) } else { fine(ask) };
    // A chain, and a diamond with one failed corner.
    let subgoals = json!([
        alone("a", "push", json!([])),
        alone("b", "fetch", json!(["a"])),
        alone("c", "fetch", json!(["b"])),
        alone("d", "fetch", json!([])),
        alone("e", "fetch", json!(["a", "d"])),
    ]);
    let sim = Script::new(task(json!({}), subgoals.clone()), bad).run();
    assert_eq!(sim.rest, Some(Rest::Ended(RunOutcome::Failed)));
    assert_eq!(statuses(&sim), ["failed", "blocked", "blocked", "done", "blocked"]);
    let mut skipped = subgoals;
    skipped[0]["when"] = json!("1 > 2");
    let sim = Script::new(task(json!({}), skipped), bad).run();
    assert_eq!(sim.rest, Some(Rest::Ended(RunOutcome::Succeeded)));
    assert_eq!(statuses(&sim), ["skipped", "done", "done", "done", "done"]);
}

/// LUP-09
#[test]
fn at_the_step_limit_a_run_stops_and_with_a_higher_one_goes_on_exactly_there() {
    for ask in ["stop", "ask"] {
        let limits = json!({ "max_steps": 3, "on_max_steps": ask });
        let script = Script::new(task(limits, json!([fetches("a", json!({}))])), fine);
        let mut sim = script.input("items", json!([1, 2, 3, 4, 5])).run();
        assert_eq!(sim.rest, Some(Rest::Stopped));
        assert_eq!((sim.state.last_step.0, sim.done().len(), sim.count("limit_reached")), (3, 3, 1));
        assert_eq!(sim.count("question_asked"), usize::from(ask == "ask"));
        // Asked again, nothing more happens.
        let records = sim.records().count();
        assert_eq!(sim.drive(), Rest::Stopped);
        assert_eq!(sim.records().count(), records);
        // Also in another process.
        let mut sim = sim.cut(sim.archive.len());
        sim.record(vec![raised(Some(9))]);
        assert_eq!(sim.drive(), Rest::Ended(RunOutcome::Succeeded));
        assert_eq!((sim.state.last_step.0, sim.done().len()), (5, 5));
        assert_eq!(sim.decided().len(), 5, "nothing was done again");
    }
}

#[test]
fn an_item_is_set_aside_for_as_long_as_its_target_asks_at_most_an_hour_and_no_more_often_than_allowed() {
    for (asked, waits) in [(None, 5), (Some(90), 90), (Some(9000), 3600)] {
        let world = move |ask: &Ask<'_>| match (ask.arguments["item"] == json!(1), asked) {
            (true, Some(seconds)) => Brings::FailsAsking(Code::RateLimited, Duration::from_secs(seconds)),
            (true, None) => Brings::Fails(Code::RateLimited),
            _ => fine(ask),
        };
        let subgoals = json!([fetches("a", json!({ "on_failure": "defer" }))]);
        let sim =
            Script::new(task(json!({ "defer_rounds": 2 }), subgoals), world).input("items", json!([1, 2, 3])).run();
        assert_eq!(sim.rest, Some(Rest::Ended(RunOutcome::Succeeded)));
        assert_eq!(statuses(&sim), ["partial"]);
        let progress = &sim.state.subgoals[0];
        assert_eq!((progress.done, progress.given_up.len()), (2, 1));
        assert_eq!((progress.given_up[0].position, progress.given_up[0].code), (0, Code::RateLimited));
        let mut set_aside = Vec::new();
        let mut begun_again = Vec::new();
        for record in sim.records() {
            match &record.event {
                Event::StepEvaluated(step) => {
                    if let Route::Defer { due } = step.verdict.route {
                        let wait = due.since(record.at).as_secs_f64().round();
                        assert_eq!(wait, f64::from(waits), "asked for {asked:?}");
                        set_aside.push(due);
                    }
                }
                Event::StepStarted(step) if step.item == Some(0) => begun_again.push(record.at),
                _ => {}
            }
        }
        assert_eq!((set_aside.len(), begun_again.len()), (2, 3));
        for (due, again) in set_aside.iter().zip(&begun_again[1..]) {
            assert!(again >= due, "it was tried before its time");
        }
    }
}

/// R55
#[test]
fn a_tool_that_keeps_failing_is_passed_over_and_gets_another_chance() {
    let entry = json!({ "call": "fetch", "with": { "item": "${ item }" }, "or_else": [{ "call": "mirror" }] });
    let each = json!({ "in": "inputs.items", "as": "item" });
    let subgoals = json!([{ "id": "a", "foreach": each, "steps": [entry] }]);
    let limits = json!({ "replan_after": 3, "max_steps": 1000, "max_continuous_loops": 1000 });
    // It fails for the first four items for which it is called, then heals.
    let world = |ask: &Ask<'_>| match ask.arguments["item"].as_u64() {
        Some(item) if item < 8 => Brings::Fails(Code::Unavailable),
        _ => fine(ask),
    };
    let sim = Script::new(task(limits, subgoals), world).input("items", (0..16).collect()).run();
    assert_eq!(sim.rest, Some(Rest::Ended(RunOutcome::Succeeded)));
    let mut expected = Vec::new();
    // Three failures, each followed by the alternative; then it is passed over four times.
    expected.extend(["fetch", "mirror"].repeat(3));
    expected.extend(["mirror"; 4]);
    // The next chance fails (item 7): four more are passed over. Then it has healed and is used again.
    expected.extend(["fetch", "mirror"]);
    expected.extend(["mirror"; 4]);
    expected.extend(["fetch"; 4]);
    assert_eq!(sim.decided(), expected);
    assert!(sim.state.ailing.is_empty());
}

#[test]
fn refused_calls_do_not_count_as_calls_of_a_tool() {
    let world = |ask: &Ask<'_>| if ask.arguments["item"] == json!(1) { Brings::Refusal } else { fine(ask) };
    let subgoals = json!([fetches("a", json!({ "on_failure": "defer" }))]);
    let sim = Script::new(task(json!({}), subgoals), world).input("items", json!([1, 2, 3])).run();
    assert_eq!(sim.state.calls.get("fetch"), Some(&2));
    assert_eq!((sim.state.totals.refusals, sim.state.totals.calls), (1, 2));
}

#[test]
fn after_a_crash_reads_are_made_again_and_a_started_write_is_asked_about() {
    let subgoals = json!([
        { "id": "a", "steps": [{ "call": "fetch", "save": "page" }] },
        { "id": "b", "needs": ["a"], "steps": [{ "call": "push", "save": "sent" }] },
    ]);
    let sim = Script::new(task(json!({}), subgoals), fine).run();
    assert_eq!(sim.made().len(), 1);
    for groups in 1..sim.archive.len() {
        let before = sim.cut(groups);
        let open = before.state.branches.values().find_map(|branch| match &branch.phase {
            Phase::Acting { actions } => Some(actions[0].clone()),
            _ => None,
        });
        let mut resumed = before;
        assert_eq!(resumed.drive(), Rest::Ended(RunOutcome::Succeeded));
        assert_eq!(resumed.made(), sim.made(), "the effect was made once, cut after {groups}");
        let unknown = open.is_some_and(|action| action.attempts > 0);
        let settled = resumed.events().any(|event| {
            matches!(event, Event::ActionFinished(done)
                if done.source == loopforge_core::record::OutcomeSource::StatusQuery)
        });
        assert_eq!(settled, unknown, "cut after {groups}");
    }
}

#[test]
fn a_step_without_a_value_counts_as_a_failure() {
    let subgoals = json!([{ "id": "a", "steps": [{ "set": { "x": "${ inputs.none }" } }] }]);
    let sim = Script::new(task(json!({}), subgoals), fine).run();
    assert_eq!(sim.rest, Some(Rest::Ended(RunOutcome::Failed)));
    assert_eq!(sim.state.totals.failures_in_row, 1);
}

/// R37: a checkpoint doesn't grow with what was done.
#[test]
fn the_state_of_a_long_list_stays_small() {
    let limits = json!({ "max_steps": 10_000, "max_continuous_loops": 10_000 });
    let items: Vec<String> = (0..2000).map(|item| format!("https://shop.example/products/{item}.html")).collect();
    let sim = Script::new(task(limits, json!([fetches("a", json!({}))])), fine).input("items", json!(items)).run();
    assert_eq!(sim.rest, Some(Rest::Ended(RunOutcome::Succeeded)));
    assert_eq!(sim.state.subgoals[0].done, 2000);
    let bytes = checkpoint::write(&sim.state).len();
    assert!(bytes < 20_000, "{bytes} bytes");
}
