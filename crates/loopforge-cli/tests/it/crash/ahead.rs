//! Kills while reads run ahead of the disk: what was shown stays, and the rest is made again.

use std::time::Duration;

use super::bench::{Bench, Ended, Summary};

/// Reads that end at once, so that appends pile up; then a write, which waits for all of them.
const TASK: &str = "
name: ahead
goal: Read much, then write once.
inputs: { items: { value: ITEMS } }
loop: { max_steps: 200 }
tools:
  html_to_markdown: { builtin: html_to_markdown }
  plain: { process: [sh, tally.sh, plain, '{text}'], sandbox: off }
subgoals:
  - id: read
    foreach: { in: inputs.items, as: item, parallel: 2 }
    steps: [{ call: html_to_markdown, with: { html: '<h1>${ item }</h1>' }, save: 'pages[string(item)]' }]
  - id: write
    needs: [read]
    steps: [{ call: plain, with: { text: 'all-${ size(state.pages) }' } }]
evaluator: { criteria: [size(state.pages) == size(inputs.items)] }
";

/// Steps of reads.
const ITEMS: usize = 60;

fn bench() -> Bench {
    let items: Vec<_> = (0..ITEMS).collect();
    let task = TASK.replace("ITEMS", &format!("{items:?}"));
    Bench::new(&[("task.yaml", &task), ("tally.sh", include_str!("tally.sh"))], &[])
}

#[test]
fn whatever_was_shown_before_a_kill_is_archived_and_the_write_is_made_once() {
    /// Kills spread over the records, and as many at instants.
    const KILLS: usize = 12;
    let written = [format!("all-{ITEMS}")];
    let undisturbed = bench();
    let ended = undisturbed.run(None);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    assert_eq!(undisturbed.written(), written);
    let (reference, records) = (undisturbed.summary(), undisturbed.records().len());
    assert_eq!(ended.shown.len(), records, "all is shown in the end");
    for kill in 1..=KILLS {
        for when in ["before", "after"] {
            let place = format!("record:{}:{when}", records * kill / (KILLS + 1));
            let bench = bench();
            let ended = bench.run(Some(&place));
            assert!(ended.was_killed(), "{place}: {}", ended.said);
            check(&bench, &ended, &place, &written, &reference);
        }
        let bench = bench();
        // From the start of the program to the middle of its reads, on a slow machine as on a fast one.
        let ended = bench.kill_after(Duration::from_millis(kill as u64 * 12));
        check(&bench, &ended, "an instant", &written, &reference);
    }
}

fn check(bench: &Bench, ended: &Ended, place: &str, written: &[String], reference: &Summary) {
    bench.assert_archived(&ended.shown);
    let recorded = bench.records();
    bench.finish();
    assert_eq!(bench.written(), written, "{place}");
    assert_eq!(&bench.summary(), reference, "{place}");
    bench.assert_kept(&recorded);
}
