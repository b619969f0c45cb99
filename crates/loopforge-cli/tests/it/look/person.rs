//! Runs that wait for a person, and a person who sets a value.

use super::Place;

/// The outcome of a write that ran out of time is unknown, and nobody can be asked but a person.
const TASK: &str = r#"
name: careful
goal: Tell it once.
tools:
  tell:
    description: Tells, and never says whether it did.
    process: [sh, -c, "sleep 600"]
    sandbox: off
    effect: write
    timeout: 300ms
    input_schema: { type: object, properties: { text: { type: string } } }
    effect_key: [text]
subgoals:
  - id: tell
    steps:
      - set: { told: "${ 'not yet' }" }
      - call: tell
        with: { text: Hello }
      - set: { heard: "${ state.told }" }
"#;

fn waiting() -> Place {
    let place = Place::new();
    place.write("task.yaml", TASK);
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 3, "{said:?}");
    place
}

#[test]
fn what_a_run_waits_for_is_said_with_the_command_that_answers() {
    let place = waiting();
    let run = place.run();
    insta::assert_snapshot!("waiting_ls", place.masked(&place.loopforge(&["ls"]).out));
    let shown = place.loopforge(&["show"]).out;
    insta::assert_snapshot!("waiting_show", place.masked(&shown));
    insta::assert_snapshot!("waiting_effects", place.masked(&place.loopforge(&["effects"]).out));
    insta::assert_snapshot!("waiting_graph", place.masked(&place.loopforge(&["graph"]).out));
    insta::assert_snapshot!("waiting_step", place.masked(&place.loopforge(&["trace", &run, "2"]).out));

    // The command that it says is the one that works.
    let command = shown.lines().find_map(|line| line.trim().strip_prefix("answer with: loopforge ")).unwrap();
    let said = place.loopforge(&command.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(place.loopforge(&["resume", &run]).code, 0);
    assert_eq!(place.loopforge(&["effects", "--json"]).json()["effects"][0]["state"], "confirmed");
    assert!(place.loopforge(&["trace", &run, "2"]).out.contains("tester says: happened"));
}

#[test]
fn a_person_sets_a_value_and_the_run_goes_on_with_it() {
    let place = waiting();
    let run = place.run();
    let status = place.loopforge(&["show", "--json"]).json()["status"].clone();
    let said = place.loopforge(&["state", &run, "set", "told", "by \u{1b}[1m hand"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.is_safe(), "{said:?}");
    // It still waits for what it waited for.
    assert_eq!(place.loopforge(&["show", "--json"]).json()["status"], status);
    assert_eq!(place.loopforge(&["state", &run, "get", "told", "--json"]).json(), "by \u{1b}[1m hand");
    for (value, expected) in [("3", "3\n"), ("[1]", "[\n  1\n]\n"), ("true", "true\n")] {
        assert_eq!(place.loopforge(&["state", &run, "set", "n", value]).code, 0);
        assert_eq!(place.loopforge(&["state", &run, "get", "n"]).out, expected);
    }
    let set = place.loopforge(&["state", &run, "set", "m", "3", "--member", "a b", "--text", "--json"]).json();
    assert_eq!(place.loopforge(&["state", &run, "get", "m", "a b", "--json"]).json(), "3");
    let records = place.loopforge(&["trace", &run, "--json"]).json_lines();
    let last = &records[records.len() - 1];
    assert_eq!(last["seq"], set["seq"]);
    assert_eq!((last["kind"].as_str(), last.get("branch"), last.get("step")), (Some("state_saved"), None, None));

    for key in ["a-b", "1a", "inputs", "told[x]", ""] {
        let said = place.loopforge(&["state", &run, "set", key, "1"]);
        assert_eq!(said.code, 2, "{key}: {said:?}");
    }

    assert_eq!(place.loopforge(&["resolve", &run, "2", "--happened"]).code, 0);
    assert_eq!(place.loopforge(&["resume", &run]).code, 0);
    assert_eq!(place.loopforge(&["state", &run, "get", "heard", "--json"]).json(), "by \u{1b}[1m hand");

    let head = place.loopforge(&["show", "--json"]).json()["head"].clone();
    let said = place.loopforge(&["state", &run, "set", "told", "too late"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("has ended"), "{said:?}");
    assert_eq!(place.loopforge(&["show", "--json"]).json()["head"], head);
}
