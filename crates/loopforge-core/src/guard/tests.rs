#![expect(clippy::unwrap_used, reason = "tests")]
//! The guard on scripted calls: what goes round in a circle is found, what only looks like it isn't (LUP kinds).

use super::{LONGEST_CYCLE, ROUNDS, Seen, WINDOW, Window};
use crate::id::ContentHash;
use crate::record::LoopKind;
use crate::tool::Code;

fn call(tool: &str, arguments: &str, outcome: &str) -> Seen {
    Seen {
        tool: tool.to_owned(),
        digest: ContentHash::of(arguments.as_bytes()),
        code: Code::Success,
        fingerprint: ContentHash::of(outcome.as_bytes()),
    }
}

/// Pushes calls until the guard speaks; returns how many it took.
fn found_after(calls: impl Iterator<Item = Seen>) -> Option<(usize, super::Loop)> {
    let mut window = Window::default();
    calls.enumerate().find_map(|(position, call)| {
        window.push(call);
        window.find_loop().map(|found| (position + 1, found))
    })
}

#[test]
fn the_same_call_with_the_same_outcome_is_found_at_the_third() {
    let (calls, found) = found_after(std::iter::repeat_with(|| call("tally", "{}", "ok")).take(10)).unwrap();
    assert_eq!((calls, found.what, found.period), (ROUNDS, LoopKind::Repetition, 1));
}

#[test]
fn cycles_of_every_period_are_found_in_three_rounds() {
    for period in 2..=LONGEST_CYCLE {
        let round = (0..period).map(|step| call("t", &step.to_string(), "same"));
        let (calls, found) = found_after(round.cycle().take(WINDOW)).unwrap();
        assert_eq!((calls, found.what, found.period), (ROUNDS * period, LoopKind::Cycle, period), "period {period}");
    }
}

#[test]
fn a_poll_whose_answer_changes_is_no_loop() {
    let answers = (0..12).map(|percent| call("status", "{job:1}", &format!("{percent}%")));
    assert_eq!(found_after(answers), None);
}

#[test]
fn a_poll_whose_answer_stays_the_same_is_one() {
    assert_eq!(found_after((0..12).map(|_| call("status", "{job:1}", "5%"))).unwrap().0, ROUNDS);
}

#[test]
fn polls_with_other_work_between_are_no_loop() {
    let polls = |answer: &'static str| (0..2).map(move |_| call("status", "{}", answer));
    let work = (0..3).map(|step| call("work", &step.to_string(), "done"));
    assert_eq!(found_after(polls("5%").chain(work).chain(polls("5%"))), None);
}

#[test]
fn a_retry_that_heals_is_no_loop() {
    let failed = || Seen { code: Code::Timeout, ..call("fetch", "u", "timeout") };
    assert_eq!(found_after([failed(), failed(), call("fetch", "u", "page")].into_iter()), None);
}

#[test]
fn paging_and_other_arguments_are_no_loop() {
    assert_eq!(found_after((0..20).map(|page| call("list", &page.to_string(), "a page"))), None);
}

#[test]
fn after_a_hint_what_was_before_doesn_t_count() {
    let mut window = Window::default();
    for _ in 0..3 {
        window.push(call("t", "{}", "same"));
    }
    assert!(window.find_loop().is_some());
    window.clear();
    assert_eq!(window.find_loop(), None);
    window.push(call("t", "{}", "same"));
    window.push(call("t", "{}", "same"));
    assert_eq!(window.find_loop(), None, "two rounds after the hint are not three");
    window.push(call("t", "{}", "same"));
    assert!(window.find_loop().is_some());
}

#[test]
fn only_a_new_call_or_a_new_outcome_is_something_new() {
    let mut window = Window::default();
    assert!(window.push(call("t", "a", "1")));
    assert!(!window.push(call("t", "a", "1")));
    assert!(window.push(call("t", "a", "2")));
    assert!(window.push(call("t", "b", "2")));
}

#[test]
fn repeats_of_a_call_are_counted_at_the_end_only() {
    let mut window = Window::default();
    let digest = ContentHash::of(b"a");
    assert_eq!(window.repeats_of("t", digest), 0);
    window.push(call("t", "a", "1"));
    window.push(call("t", "a", "1"));
    assert_eq!(window.repeats_of("t", digest), 2);
    window.push(call("t", "b", "1"));
    assert_eq!(window.repeats_of("t", digest), 0);
}
