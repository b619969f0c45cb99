//! Circles and limits.

use super::{place, positions, records, told};

/// LUP-01, LUP-06: a repeated write pauses the run at the third, by name; after a person's word it goes on from there.
#[test]
fn a_repeated_call_is_stopped_with_its_name_and_a_way_out() {
    let place = place(
        "
inputs: { items: { value: [1, 2, 3, 4, 5] } }
tools:
  TOOLS
subgoals:
  - id: tell
    foreach: { in: inputs.items, as: item }
    steps: [{ call: tally, with: { text: same }, save: 'told[string(item)]' }]
hooks: [{ on: loop_exceeded, do: pause_and_alert }]
",
    );
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("circle") && said.err.contains("tally"), "{said:?}");
    assert_eq!(told(&place).len(), 3);
    let run = place.run();
    // A fresh process neither forgets it nor fires anew.
    assert_eq!(place.loopforge(&["resume", &run]).code, 3);
    assert_eq!(told(&place).len(), 3);
    assert_eq!(place.loopforge(&["resolve", &run, "--continue"]).code, 0);
    let said = place.loopforge(&["resume", &run]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(told(&place).len(), 5);
    assert_eq!(positions(&records(&place, &run), "loop_found").len(), 1);
    let kept = place.loopforge(&["state", &run, "get", "told", "--json"]).json();
    assert_eq!(kept.as_object().unwrap().len(), 5, "what was found before the circle is kept");
}

/// LUP-09
#[test]
fn at_the_limit_the_parts_are_kept_and_a_higher_one_runs_the_rest() {
    let place = place(
        "
inputs: { items: { value: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] } }
loop: { max_steps: 10 }
tools:
  TOOLS
subgoals:
  - id: tell
    foreach: { in: inputs.items, as: item }
    steps: [{ call: tally, with: { text: '${ string(item) }' }, save: 'told[string(item)]' }]
",
    );
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("stopped at `max_steps`") && said.err.contains("--max-steps N"), "{said:?}");
    let run = place.run();
    let shown = place.loopforge(&["show", &run]).out;
    assert!(shown.contains("max_steps") && shown.contains("10"), "{shown}");
    let parts = || place.loopforge(&["state", &run, "get", "told", "--json"]).json().as_object().unwrap().len();
    assert_eq!((told(&place).len(), parts()), (10, 10));

    assert_eq!(place.loopforge(&["resume", &run]).code, 4, "without a higher limit it stays where it is");
    let said = place.loopforge(&["resume", &run, "--max-steps", "60"]);
    assert_eq!(said.code, 0, "{said:?}");
    let all: Vec<String> = (1..=14).map(|item| item.to_string()).collect();
    assert_eq!(told(&place), all);
    assert_eq!(parts(), 14);
}
