//! The table of legal transitions: all of it is reached, and nothing else passes.

use std::collections::BTreeSet;

use loopforge_core::id::{BranchId, StepNo};
use loopforge_core::record::{ActionId, Event, Record};
use loopforge_core::run::RunState;
use loopforge_core::run::transitions::{CALLS, CallName, PhaseName, TABLE, call_name, phase_name};
use proptest::prelude::*;

use super::simulation::{Dice, Simulation, task};

fn branch_of(event: &Event) -> Option<BranchId> {
    match event {
        Event::StepStarted(event) => Some(event.branch),
        Event::ModelCalled(event) => event.branch,
        Event::ModelReplied(event) => event.branch,
        Event::ModelFailed(event) => event.branch,
        Event::ActionDecided(event) => Some(event.branch),
        Event::StateSaved(event) => event.branch,
        Event::WaitStarted(event) => Some(event.branch),
        Event::WaitEnded(event) => Some(event.branch),
        Event::QuestionAsked(event) => event.branch,
        Event::QuestionAnswered(event) => event.branch,
        Event::LifecycleMoved(event) | Event::LifecycleRefused(event) => Some(event.branch),
        Event::LoopFound(event) => Some(event.branch),
        Event::StepEvaluated(event) => Some(event.branch),
        other => action_of(other).map(|(branch, _)| branch),
    }
}

/// The open call that an event is about.
fn action_of(event: &Event) -> Option<(BranchId, ActionId)> {
    match event {
        Event::ActionRefused(event) => Some((event.branch, event.id)),
        Event::ActionStarted(event) => Some((event.branch, event.id)),
        Event::AttemptFailed(event) => Some((event.branch, event.id)),
        Event::ActionFinished(event) => Some((event.branch, event.id)),
        Event::ActionUnknown(event) => Some((event.branch, event.id)),
        Event::ActionNotHappened(event) => Some((event.branch, event.id)),
        Event::QuestionAsked(event) => event.branch.zip(event.action),
        _ => None,
    }
}

type Pairs = (BTreeSet<(PhaseName, &'static str)>, BTreeSet<(CallName, &'static str)>);

/// The pairs of (phase, event) and (call, event) that stand in an archive.
fn note_pairs(records: &[Record], (phases, calls): &mut Pairs) {
    let mut state = RunState::new("run_00000000000000000000000000000001".parse().unwrap(), &task());
    for record in records {
        let kind = record.event.kind();
        if let Some(branch) = branch_of(&record.event) {
            phases.insert((phase_name(state.branches.get(&branch)), kind));
        }
        if let Some((_, id)) = action_of(&record.event)
            && let Some((_, action)) = state.action(id)
        {
            calls.insert((call_name(&action.state), kind));
        }
        state.apply(record).unwrap();
    }
}

#[test]
fn every_legal_transition_is_reached_and_no_other() {
    let mut pairs = Pairs::default();
    for seed in 1..400 {
        note_pairs(&Simulation::run(seed * 7919).records, &mut pairs);
    }
    assert_eq!(pairs.0, TABLE.iter().copied().collect());
    assert_eq!(pairs.1, CALLS.iter().copied().collect());
}

/// Moves an event of another moment into this one, so that its place in the table is what decides.
fn moved(event: &Event, state: &RunState, dice: &mut Dice) -> Event {
    let mut event = event.clone();
    let branches: Vec<BranchId> = state.branches.keys().copied().chain([state.last_branch.next()]).collect();
    let branch = branches[usize::try_from(dice.below(branches.len() as u64)).unwrap()];
    let open = state.branches.get(&branch);
    let step = open.map_or(state.last_step, |open| open.step);
    let action =
        open.map_or(ActionId { step: StepNo(0), action: loopforge_core::id::ActionNo(0) }, |open| match &open.phase {
            loopforge_core::run::Phase::Acting { actions } => actions[0].id,
            _ => open.next_action(),
        });
    match &mut event {
        Event::StepStarted(event) => (event.branch, event.step) = (branch, state.last_step.next()),
        Event::ActionDecided(event) => (event.branch, event.id) = (branch, action),
        Event::ActionRefused(event) => (event.branch, event.id) = (branch, action),
        Event::ActionStarted(event) => (event.branch, event.id) = (branch, action),
        Event::AttemptFailed(event) => (event.branch, event.id) = (branch, action),
        Event::ActionFinished(event) => (event.branch, event.id) = (branch, action),
        Event::ActionUnknown(event) => (event.branch, event.id) = (branch, action),
        Event::ActionNotHappened(event) => (event.branch, event.id) = (branch, action),
        Event::StateSaved(event) => event.branch = Some(branch),
        Event::WaitStarted(event) => (event.branch, event.step) = (branch, step),
        Event::WaitEnded(event) => event.branch = branch,
        Event::QuestionAsked(event) => {
            event.branch = Some(branch);
            event.action = event.action.map(|_| action);
        }
        Event::QuestionAnswered(event) => event.branch = Some(branch),
        Event::LifecycleMoved(event) | Event::LifecycleRefused(event) => event.branch = branch,
        Event::LoopFound(event) => event.branch = branch,
        Event::StepEvaluated(event) => (event.branch, event.step) = (branch, step),
        _ => {}
    }
    event
}

proptest! {
    /// Whatever comes next, it is applied or refused; what the table doesn't list is refused.
    #[test]
    fn an_event_at_any_moment_is_applied_or_refused(seed in any::<u64>()) {
        let simulation = Simulation::run(seed);
        let mut dice = Dice::new(seed);
        let mut state = RunState::new(simulation.state.run, &task());
        for record in &simulation.records {
            for _ in 0..4 {
                let position = usize::try_from(dice.below(simulation.records.len() as u64)).unwrap();
                let event = moved(&simulation.records[position].event, &state, &mut dice);
                let kind = event.kind();
                let phase = branch_of(&event).map(|branch| phase_name(state.branches.get(&branch)));
                let listed = phase.is_none_or(|phase| TABLE.contains(&(phase, kind)));
                let call = action_of(&event)
                    .filter(|_| phase == Some(PhaseName::Acting))
                    .and_then(|(_, id)| state.action(id).map(|(_, action)| call_name(&action.state)));
                let listed = listed && call.is_none_or(|call| CALLS.contains(&(call, kind)));
                let abort = matches!(&event, Event::QuestionAnswered(answered)
                    if answered.answer == loopforge_core::record::Answer::Abort);
                let next = Record { seq: state.head.next(), event, ..record.clone() };
                let outcome = state.clone().apply(&next);
                // A person can stop a run at any moment.
                if !listed && !abort {
                    prop_assert!(outcome.is_err(), "{:?} {:?}: {:?}", phase, call, next);
                }
            }
            state.apply(record).unwrap();
        }
    }

    /// A record in another place than the next one is refused.
    #[test]
    fn a_gap_in_the_archive_is_refused(seed in any::<u64>(), missing in 0usize..50) {
        let mut records = Simulation::run(seed).records;
        prop_assume!(missing + 1 < records.len());
        records.remove(missing);
        let mut state = RunState::new("run_00000000000000000000000000000001".parse().unwrap(), &task());
        let refused = records.iter().find_map(|record| state.apply(record).err()).unwrap();
        prop_assert_eq!(refused.seq.0, missing as u64 + 2);
    }
}
