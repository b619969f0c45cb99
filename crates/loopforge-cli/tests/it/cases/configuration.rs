//! What a run was started with is what it goes on with.

use super::{asked_step, killed, place, records, tally, told};

const KEYED: &str = "
tools:
  gate: { process: [sh, gate.sh, '{name}'], sandbox: off, effect: read }
  tally: { process: [sh, tally.sh, '{text}'], sandbox: off, effect_key: [text] }
subgoals:
  - id: tell
    on_failure: ask
    steps:
      - { call: tally, with: { text: hello }, save: told }
      - { call: gate, with: { name: a } }
      - { set: { passed: '${ true }' } }
";

/// CKP-08 (a)
#[test]
fn two_runs_of_the_same_task_share_nothing() {
    let place = place(KEYED);
    let first = place.loopforge(&["run", "task.yaml", "--json"]);
    let run = place.run();
    let second = place.loopforge(&["run", "task.yaml", "--json"]);
    let other = place.run();
    assert_eq!((first.code, second.code), (3, 3));
    assert_ne!(run, other);
    // Each made its own effect under its own token, although the effect's name in business terms is the same.
    let lines = tally(&place);
    assert_eq!((lines.len(), lines[0].0 == lines[1].0), (2, false));

    let before = records(&place, &other);
    place.write("open-a", "");
    assert_eq!(place.loopforge(&["resolve", &run, &asked_step(&first), "--continue"]).code, 0);
    assert_eq!(place.loopforge(&["resume", &run]).code, 0);
    assert_eq!(records(&place, &other), before, "the other one is where it was");
    assert_eq!(place.loopforge(&["state", &other, "get", "passed"]).code, 2);
    let folder = |run: &str| place.loopforge(&["show", run, "--json"]).json()["workspace"].clone();
    assert!(folder(&run).is_string());
    assert_ne!(folder(&run), folder(&other));
}

/// CKP-08 (b): the difference is told with both values, and refused; a person says which task it is to be.
#[test]
fn a_changed_task_file_changes_no_run_unless_it_is_accepted() {
    let task = "
tools:
  TOOLS
subgoals:
  - id: tell
    on_failure: ask
    steps:
      - { call: tally, with: { text: first } }
      - { call: gate, with: { name: a } }
      - { call: tally, with: { text: second } }
";
    for accept in [false, true] {
        let place = place(task);
        let said = place.loopforge(&["run", "task.yaml", "--json"]);
        assert_eq!(said.code, 3, "the gate is closed: {said:?}");
        place.write("open-a", "");
        let run = place.run();
        assert_eq!(place.loopforge(&["resolve", &run, &asked_step(&said), "--continue"]).code, 0);
        let hash = |of: &[u8]| loopforge_core::id::ContentHash::of(of).to_string();
        let text = std::fs::read_to_string(place.path().join("task.yaml")).unwrap();
        let changed = text.replace("text: second", "text: changed").replace("goal: Be tested.", "goal: Be another.");
        assert_ne!(changed, text);
        place.write("task.yaml", &changed);

        let before = records(&place, &run);
        let said = place.loopforge(&["resume", "--json"]);
        assert_eq!(said.code, 2, "{said:?}");
        for part in [
            &hash(text.as_bytes()),
            &hash(changed.as_bytes()),
            "`goal` changed; subgoal `tell` changed",
            "--accept-changes",
            "--stored-task",
        ] {
            assert!(said.err.contains(part), "{part}: {said:?}");
        }
        assert_eq!(records(&place, &run), before, "nothing was changed");

        let said = place.loopforge(&["resume", if accept { "--accept-changes" } else { "--stored-task" }]);
        assert_eq!(said.code, 0, "{said:?}");
        let now = place.loopforge(&["show", "--json"]).json();
        let accepted: Vec<_> =
            records(&place, &run).into_iter().filter(|record| record["kind"] == "changes_accepted").collect();
        if accept {
            assert!(said.err.contains("with the task that was accepted"), "{said:?}");
            assert_eq!(told(&place), ["first", "changed"]);
            assert_eq!(
                (now["task"].as_str(), now["goal"].as_str()),
                (Some(&*hash(changed.as_bytes())), Some("Be another."))
            );
            assert_eq!((accepted.len(), accepted[0]["by"].as_str()), (1, Some("tester")));
            assert_eq!(accepted[0]["task"]["from"]["hash"], hash(text.as_bytes()).as_str());
            assert!(place.loopforge(&["trace", &run]).out.contains("tester accepts: task "));
            // Another store takes it over with both tasks.
            let other = crate::look::Place::new();
            other.write("run.jsonl", &place.loopforge(&["export"]).out);
            assert_eq!(other.loopforge(&["import", "run.jsonl"]).code, 0);
            assert_eq!(other.loopforge(&["export"]).out, place.loopforge(&["export"]).out);
        } else {
            assert!(said.err.contains("as it was when the run started"), "{said:?}");
            assert_eq!(told(&place), ["first", "second"]);
            assert_eq!((now["task"].as_str(), accepted.len()), (Some(&*hash(text.as_bytes())), 0));
        }
        assert_eq!(place.loopforge(&["doctor"]).code, 0);
    }
}

