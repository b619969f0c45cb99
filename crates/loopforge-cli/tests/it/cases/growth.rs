//! Long runs.

use std::fmt::Write as _;

use super::place;
use crate::look::Place;

/// The numbers from 1, as a list of a task file.
fn numbers(count: u64) -> String {
    (1..=count).fold(String::new(), |mut list, number| {
        let _ = write!(list, "{number},");
        list
    })
}

fn stored(place: &Place) -> u64 {
    std::fs::metadata(place.store()).unwrap().len()
}

/// CKP-10: a fresh 20 KB result each step that nothing can shrink. The store grows with what is new.
#[test]
fn four_hundred_steps_cost_twice_what_two_hundred_do() {
    const NEW: u64 = 15_000;
    let place = place(&format!(
        r#"
inputs: {{ items: {{ value: [{}] }} }}
loop: {{ max_steps: 100 }}
tools:
  page: {{ process: [sh, -c, "head -c {NEW} /dev/urandom | base64 -w0"], sandbox: off, effect: read }}
subgoals:
  - id: fetch
    foreach: {{ in: inputs.items, as: item }}
    steps: [{{ call: page, save: 'pages[string(item)]' }}]
"#,
        numbers(400)
    ));
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 4);
    let at_100 = stored(&place);
    assert_eq!(place.loopforge(&["resume", "--max-steps", "200"]).code, 4);
    let at_200 = stored(&place);
    assert_eq!(place.loopforge(&["resume", "--max-steps", "1000"]).code, 0);
    let at_400 = stored(&place);
    // Base64 can be shrunk to what it is made of, and not below.
    assert!(at_100 > 100 * NEW, "{at_100}");
    let (second, third) = (at_200 - at_100, (at_400 - at_200) / 2);
    for (what, grown) in [("the first", at_100), ("the second", second), ("each of the last two", third)] {
        assert!(grown < 100 * NEW * 13 / 10, "{what} hundred steps: {grown} bytes");
    }
    assert!(third * 10 <= second * 11, "{at_100}, {at_200}, {at_400} bytes");
}
