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

/// CKP-08 (b)
#[test]
fn a_changed_task_file_changes_no_run() {
    let task = "
tools:
  TOOLS
subgoals:
  - id: tell
    steps:
      - { call: tally, with: { text: first } }
      - { call: tally, with: { text: second } }
";
    let place = place(task);
    killed(&place, &["run", "task.yaml"], "call:2:before");
    let hash = place.loopforge(&["export"]).json_lines()[0]["header"]["task_hash"].clone();
    let text = std::fs::read_to_string(place.path().join("task.yaml")).unwrap();
    let changed = text.replace("text: second", "text: changed").replace("goal: Be tested.", "goal: Be another.");
    assert_ne!(changed, text);
    place.write("task.yaml", &changed);

    // The write at hand when the process died is not repeated without being asked about.
    let said = place.loopforge(&["resume", "--json"]);
    assert_eq!(said.code, 3, "{said:?}");
    let run = place.run();
    assert_eq!(place.loopforge(&["resolve", &run, &asked_step(&said), "--not"]).code, 0);
    let said = place.loopforge(&["resume"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("as it was when the run started"), "{said:?}");
    assert_eq!(told(&place), ["first", "second"]);
    assert_eq!(place.loopforge(&["export"]).json_lines()[0]["header"]["task_hash"], hash);
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
