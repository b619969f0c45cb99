//! What holds of every archive; checked for each run of these tests.

use std::collections::BTreeMap;

use loopforge_core::checkpoint;
use loopforge_core::expression::StateValue;
use loopforge_core::id::RunId;
use loopforge_core::record::{Event, Record};
use loopforge_core::run::RunState;
use loopforge_core::task::Task;

/// Checks that the archive can be folded; that a checkpoint at any record, and the records after it, lead to the same; and that the
/// state of the store is what the archive says.
pub(crate) fn check(run: RunId, task: &Task, records: &[Record], stored: &BTreeMap<String, StateValue>) {
    let states = fold(run, task, records);
    let end = states.last().unwrap();
    for (position, state) in states.iter().enumerate() {
        let mut resumed = checkpoint::read(&checkpoint::write(state)).unwrap();
        assert_eq!(&resumed, state, "the checkpoint at {}", state.head);
        for record in &records[position..] {
            resumed.apply(record).unwrap();
        }
        assert_eq!(&resumed, end, "from the checkpoint at {}", state.head);
    }
    assert_eq!(&state_of(records), stored, "archive and state agree");
}

/// The state before the first record, and after each.
pub(crate) fn fold(run: RunId, task: &Task, records: &[Record]) -> Vec<RunState> {
    let mut states = vec![RunState::new(run, task)];
    for record in records {
        let mut state = states.last().unwrap().clone();
        state.apply(record).unwrap_or_else(|illegal| panic!("{illegal}"));
        states.push(state);
    }
    states
}

/// State, as the archive tells it: a version without a member replaces all, one with a member replaces that member.
fn state_of(records: &[Record]) -> BTreeMap<String, StateValue> {
    let mut state = BTreeMap::new();
    for record in records {
        let Event::StateSaved(saved) = &record.event else { continue };
        match (&saved.member, state.get_mut(&saved.key)) {
            (Some(member), Some(StateValue::Members(members))) => {
                members.insert(member.clone(), saved.value.clone());
            }
            (Some(member), _) => {
                let members = BTreeMap::from([(member.clone(), saved.value.clone())]);
                state.insert(saved.key.clone(), StateValue::Members(members));
            }
            (None, _) => {
                state.insert(saved.key.clone(), StateValue::Single(saved.value.clone()));
            }
        }
    }
    state
}
