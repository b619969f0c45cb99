//! Subgoals that need each other.

use serde_json::Value;

use super::{place, records, told};

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
