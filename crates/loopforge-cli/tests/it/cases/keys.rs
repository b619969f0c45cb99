//! Idempotency keys.

use super::{asked_step, killed, place, tally, told};

/// IDM-03: two sends, one before and one after a restart, differ; a send that is repeated after a restart has its key again.
#[test]
fn tokens_outlast_the_process_and_are_never_used_twice() {
    let task = "
tools:
  again: { process: [sh, tally.sh, '{text}'], sandbox: off, idempotent: true }
subgoals:
  - id: tell
    steps:
      - { call: again, with: { text: same } }
      - { call: again, with: { text: same } }
      - { call: again, with: { text: same } }
";
    let place = place(task);
    killed(&place, &["run", "task.yaml"], "call:2:after");
    let said = place.loopforge(&["resume"]);
    assert_eq!(said.code, 0, "{said:?}");
    let tokens: Vec<String> = tally(&place).into_iter().map(|(token, _)| token).collect();
    assert_eq!(tokens.len(), 4, "the second was made twice");
    assert_eq!(tokens[1], tokens[2], "with the same key, which its target honours");
    assert!(tokens[0] != tokens[1] && tokens[2] != tokens[3] && tokens[0] != tokens[3]);

    // Another run's keys are others.
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 0);
    let others = &tally(&place)[4..];
    assert_eq!(others.len(), 3);
    assert!(others.iter().all(|(token, _)| !tokens.contains(token)));
}

/// IDM-03: the same effect, however its arguments are written; before a restart and after it.
#[test]
fn an_effect_is_the_same_however_its_arguments_are_written() {
    let place = place(
        r#"
inputs:
  sends:
    value:
      - { order: { a: 1, b: 0 }, text: first }
      - { order: { b: 0, a: 1 }, text: keys in another order }
      - { order: { a: 1.0, b: -0.0 }, text: the same numbers }
      - { order: { a: 1, b: 0, c: null }, text: another }
      - { order: { a: "1", b: 0 }, text: a text }
tools:
  gate: { process: [sh, gate.sh, "{name}"], sandbox: off, effect: read }
  tally: { process: [sh, tally.sh, "{text}"], sandbox: off, effect_key: [order] }
subgoals:
  - id: before
    foreach: { in: inputs.sends, as: send }
    steps: [{ call: tally, with: { order: "${ send.order }", text: "${ send.text }" }, save: "results[send.text]" }]
  - id: pause
    needs: [before]
    on_failure: ask
    steps: [{ call: gate, with: { name: a } }]
  - id: after
    needs: [pause]
    foreach: { in: inputs.sends, as: send }
    steps: [{ call: tally, with: { text: "${ send.text + ' again' }", order: "${ send.order }" } }]
"#,
    );
    let said = place.loopforge(&["run", "task.yaml", "--json"]);
    assert_eq!(said.code, 3, "{said:?}");
    let once = ["first", "another", "a text"];
    assert_eq!(told(&place), once);
    place.write("open-a", "");
    assert_eq!(place.loopforge(&["resolve", &place.run(), &asked_step(&said), "--continue"]).code, 0);
    assert_eq!(place.loopforge(&["resume"]).code, 0);
    assert_eq!(told(&place), once, "a fresh process knows what was made");
    let results = place.loopforge(&["state", &place.run(), "get", "results", "--json"]).json();
    for text in ["first", "keys in another order", "the same numbers"] {
        assert_eq!(results[text]["text"], "first", "{results}");
    }
}
