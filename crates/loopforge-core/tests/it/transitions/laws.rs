//! What holds of all runs.

use std::collections::{BTreeMap, BTreeSet};

use loopforge_core::checkpoint;
use loopforge_core::record::{Event, NoteTaken, Order, OrderTaken, Record};
use loopforge_core::run::RunState;
use proptest::prelude::*;

use super::simulation::{Simulation, task};

proptest! {
    /// Folding all records gives the same as a checkpoint and the records after it, wherever it was taken (R39).
    #[test]
    fn a_checkpoint_and_the_rest_are_the_whole(seed in any::<u64>(), cut in any::<prop::sample::Index>()) {
        let simulation = Simulation::run(seed);
        let (before, after) = simulation.records.split_at(cut.index(simulation.records.len() + 1));
        let mut state = RunState::new(simulation.state.run, &task());
        for record in before {
            state.apply(record).unwrap();
        }
        let mut resumed = checkpoint::read(&checkpoint::write(&state)).unwrap();
        prop_assert_eq!(&resumed, &state);
        for record in after {
            resumed.apply(record).unwrap();
        }
        prop_assert_eq!(resumed, simulation.state);
    }

    /// What an archive says is the same after it was written and read.
    #[test]
    fn records_are_read_as_they_were_written(seed in any::<u64>()) {
        for record in Simulation::run(seed).records {
            let text = serde_json::to_string(&record).unwrap();
            let again: Record = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(again, record);
        }
    }

    /// Every item of a list is done, given up, or was open when the run was stopped; none is lost or done twice (R16, R17).
    #[test]
    fn no_item_is_lost(seed in any::<u64>()) {
        let simulation = Simulation::run(seed);
        let items = &simulation.state.subgoals[0];
        prop_assume!(!simulation.state.aborted && items.failure.is_none());
        let given_up: BTreeSet<u32> = items.given_up.iter().map(|item| item.position).collect();
        prop_assert_eq!(given_up.len(), items.given_up.len());
        prop_assert_eq!(items.done as usize + given_up.len(), 5);
    }

    /// No call is made again once its outcome is archived (R39), and each intent has the number of its try.
    #[test]
    fn no_finished_action_is_started_again(seed in any::<u64>()) {
        let mut finished = BTreeSet::new();
        let mut tries = BTreeMap::new();
        for record in Simulation::run(seed).records {
            match record.event {
                Event::ActionStarted(started) => {
                    prop_assert!(!finished.contains(&started.id));
                    let before = tries.insert(started.id, started.attempt).unwrap_or(0);
                    prop_assert_eq!(started.attempt, before + 1);
                }
                Event::ActionFinished(done) => prop_assert!(finished.insert(done.id)),
                Event::ActionRefused(refused) => prop_assert!(finished.insert(refused.id)),
                _ => {}
            }
        }
    }
}

/// A checkpoint that can't be used is refused, and nothing is put in its place (CKP-07).
#[test]
fn a_damaged_or_foreign_checkpoint_is_refused() {
    let bytes = checkpoint::write(&Simulation::run(11).state);
    for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        assert!(checkpoint::read(&bytes[..cut]).is_err(), "{cut}");
    }
    let text = String::from_utf8(bytes).unwrap();
    for (part, other) in [("\"format\":2", "\"format\":3"), ("\"layout\":2", "\"layout\":1"), ("\"head\"", "\"tail\"")]
    {
        assert!(text.contains(part));
        assert!(checkpoint::read(text.replacen(part, other, 1).as_bytes()).is_err(), "{other}");
    }
}

/// The members of an event stand beside those of its record: none may be called like one of them, or exports can't be read.
#[test]
fn every_record_is_the_same_after_its_json() {
    let records: Vec<Record> = (1..60).flat_map(|seed| Simulation::run(seed * 7919).records).collect();
    let first = records[0].clone();
    let taken = |event| Record { event, ..first.clone() };
    let by = || "ann".to_owned();
    let note = NoteTaken { id: first.id, text: "选便宜的".to_owned(), by: by(), told_at: first.at, now: true };
    let order = OrderTaken { id: first.id, order: Order::Pause, by: by(), told_at: first.at };
    for record in records.into_iter().chain([taken(Event::NoteTaken(note)), taken(Event::OrderTaken(order))]) {
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record, "{text}");
    }
}
