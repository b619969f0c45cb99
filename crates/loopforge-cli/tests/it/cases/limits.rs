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

/// LUP-03: a cycle of two calls is found in three rounds, although the arguments are written in other ways and each answer has another
/// time in it.
#[test]
fn a_cycle_is_found_however_it_is_written() {
    let place = place(
        r#"
inputs: { asks: { value: [{ a: 1, b: x }, { b: x, a: 1.0 }, { a: 1, b: x }, { b: x, a: 1 }, { a: 1, b: x }] } }
tools:
  look: { process: [sh, look.sh], sandbox: off, effect: read, volatile: [/at], input_schema: { type: object } }
  list: { process: [sh, look.sh], sandbox: off, effect: read, volatile: [/at], input_schema: { type: object } }
subgoals:
  - id: look
    foreach: { in: inputs.asks, as: ask }
    steps:
      - { call: look, with: { query: "${ ask }" } }
      - { call: list, with: { query: "${ ask }" } }
hooks: [{ on: loop_exceeded, do: pause_and_alert }]
"#,
    );
    place.write("look.sh", "echo look >>looks.txt\necho \"{\\\"at\\\":$(date +%s%N),\\\"found\\\":true}\"\n");
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 3, "{said:?}");
    let looks = std::fs::read_to_string(place.path().join("looks.txt")).unwrap();
    assert_eq!(looks.lines().count(), 6);
    let records = records(&place, &place.run());
    let found = records.iter().find(|record| record["kind"] == "loop_found").unwrap();
    assert_eq!((&found["period"], &found["rounds"]), (&2.into(), &3.into()), "{found}");
}

/// LUP-03: ever new questions that bring nothing are no repetition, and no progress either.
#[test]
fn questions_that_bring_nothing_are_found_by_their_number() {
    let place = place(
        r#"
inputs: { words: { value: [a, b, c, d, e, f, g, h, i, j, k, l] } }
tools:
  find: { process: [sh, -c, "echo \"$0\" >>asked.txt; echo 'not found' >&2; exit 66", "{word}"], sandbox: off, effect: read }
loop: { max_continuous_loops: 5 }
subgoals:
  - id: find
    foreach: { in: inputs.words, as: word }
    steps: [{ call: find, with: { word: "${ word }" } }]
    on_failure: defer
hooks: [{ on: loop_exceeded, do: pause_and_alert }]
"#,
    );
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert_eq!(std::fs::read_to_string(place.path().join("asked.txt")).unwrap().lines().count(), 5);
    let records = records(&place, &place.run());
    let found = records.iter().find(|record| record["kind"] == "loop_found").unwrap();
    assert_eq!((found["what"].as_str(), &found["rounds"]), (Some("fruitless"), &5.into()), "{found}");
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
