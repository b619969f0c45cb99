//! Runs whose process is gone.

use std::process::Stdio;

use super::{place, told};
use crate::look::until;

/// CKP-05
#[test]
fn runs_of_a_killed_process_are_named_and_can_be_resumed_or_ended() {
    let place = place(
        r#"
inputs: { name: {} }
tools:
  TOOLS
  hold: { process: [sh, -c, "touch held-$0; while [ ! -e go-$0 ]; do sleep 0.05; done", "{name}"], sandbox: off, effect: read, timeout: 5m }
subgoals:
  - id: all
    steps:
      - { call: tally, with: { text: "${ inputs.name }" } }
      - { call: hold, with: { name: "${ inputs.name }" } }
"#,
    );
    let names = ["a", "b", "c"];
    let mut processes: Vec<_> = names
        .iter()
        .map(|name| {
            let input = format!("name={name}");
            let process = place
                .command(&["run", "task.yaml", "--input", &input])
                .env("LOOPFORGE_LEASE_SECONDS", "1")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            until("a held run", || place.path().join(format!("held-{name}")).exists());
            process
        })
        .collect();
    let listed = |place: &crate::look::Place| -> Vec<(String, String)> {
        let listed = place.loopforge(&["ls", "--json"]).json();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        listed["runs"].as_array().unwrap().iter().map(|run| (text(&run["run"]), text(&run["status"]))).collect()
    };
    assert!(listed(&place).iter().all(|(_, status)| status == "running"));
    for process in &mut processes {
        process.kill().unwrap();
        process.wait().unwrap();
    }

    // Nobody owns them: each is `interrupted`, and that is told with the way on, as soon as it can be known.
    until("three interrupted runs", || {
        let shown = place.loopforge(&["ls"]).out;
        shown.matches("interrupted").count() == 3
    });
    let runs = listed(&place);
    assert_eq!(runs.len(), 3);
    for (run, _) in &runs {
        let shown = place.loopforge(&["show", run]).out;
        assert!(shown.contains(&format!("loopforge resume {run}")), "{shown}");
    }
    // They are in nobody's way.
    place.write("go-d", "");
    assert_eq!(place.loopforge(&["run", "task.yaml", "--input", "name=d"]).code, 0);

    // The newest first: c is ended by a person, a and b go on.
    let said = place.loopforge(&["resolve", &runs[0].0, "--abort"]);
    assert_eq!(said.code, 0, "{said:?}");
    let said = place.loopforge(&["resume", &runs[0].0]);
    assert!(said.code == 2 && said.err.contains("cancelled"), "{said:?}");
    place.write("go-a", "");
    place.write("go-b", "");
    let said = place.loopforge(&["resume", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    let mut statuses: Vec<String> = listed(&place).into_iter().map(|(_, status)| status).collect();
    statuses.sort();
    assert_eq!(statuses, ["cancelled", "succeeded", "succeeded", "succeeded"]);
    assert_eq!(told(&place), ["a", "b", "c", "d"]);
}
