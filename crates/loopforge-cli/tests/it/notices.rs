//! Notices that the program itself sends: to a command, and to its log.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

const TASK: &str = "
name: notices
goal: Tell of the end.
subgoals: [{ id: a, steps: [{ set: { x: 1 } }] }]
hooks:
  - { on: finished, do: log_state_summary, process: [sh, -c, 'cat >> notices.jsonl'] }
  - { on: step_completed, process: [sh, -c, 'exit 3'] }
";

#[test]
fn a_command_gets_the_notice_and_a_failing_one_does_not_hold_the_run_up() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("task.yaml"), TASK).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_loopforge"))
        .args(["run", "task.yaml", "--json"])
        .current_dir(folder.path())
        .env_remove("LOOPFORGE_STORE")
        .env_remove("LOOPFORGE_LOG")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("loopforge::hook") && said.contains("subgoals"), "{said}");

    let notices = std::fs::read_to_string(folder.path().join("notices.jsonl")).unwrap();
    let notice: Value = serde_json::from_str(&notices).unwrap();
    assert_eq!((&notice["on"], &notice["status"]), (&"finished".into(), &"succeeded".into()));
    assert_eq!(notice["subgoals"]["a"]["status"], "done");

    let sent: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|record: &Value| record["kind"] == "hook_sent")
        .collect();
    assert_eq!(sent.len(), 2);
    for sent in sent {
        assert_eq!(sent["via"], "process");
        assert_eq!(sent["error"].is_null(), sent["hook"] == 0, "{sent}");
        assert!(sent["hook"] != 0 || sent["delivery"] == notice["delivery"]);
    }
}
