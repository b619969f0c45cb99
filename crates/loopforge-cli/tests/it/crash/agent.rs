//! A model that writes, killed at every place: a reply that was archived is not asked for again, and every effect is made once.

use loopforge_core::record::Event;

use super::WRITTEN;
use super::bench::Bench;
use super::places::for_each_place;

fn writes() -> Bench {
    let files = [
        ("task.yaml", include_str!("agent.yaml")),
        ("rules.yaml", include_str!("agent-rules.yaml")),
        ("tally.sh", include_str!("tally.sh")),
    ];
    Bench::new(&files, &[])
}

/// R39, R40, R42 for what a model decides: also when the kill falls between its reply and what follows from it.
#[test]
fn a_kill_at_every_place_of_a_model_s_work_ends_in_the_same_state_with_every_effect_once() {
    let undisturbed = writes();
    let ended = undisturbed.run(None);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    assert_eq!(undisturbed.written(), WRITTEN);
    let reference = undisturbed.summary();
    let places = for_each_place(|place| {
        let bench = writes();
        let ended = bench.run(Some(place));
        if !ended.was_killed() {
            assert_eq!(ended.status.code(), Some(0), "{place}: {}", ended.said);
            return None;
        }
        let recorded = bench.records();
        bench.finish();
        assert_eq!(bench.written(), WRITTEN, "{place}");
        assert_eq!(bench.summary(), reference, "{place}");
        bench.assert_kept(&recorded);
        // One reply for each step, whatever was lost on the way.
        let records = bench.records();
        let count = |wanted: fn(&Event) -> bool| records.iter().filter(|record| wanted(&record.event)).count();
        assert_eq!(count(|event| matches!(event, Event::ModelReplied(_))), 6, "{place}");
        assert!(count(|event| matches!(event, Event::ModelCalled(_))) <= 7, "{place}");
        Some(recorded.len() as u64)
    });
    assert!(places >= 6 * 4, "{places}");
}
