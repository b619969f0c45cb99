//! Laws that hold for every task, every world and every crash.

use loopforge_core::checkpoint;
use loopforge_core::record::Record;
use loopforge_core::run::{Phase, RunState};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;

use super::plan::{Plan, plan};
use super::sim::{RUN, Rest, Sim};

/// Folds the records into a state.
fn fold(sim: &Sim, records: &[&Record]) -> RunState {
    let mut state = RunState::new(RUN, &sim.script.task);
    records.iter().for_each(|record| state.apply(record).unwrap());
    state
}

/// What must not depend on a crash.
fn end(sim: &mut Sim) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut stands = Vec::new();
    for progress in &sim.state.subgoals {
        let mut given_up: Vec<_> = progress
            .given_up
            .iter()
            .map(|given_up| (given_up.position, given_up.code, given_up.reason.clone()))
            .collect();
        given_up.sort();
        stands.push((progress.id.clone(), progress.status.name(), given_up));
    }
    (sim.rest, stands, sim.done(), sim.made(), sim.seen_state())
}

/// A run that is granted more steps where it asks for them.
fn run_on(plan: &Plan) -> Sim {
    let mut script = plan.script();
    script.grant = plan.max_steps;
    script.run()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// `Sim::drive` fails when a run goes round in a circle, waits for nothing, or is answered differently when it asks again.
    #[test]
    fn a_run_ends_or_waits_for_something_named_and_keeps_its_limits(plan in plan()) {
        let sim = plan.script().run();
        prop_assert!(sim.state.last_step.0 <= plan.max_steps);
        match sim.rest {
            Some(Rest::Ended(_)) => {}
            // Only the limit stops such a run; everything else has an answer.
            _ => prop_assert!(sim.state.stopped.is_some()),
        }
        // A branch that waited doesn't wait again for a place, so that each such return can be one too many.
        let returns = sim.count("wait_ended") + sim.count("question_answered");
        let mut state = RunState::new(RUN, &sim.script.task);
        for record in sim.records() {
            state.apply(record).unwrap();
            let moving = state.branches.values().filter(|branch| !matches!(branch.phase, Phase::Waiting { .. })).count();
            prop_assert!(moving <= plan.parallel as usize + returns, "{moving} moved at once");
        }
    }

    #[test]
    fn every_item_of_a_list_that_has_ended_was_done_once_or_given_up(plan in plan()) {
        let sim = run_on(&plan);
        for (progress, subgoal) in sim.state.subgoals.iter().zip(&sim.script.task.subgoals) {
            let word = progress.status.name();
            match &progress.list {
                Some(list) if matches!(word, "done" | "partial") => {
                    let reached = progress.done as usize + progress.given_up.len();
                    prop_assert_eq!(reached, list.count as usize, "{} is {}", &progress.id, word);
                    prop_assert!(progress.deferred.is_empty());
                }
                None if word == "done" => prop_assert_eq!(progress.done, u32::from(!subgoal.steps.is_empty())),
                _ => {}
            }
        }
        let mut done = sim.done();
        let times = done.len();
        done.dedup();
        prop_assert_eq!(done.len(), times, "an item was done twice");
    }

    #[test]
    fn a_checkpoint_and_the_records_after_it_are_the_whole_archive(plan in plan(), at in any::<Index>()) {
        let sim = run_on(&plan);
        let records: Vec<&Record> = sim.records().collect();
        let (before, after) = records.split_at(at.index(records.len() + 1));
        let mut state = checkpoint::read(&checkpoint::write(&fold(&sim, before))).unwrap();
        prop_assert_eq!(&state, &fold(&sim, before));
        after.iter().for_each(|record| state.apply(record).unwrap());
        prop_assert_eq!(&state, &sim.state);
    }

    #[test]
    fn state_is_what_the_records_saved(plan in plan(), at in any::<Index>()) {
        let mut sim = run_on(&plan);
        let told = sim.told_state();
        prop_assert_eq!(sim.seen_state(), told);
        // Taken up again, it is loaded by key. The last group can end the run: after it nothing is resumed.
        let mut resumed = sim.cut(1 + at.index(sim.archive.len() - 1));
        resumed.drive();
        let told = resumed.told_state();
        prop_assert_eq!(resumed.seen_state(), told);
    }

    #[test]
    fn a_run_that_was_cut_and_resumed_ends_as_one_that_was_not(
        plan in plan(),
        cuts in proptest::collection::vec(any::<Index>(), 1..4),
    ) {
        let mut sim = plan.unordered().script().run();
        let whole = end(&mut sim);
        for cut in cuts {
            let groups = 1 + cut.index(sim.archive.len() - 1);
            sim = sim.cut(groups);
            sim.drive();
            prop_assert_eq!(&end(&mut sim), &whole, "cut after {} groups", groups);
        }
    }

    /// Whatever an archive holds, it is refused or gone on from; nothing panics.
    #[test]
    fn any_event_applies_or_errs(plan in plan(), other in plan(), at in any::<Index>(), twist in any::<u32>()) {
        let mut sim = run_on(&plan);
        let records: Vec<Record> = sim.records().cloned().collect();
        let state = fold(&sim, &records.iter().collect::<Vec<_>>()[..at.index(records.len() + 1)]);
        let foreign = run_on(&other);
        for record in records.iter().chain(foreign.records()) {
            let mut json = serde_json::to_value(record).unwrap();
            for twisted in [false, true] {
                let odd = [("entry", u32::MAX), ("attempt", twist), ("item", twist % 9), ("alternative", u32::MAX)];
                for (key, value) in odd.into_iter().filter(|_| twisted) {
                    if json.get(key).is_some() {
                        json[key] = value.into();
                    }
                }
                let mut record: Record = serde_json::from_value(json.clone()).unwrap();
                record.seq = state.head.next();
                let mut after = state.clone();
                if after.apply(&record).is_ok() {
                    prop_assert_eq!(after.head, record.seq);
                    sim.try_ask(&after);
                    prop_assert_eq!(checkpoint::read(&checkpoint::write(&after)).unwrap(), after);
                }
            }
        }
    }
}
