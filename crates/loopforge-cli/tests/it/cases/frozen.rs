//! A process that was stopped for longer than its lease, with a command at work.

use std::process::Stdio;

use super::{place, signal, tally};
use crate::look::until;

/// A write that takes until it is let go, and a query whether it happened.
const SLOW: &str = r#"
tools:
  slow: { process: [sh, slow.sh], sandbox: off, timeout: 5m, status: { process: [sh, happened.sh, "{step_token}"] } }
subgoals: [{ id: all, steps: [{ call: slow }] }]
"#;

const SLOW_SH: &str = r#"
echo "$$" >>started.txt
while [ ! -e go ]; do sleep 0.05; done
echo "$LOOPFORGE_STEP_TOKEN made" >>tally.txt
echo '{}'
"#;

const HAPPENED_SH: &str = r#"
if grep -q "$1" tally.txt 2>/dev/null; then echo '{"happened":true}'; else echo '{"happened":false}'; fi
"#;

fn started(place: &crate::look::Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join("started.txt")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// QUE-02: the owner is stopped inside a call, and its command goes on without it. Whoever takes the run up ends that command before
/// it asks whether the effect happened; so the answer stays true, and the effect is made once. The old owner comes back and does nothing.
#[test]
fn a_command_of_a_stopped_owner_is_ended_before_its_effect_is_asked_about() {
    let place = place(SLOW);
    place.write("slow.sh", SLOW_SH);
    place.write("happened.sh", HAPPENED_SH);
    let old = place
        .command(&["run", "task.yaml"])
        .env("LOOPFORGE_LEASE_SECONDS", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the first call", || started(&place).len() == 1);
    signal("-STOP", old.id());
    until("a lease that has run out", || place.loopforge(&["show", "--json"]).json()["owner"].is_null());

    let mut new = place.command(&["resume"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the second call", || started(&place).len() == 2);
    let first = started(&place).remove(0);
    assert!(!std::path::Path::new(&format!("/proc/{first}")).exists(), "the first command is at work");
    place.write("go", "");
    assert!(new.wait().unwrap().success());
    assert_eq!(tally(&place).len(), 1, "the effect was made once");

    signal("-CONT", old.id());
    let said = old.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(5));
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("another worker has taken up"), "{said}");
    assert_eq!(tally(&place).len(), 1);
}

/// The same where the stopped owner is killed after its lease has run out: nothing says any more that it held the run.
#[test]
fn a_command_of_an_owner_that_dies_after_its_lease_is_waited_for() {
    let place = place(SLOW);
    // It ignores the polite signal, so it lives on for a second after its owner.
    place.write("slow.sh", &format!("trap '' TERM\n{SLOW_SH}"));
    place.write("happened.sh", HAPPENED_SH);
    let mut old = place
        .command(&["run", "task.yaml"])
        .env("LOOPFORGE_LEASE_SECONDS", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the first call", || started(&place).len() == 1);
    signal("-STOP", old.id());
    until("a lease that has run out", || place.loopforge(&["show", "--json"]).json()["owner"].is_null());
    old.kill().unwrap();
    old.wait().unwrap();
    let mut new = place.command(&["resume"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the second call", || started(&place).len() == 2);
    let first = started(&place).remove(0);
    assert!(!std::path::Path::new(&format!("/proc/{first}")).exists(), "the first command is at work");
    place.write("go", "");
    assert!(new.wait().unwrap().success());
    assert_eq!(tally(&place).len(), 1, "the effect was made once");
}
