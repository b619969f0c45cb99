//! Pauses: what was done before them isn't done again, and the path after them is the one without them.

use super::{asked_step, killed, kinds, place, positions, records, told};

/// CKP-01: three effects with a person's word between them, each time from a fresh process.
#[test]
fn a_step_that_pauses_for_a_person_twice_repeats_nothing() {
    let place = place(
        "
tools:
  TOOLS
subgoals:
  - id: tell
    on_failure: ask
    steps:
      - { call: tally, with: { text: first } }
      - { call: gate, with: { name: a } }
      - { call: tally, with: { text: second } }
      - { call: gate, with: { name: b } }
      - { call: tally, with: { text: third } }
",
    );
    let mut said = place.loopforge(&["run", "task.yaml", "--json"]);
    for (told_before, gate) in [(1, "open-a"), (2, "open-b")] {
        assert_eq!(said.code, 3, "{said:?}");
        assert_eq!(told(&place).len(), told_before);
        // Nobody has answered: a fresh process finds the question, and nothing to do.
        assert_eq!(place.loopforge(&["resume"]).code, 3);
        assert_eq!(told(&place).len(), told_before);
        place.write(gate, "");
        let step = asked_step(&said);
        let answered = place.loopforge(&["resolve", &place.run(), &step, "--continue"]);
        assert_eq!(answered.code, 0, "{answered:?}");
        said = place.loopforge(&["resume", "--json"]);
    }
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(told(&place), ["first", "second", "third"]);
}

const WAITS: &str = "
tools:
  TOOLS
subgoals:
  - id: tell
    steps:
      - { call: tally, with: { text: first } }
      - wait: 300ms
      - { call: tally, with: { text: second } }
      - wait: 300ms
      - { call: tally, with: { text: third } }
";

/// CKP-01: the same with pauses that end by themselves, and a process that is killed in each of them.
#[test]
fn a_step_that_waits_twice_repeats_nothing() {
    let undisturbed = place(WAITS);
    assert_eq!(undisturbed.loopforge(&["run", "task.yaml"]).code, 0);
    let recorded = records(&undisturbed, &undisturbed.run());
    let waits = positions(&recorded, "wait_started");
    assert_eq!(waits.len(), 2);

    let place = place(WAITS);
    killed(&place, &["run", "task.yaml"], &format!("record:{}:after", waits[0]));
    assert_eq!(told(&place), ["first"]);
    // One record more by then: `run_resumed`.
    killed(&place, &["resume"], &format!("record:{}:after", waits[1] + 1));
    assert_eq!(told(&place), ["first", "second"]);
    assert_eq!(place.loopforge(&["resume"]).code, 0);
    assert_eq!(told(&place), ["first", "second", "third"]);

    let ended = records(&place, &place.run());
    let path: Vec<_> = kinds(&ended).into_iter().filter(|kind| *kind != "run_resumed").collect();
    assert_eq!(path, kinds(&recorded));
}

/// IDM-05: wherever the process ended, the cold one goes the same way; also where an answer was kept in memory, and beside another
/// run that has ended.
#[test]
fn a_cold_process_goes_the_same_way() {
    for cache in ["", ", cache: 1h"] {
        let task = format!(
            "
inputs: {{ items: {{ value: [1] }} }}
tools:
  look: {{ process: [echo, '{{}}'], sandbox: off, effect: read{cache} }}
loop: {{ checkpoint_interval: 2 }}
subgoals:
  - id: look
    foreach: {{ in: inputs.items, as: item }}
    steps:
      - {{ call: look, with: {{}}, save: seen }}
      - {{ set: {{ seen_last: '${{ item }}' }}, when: item > 0 }}
      - wait: 1ms
  - id: end
    needs: [look]
    steps: [{{ call: look, with: {{}} }}, {{ set: {{ end: '${{ state.seen_last }}' }} }}]
"
        );
        let place = place(&task);
        assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 0);
        let recorded = records(&place, &place.run());
        let recorded = kinds(&recorded);
        for seq in 2..=recorded.len() {
            killed(&place, &["run", "task.yaml"], &format!("record:{seq}:before"));
            let said = place.loopforge(&["resume"]);
            assert_eq!(said.code, 0, "{seq}: {said:?}");
            let all = records(&place, &place.run());
            let path: Vec<_> = kinds(&all).into_iter().filter(|kind| *kind != "run_resumed").collect();
            assert_eq!(path, recorded, "killed before record {seq}{cache}");
        }
    }
}
