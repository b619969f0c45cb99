//! A kill at every place: before and after every append, before and after every call.

use loopforge_core::record::Record;

use super::bench::{Bench, Summary};
use super::{WRITTEN, writes};

/// Places of one process, in order. The next one of a record depends on where the process was killed.
pub(super) fn for_each_place(mut try_at: impl FnMut(&str) -> Option<u64>) -> usize {
    let mut places = 0;
    // Several records go in one append: after a kill, the next boundary is behind the last record that is there.
    let mut next = 1;
    while let Some(head) = try_at(&format!("record:{next}:after")) {
        assert!(head >= next, "record {next} was committed, and there are only {head}");
        places += 1;
        if try_at(&format!("record:{next}:before")).is_some() {
            places += 1;
        }
        next = head + 1;
    }
    for when in ["before", "after"] {
        for number in 1.. {
            if try_at(&format!("call:{number}:{when}")).is_none() {
                break;
            }
            places += 1;
        }
    }
    places
}

fn uninterrupted() -> Summary {
    let bench = writes(1);
    let ended = bench.run(None);
    // The plain tool is asked nothing here: nobody was killed.
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    assert_eq!(bench.written(), WRITTEN);
    bench.summary()
}

fn check(bench: &Bench, reference: &Summary, recorded: &[Record], place: &str) {
    bench.finish();
    assert_eq!(bench.written(), WRITTEN, "{place}");
    assert_eq!(&bench.summary(), reference, "{place}");
    bench.assert_kept(recorded);
}

/// CKP-04, R39, R40, R42.
#[test]
fn a_kill_at_every_place_ends_in_the_same_state_with_every_effect_once() {
    let reference = uninterrupted();
    let places = for_each_place(|place| {
        let bench = writes(1);
        let ended = bench.run(Some(place));
        if !ended.was_killed() {
            assert_eq!(ended.status.code(), Some(0), "{place}: {}", ended.said);
            return None;
        }
        let recorded = bench.records();
        check(&bench, &reference, &recorded, place);
        Some(recorded.len() as u64)
    });
    // At least the append between two writes (outcome, verdict and next intent), and the call, on both sides.
    assert!(places >= 6 * 4, "{places}");
}

/// R39: a crash of the resume is a crash like any other.
#[test]
fn a_second_kill_in_the_resume_changes_nothing() {
    let reference = uninterrupted();
    // In the middle of each kind of write: its intent is archived, its call has returned, its outcome is not archived.
    for call in 1..=3 {
        let first = format!("call:{call}:after");
        let places = for_each_place_after(&first, |bench, place| {
            let recorded = bench.records();
            let ended = bench.resume(Some(place));
            if !ended.was_killed() {
                return None;
            }
            bench.assert_kept(&recorded);
            let recorded = bench.records();
            check(bench, &reference, &recorded, &format!("{first}, then {place}"));
            Some(recorded.len() as u64)
        });
        assert!(places >= 4, "{places}");
    }
}

/// Kills a fresh run at `first`, then tries places of its resume: those of the first records, and of the first two calls.
fn for_each_place_after(first: &str, mut try_at: impl FnMut(&Bench, &str) -> Option<u64>) -> usize {
    /// Where things differ from a first run: the takeover, the settling of what is unknown, the first new call.
    const APPENDS: usize = 3;
    let killed = || {
        let bench = writes(1);
        assert!(bench.run(Some(first)).was_killed(), "{first}");
        bench
    };
    let mut places = 0;
    let mut next = killed().records().len() as u64 + 1;
    for _ in 0..APPENDS {
        let Some(head) = try_at(&killed(), &format!("record:{next}:after")) else { break };
        places += 1 + usize::from(try_at(&killed(), &format!("record:{next}:before")).is_some());
        next = head + 1;
    }
    for place in ["call:1:before", "call:1:after"] {
        places += usize::from(try_at(&killed(), place).is_some());
    }
    places
}
