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
    assert_eq!(last["by"], "tester");
    assert!(place.loopforge(&["trace", &run]).out.contains("(by tester)"));

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

/// An effect whose owner is gone is unknown: nobody will say any more what came of it. While it is there, it is started.
#[test]
fn an_effect_of_an_owner_that_is_gone_is_unknown() {
    let place = Place::new();
    let slow = TASK.replace("timeout: 300ms", "timeout: 5m").replace("sleep 600", "touch began; sleep 600");
    place.write("task.yaml", &slow);
    let mut run = place
        .command(&["run", "task.yaml"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    super::until("the call", || place.path().join("began").exists());
    let state = || place.loopforge(&["effects", "--json"]).json()["effects"][0]["state"].clone();
    assert_eq!(state(), "started");
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(state(), "unknown");
    assert!(place.loopforge(&["effects"]).out.contains("unknown"));
}

/// A long reason is read to its end with `--full`, and `--last` is the last run.
#[test]
fn a_long_reason_is_shown_as_a_whole() {
    let place = Place::new();
    let talkative = "i=0; while [ $i -lt 500 ]; do printf 'word%s ' $i >&2; i=$((i+1)); done; kill -9 $$";
    place.write("task.yaml", &TASK.replace("sleep 600", talkative).replace("timeout: 300ms", "timeout: 5m"));
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 3);
    let run = place.run();
    let full = place.loopforge(&["trace", &run, "2", "--full"]).out;
    let unknown = full.lines().find(|line| line.contains("action unknown")).unwrap();
    assert!(unknown.contains("word499"), "{unknown}");
    assert_eq!(place.loopforge(&["trace", "--last", "2", "--full"]).out, full);
    assert_eq!(place.loopforge(&["trace", "--last"]).out, place.loopforge(&["trace", &run]).out);
    assert_eq!(place.loopforge(&["trace", "--last", "x"]).code, 2);
    assert_eq!(place.loopforge(&["trace", "--last", "--full"]).code, 2);
    let told = |arguments: &[&str]| place.loopforge(arguments).out;
    assert_eq!(told(&["state", "--last", "get", "told"]), told(&["state", &run, "get", "told"]));
    assert_eq!(told(&["state"]), told(&["state", &run]));
    assert_eq!(told(&["state", "get", "told"]), "not yet\n");
}

/// Programs get an error that they can read, also for what was typed wrongly.
#[test]
fn mistakes_of_usage_are_a_document_with_json() {
    let place = Place::new();
    for arguments in [&["shew", "--json"][..], &["--json", "resolve", "x", "1", "--nope"], &["run", "--json"]] {
        let said = place.loopforge(arguments);
        assert_eq!(said.code, 2, "{said:?}");
        let error = &said.json()["error"];
        assert_eq!(error["exit"], 2);
        assert!(!error["message"].as_str().unwrap().is_empty() && error["hints"].is_array(), "{said:?}");
        assert!(said.err.contains("error: "), "{said:?}");
    }
    let said = place.loopforge(&["shew"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    let said = place.loopforge(&["schema", "--json"]);
    assert_eq!(said.out.lines().count(), 1);
    assert!(said.json()["properties"].is_object());
}
