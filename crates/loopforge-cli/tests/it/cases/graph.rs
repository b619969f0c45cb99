//! Subgoals that need each other.

use serde_json::Value;

use super::{killed, place, positions, records, told};

/// GRF-03: a subgoal whose needs were met in a process that is gone starts in the next one, once; also one that stands in the file
/// before what it needs.
#[test]
fn a_subgoal_starts_although_its_needs_were_met_long_before() {
    let task = "
tools:
  tally: { process: [sh, tally.sh, '{text}'], sandbox: off, idempotent: true }
subgoals:
  - { id: last, needs: [left, right], steps: [{ call: tally, with: { text: last } }] }
  - { id: right, needs: [first], steps: [{ call: tally, with: { text: right } }] }
  - { id: left, needs: [first], steps: [{ call: tally, with: { text: left } }] }
  - { id: first, steps: [{ call: tally, with: { text: first } }] }
loop: { parallel: 1 }
";
    let undisturbed = place(task);
    assert_eq!(undisturbed.loopforge(&["run", "task.yaml"]).code, 0);
    let recorded = records(&undisturbed, &undisturbed.run());
    let order = told(&undisturbed);
    assert_eq!((order[0].as_str(), order[3].as_str()), ("first", "last"));
    let ends = positions(&recorded, "subgoal_ended");
    assert_eq!(ends.len(), 4);
    // With the last of them the run has ended.
    for end in &ends[..3] {
        let place = place(task);
        killed(&place, &["run", "task.yaml"], &format!("record:{end}:after"));
        let said = place.loopforge(&["resume"]);
        assert_eq!(said.code, 0, "killed after record {end}: {said:?}");
        assert_eq!(told(&place), order, "killed after record {end}");
        let started = positions(&records(&place, &place.run()), "subgoal_started");
        assert_eq!(started.len(), 4, "each once");
    }
}

/// GRF-10, as far as there are no child agents: a branch that hangs has a deadline, and holds up no result of another.
#[test]
fn a_hung_branch_ends_at_its_deadline_and_its_sibling_is_not_held_up() {
    let place = place(
        r#"
tools:
  TOOLS
  hang: { process: [sh, -c, "sleep 600"], sandbox: off, effect: read, timeout: 1500ms, retry: { max_attempts: 1 } }
subgoals:
  - { id: hung, steps: [{ call: hang }] }
  - { id: healthy, steps: [{ call: tally, with: { text: healthy }, save: healthy }] }
  - { id: both, needs: [hung, healthy], steps: [{ call: tally, with: { text: both } }] }
"#,
    );
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 1, "{said:?}");
    let run = place.run();
    let ended: Vec<Value> =
        records(&place, &run).into_iter().filter(|record| record["kind"] == "subgoal_ended").collect();
    let outcomes: Vec<_> =
        ended.iter().map(|end| (end["subgoal"].as_str().unwrap(), end["outcome"].as_str().unwrap())).collect();
    assert_eq!(
        outcomes,
        [("healthy", "done"), ("hung", "failed"), ("both", "blocked")],
        "one end each, the healthy one first"
    );
    assert!(ended[1]["reason"].as_str().unwrap().contains("timeout"), "{}", ended[1]);
    assert_eq!(place.loopforge(&["state", &run, "get", "healthy", "--json"]).json()["text"], "healthy");
    assert_eq!(told(&place), ["healthy"]);
}