/// What was done, or may have been done, was decided by the task as it was: that part must stay. Also when a checkpoint is folded from.
#[test]
fn a_change_of_what_was_done_is_refused_and_an_accepted_one_outlasts_a_crash() {
    let task = "
tools:
  TOOLS
loop: { checkpoint_interval: 1 }
subgoals:
  - { id: first, steps: [{ call: tally, with: { text: first } }] }
  - { id: then, needs: [first], on_failure: ask, steps: [{ call: tally, with: { text: then } }, { call: gate, with: { name: a } }] }
  - { id: last, needs: [then], steps: [{ call: tally, with: { text: last } }] }
";
    let place = place(task);
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 3, "the gate is closed");
    let run = place.run();
    let text = std::fs::read_to_string(place.path().join("task.yaml")).unwrap();
    for (from, to, why) in [
        (
            "  - { id: first, steps: [{ call: tally, with: { text: first } }] }\n",
            "",
            "subgoal `first` is done, and is not there any more",
        ),
        ("text: first", "text: other", "subgoal `first` is done, and its `steps` changed"),
        ("text: then", "text: other", "step entry 1 of subgoal `then` is done or at work, and changed"),
        ("tools:", "inputs: { more: {} }\ntools:", "input `more` is new"),
        (
            "subgoals:",
            "states: { initial: A, transitions: { A: [] } }\nsubgoals:",
            "the lifecycle begins in another state",
        ),
    ] {
        let changed = text.replace(from, to).replace(if to.is_empty() { "needs: [first], " } else { "\u{0}" }, "");
        assert_ne!(changed, text);
        place.write("task.yaml", &changed);
        let said = place.loopforge(&["resume", "--accept-changes"]);
        assert!(said.code == 2 && said.err.contains(why) && !said.err.contains("--accept-changes"), "{why}: {said:?}");
    }
    place.write("task.yaml", "name: [");
    let said = place.loopforge(&["resume", "--accept-changes"]);
    assert!(said.code == 2 && said.err.contains("--stored-task"), "{said:?}");

    // The part to come may change, also its order, and what was not there at all.
    let new = "  - { id: new, steps: [{ call: tally, with: { text: new } }] }\n  - { id: first,";
    let changed =
        text.replace("name: a", "name: b").replace("text: last", "text: end").replace("  - { id: first,", new);
    place.write("elsewhere.yaml", &changed);
    place.write("task.yaml", &text);
    place.write("open-b", "");
    let said = place.loopforge(&["show", "--json"]).json();
    let step = said["questions"][0]["step"].to_string();
    assert_eq!(place.loopforge(&["resolve", &run, &step, "--continue"]).code, 0);
    // It dies when the change is archived and nothing was done by it.
    let at = place.loopforge(&["show", "--json"]).json()["head"].as_u64().unwrap() + 2;
    killed(&place, &["resume", "--task", "elsewhere.yaml", "--accept-changes"], &format!("record:{at}:after"));
    std::fs::remove_file(place.path().join("task.yaml")).unwrap();
    let said = place.loopforge(&["resume"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("from the checkpoint at record"), "{said:?}");
    let mut told = told(&place);
    told.sort();
    assert_eq!(told, ["end", "first", "new", "then"]);
    assert_eq!(place.loopforge(&["doctor"]).code, 0);
    assert_eq!(place.loopforge(&["graph"]).code, 0);
}

/// A run that another version worked on last: told with both numbers; refused unless it is a later one of the same series, or accepted.
#[test]
fn another_version_is_told_and_refused_unless_it_is_accepted() {
    let task = "
tools:
  TOOLS
subgoals: [{ id: tell, steps: [{ call: tally, with: { text: first } }, { call: tally, with: { text: second } }] }]
";
    for (version, compatible) in [("0.0.9", false), ("99.0.0", false), (env!("CARGO_PKG_VERSION"), true)] {
        let from = place(task);
        killed(&from, &["run", "task.yaml"], "record:4:before");
        let own = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
        let export = from.loopforge(&["export"]).out.replace(&own, &format!("\"version\":\"{version}\""));
        let mut lines: Vec<&str> = export.lines().collect();
        let end = lines.pop().unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut end: serde_json::Value = serde_json::from_str(end).unwrap();
        end["end"]["hash"] = blake3::hash(text.as_bytes()).to_hex().as_str().into();
        from.write("run.jsonl", &format!("{text}{end}\n"));
        std::fs::remove_dir_all(from.path().join(".loopforge")).unwrap();
        assert_eq!(from.loopforge(&["import", "run.jsonl"]).code, 0);

        if !compatible {
            let said = from.loopforge(&["resume"]);
            assert_eq!(said.code, 2, "{said:?}");
            let both = format!("last worked on by LoopForge {version}, and this is {}", env!("CARGO_PKG_VERSION"));
            assert!(said.err.contains(&both) && said.err.contains("--accept-changes"), "{said:?}");
            assert_eq!(told(&from), [""; 0]);
            assert_eq!(from.loopforge(&["resume", "--accept-changes"]).code, 0);
            let all = records(&from, &from.run());
            let accepted = all.iter().find(|record| record["kind"] == "changes_accepted").unwrap();
            assert_eq!(accepted["version"]["from"], version);
        } else {
            assert_eq!(from.loopforge(&["resume"]).code, 0);
        }
        assert_eq!(told(&from), ["first", "second"]);
    }
}

/// CKP-08 (b): a tool that is no longer there is an error with its name, and no way around it.
#[test]
fn a_tool_that_is_gone_fails_by_name() {
    let place = place(
        "
tools:
  tally: { process: [sh, tally.sh, '{text}'], sandbox: off }
  own: { process: [./own.sh], sandbox: off, effect: read }
subgoals:
  - id: tell
    on_failure: ask
    steps:
      - { call: tally, with: { text: first } }
      - { call: own }
      - { call: tally, with: { text: second } }
",
    );
    let own = place.path().join("own.sh");
    place.write("own.sh", "#!/bin/sh\necho '{}'\n");
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    killed(&place, &["run", "task.yaml"], "call:2:before");
    std::fs::remove_file(&own).unwrap();
    let said = place.loopforge(&["resume"]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.err.contains("own.sh"), "{said:?}");
    assert_eq!(told(&place), ["first"], "nothing was done beyond it");
}
