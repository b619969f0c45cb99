//! Two processes that want the same run.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{asked_step, place, positions, records, told};
use crate::look::{Said, until};

/// QUE-01: a step lasts for several leases. The lease is renewed meanwhile, so nobody else gets the run, and it is carried out once.
#[test]
fn a_step_that_lasts_longer_than_the_lease_is_nobody_elses() {
    let place = place(
        r#"
tools:
  TOOLS
  hold: { process: [sh, -c, "touch held; while [ ! -e go ]; do sleep 0.05; done; echo {}"], sandbox: off, effect: read, timeout: 5m }
subgoals: [{ id: all, steps: [{ call: tally, with: { text: first } }, { call: hold }, { call: tally, with: { text: second } }] }]
"#,
    );
    let mut run = place
        .command(&["run", "task.yaml"])
        .env("LOOPFORGE_LEASE_SECONDS", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("a held step", || place.path().join("held").exists());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let said = place.loopforge(&["resume"]);
        assert!(said.code == 5 && said.err.contains("is held by process"), "{said:?}");
        assert_eq!(place.loopforge(&["show", "--json"]).json()["status"], "running");
    }
    place.write("go", "");
    assert!(run.wait().unwrap().success());
    assert_eq!(told(&place), ["first", "second"]);
    assert_eq!(positions(&records(&place, &place.run()), "run_resumed").len(), 0);
}

/// QUE-08: two people answer the same question at the same moment. One answer counts; the other person is told.
#[test]
fn two_answers_at_once_are_one_answer() {
    let task = r#"
tools:
  TOOLS
subgoals:
  - id: tell
    on_failure: ask
    steps: [{ call: gate, with: { name: a } }, { call: tally, with: { text: after } }]
"#;
    for _ in 0..5 {
        let place = place(task);
        let asked = place.loopforge(&["run", "task.yaml", "--json"]);
        let (run, step) = (place.run(), asked_step(&asked));
        place.write("open-a", "");
        let answer = |answer: &str| -> Child {
            place
                .command(&["resolve", &run, &step, answer])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let both = [answer("--continue"), answer("--skip")];
        let said = both.map(|child| Said::of(child.wait_with_output().unwrap()));
        assert_eq!(said.iter().filter(|said| said.code == 0).count(), 1, "{said:?}");
        let other = said.iter().find(|said| said.code != 0).unwrap();
        assert!(other.err.contains("no open question") || other.err.contains("is held by"), "{other:?}");
        let answered = positions(&records(&place, &run), "question_answered");
        assert_eq!(answered.len(), 1);
        let skipped = said[1].code == 0;
        let ended = place.loopforge(&["resume", &run]);
        assert_eq!(told(&place), if skipped { vec![] } else { vec!["after"] }, "{ended:?}");
    }
}
