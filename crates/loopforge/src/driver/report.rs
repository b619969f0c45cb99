//! What is to be said of a run when its driver stops.

use loopforge_core::id::{ContentHash, RunId, StepNo};
use loopforge_core::model::Amount;
use loopforge_core::record::{About, LimitReached, RunOutcome, RunStatus};
use loopforge_core::run::{RunState, Totals};
use loopforge_core::time::Timestamp;

/// Where a run stands when its driver stops.
#[derive(Debug, Clone)]
pub struct Report {
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: RunStatus,
    /// How it ended, if it did.
    pub outcome: Option<RunOutcome>,
    /// What a person must answer before it goes on.
    pub questions: Vec<OpenQuestion>,
    /// Calls that wait for the answer about another call of the same effect: the step of each, and the step that is asked about.
    pub held: Vec<(StepNo, StepNo)>,
    /// The limit that stopped it.
    pub stopped: Option<LimitReached>,
    /// When it goes on by itself.
    pub wake_at: Option<Timestamp>,
    /// It was interrupted from outside.
    pub interrupted: bool,
    /// Its counters.
    pub totals: Totals,
    /// Its task.
    pub task: ContentHash,
    /// What its models used; none when no model was asked.
    pub used: Option<Amount>,
    /// Its subgoals: name and status, in the order of the task.
    pub subgoals: Vec<(String, &'static str)>,
}

/// A question that is open.
#[derive(Debug, Clone)]
pub struct OpenQuestion {
    /// The step that waits; none when the run as a whole waits.
    pub step: Option<StepNo>,
    /// What it is about.
    pub about: About,
    /// The question.
    pub text: String,
}

pub(super) fn make(state: &RunState, interrupted: bool) -> Report {
    let questions = state
        .questions()
        .map(|(branch, question)| OpenQuestion {
            step: branch.and_then(|id| state.branches.get(&id)).map(|branch| branch.step),
            about: question.about,
            text: question.text.clone(),
        })
        .collect();
    Report {
        run: state.run,
        status: state.status(),
        outcome: state.ended,
        questions,
        held: state.held_calls().map(|(held, behind)| (held.step, behind.step)).collect(),
        stopped: state.stopped.clone(),
        wake_at: state.wake_at(),
        interrupted,
        totals: state.totals.clone(),
        task: state.task,
        used: (state.models.calls > 0).then(|| state.spent()),
        subgoals: state.subgoals.iter().map(|progress| (progress.id.clone(), progress.status.name())).collect(),
    }
}
