//! The archive of a run: facts, in order, never changed.
//!
//! An [`Event`] says what happened, a [`Record`] is its archived form with place and time. There is no other truth: state,
//! checkpoints, tables and reports are made from records. Records of format 1 stay readable for ever: a field may be
//! added with a default, none may be removed or change its meaning; anything else is format 2.

mod action;
mod budget;
mod model;
mod person;
mod plan;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{ActionNo, BranchId, ContentHash, RecordId, Seq, StepNo};
use crate::model::Money;
use crate::payload::{BlobRef, Payload};
use crate::task::HookEvent;
use crate::time::Timestamp;
use crate::tool::Code;

pub use action::{
    ActionDecided, ActionFinished, ActionNotHappened, ActionRefused, ActionStarted, ActionUnknown, AttemptFailed,
    Outcome, OutcomeSource, SaveTarget,
};
pub use budget::{BudgetStaged, BudgetWarned};
pub use model::{ModelCalled, ModelFailed, ModelReplied, PromptRef, Purpose};
pub use person::{About, Answer, NoteTaken, Order, OrderTaken, QuestionAnswered, QuestionAsked};
pub use plan::{Amendment, Cause, ConsultFailed, ConsultStarted, Judged, PlanAmended, Replacement};
pub use verdict::{Check, LoopFound, LoopKind, Route, Score, Scores, StepEvaluated, Verdict};

/// The format of the records that this version writes. It reads all formats up to this one and refuses later ones by name.
///
/// 2 has calls of models, and questions that are answered by a text.
pub const FORMAT: u16 = 2;

/// An archived event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the run's archive.
    pub seq: Seq,
    /// Made by the writer, so that it knows its own record again.
    pub id: RecordId,
    /// When it was made.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Names one action of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ActionId {
    /// The step that decided it.
    pub step: StepNo,
    /// Its position in that step.
    pub action: ActionNo,
}

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.step, self.action)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// A run began. Always the first record.
    RunStarted(RunStarted),
    /// An owner took the run up again. Calls of the owner before it are lost: reads are made again, writes are unknown.
    RunResumed(RunResumed),
    /// A subgoal's needs were met and work on it began.
    SubgoalStarted(SubgoalStarted),
    /// A subgoal reached its end.
    SubgoalEnded(SubgoalEnded),
    /// A step began: a turn of a branch.
    StepStarted(StepStarted),
    /// A model is asked. It may be billed from here on.
    ModelCalled(ModelCalled),
    /// A model answered. What it decided follows.
    ModelReplied(ModelReplied),
    /// A call of a model brought no reply.
    ModelFailed(ModelFailed),
    /// The run as a whole consults a model: about its plan, or whether the goal is reached.
    ConsultStarted(ConsultStarted),
    /// The answer can't be used.
    ConsultFailed(ConsultFailed),
    /// The planner amended the plan, or left it as it is.
    PlanAmended(PlanAmended),
    /// A model judged whether the goal is reached.
    Judged(Judged),
    /// A call was decided, with its arguments.
    ActionDecided(ActionDecided),
    /// The gateway refused the call; the tool was not called.
    ActionRefused(ActionRefused),
    /// The intent of a call that may change the world. After this is durable the call is made, not before.
    ActionStarted(ActionStarted),
    /// One try failed in a passing way, and another will follow.
    AttemptFailed(AttemptFailed),
    /// The outcome of a call, good or bad, is known.
    ActionFinished(ActionFinished),
    /// It is not known whether the effect of a started call happened.
    ActionUnknown(ActionUnknown),
    /// The effect of a call whose outcome was unknown did not happen; the call can be made.
    ActionNotHappened(ActionNotHappened),
    /// A value entered state.
    StateSaved(StateSaved),
    /// A branch waits for a time.
    WaitStarted(WaitStarted),
    /// The time has come.
    WaitEnded(WaitEnded),
    /// A person must decide before a branch, or the run, goes on.
    QuestionAsked(QuestionAsked),
    /// A person decided.
    QuestionAnswered(QuestionAnswered),
    /// The lifecycle state changed.
    LifecycleMoved(LifecycleMoved),
    /// A change of the lifecycle state was refused.
    LifecycleRefused(LifecycleMoved),
    /// The guard found repetition, a cycle, or no progress.
    LoopFound(LoopFound),
    /// A step was judged and is over.
    StepEvaluated(StepEvaluated),
    /// A limit was reached; no further step starts.
    LimitReached(LimitReached),
    /// A person raised limits.
    LimitsRaised(LimitsRaised),
    /// The owner stopped work; a person starts it again.
    RunPaused(RunPaused),
    /// The run ended. Always the last record, but for notices.
    RunEnded(RunEnded),
    /// A notice left the process, or couldn't.
    HookSent(HookSent),
    /// A person let the run go on although what it depends on is no longer as it was.
    ChangesAccepted(ChangesAccepted),
    /// A budget is nearly used up.
    BudgetWarned(BudgetWarned),
    /// The next call of a model didn't fit into a budget: what is done from now on.
    BudgetStaged(BudgetStaged),
    /// A person told the run something while it went on.
    NoteTaken(NoteTaken),
    /// A person told whoever works on the run to pause, go on or stop.
    OrderTaken(OrderTaken),
}

/// Of [`Event::RunStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The format of this archive.
    pub format: u16,
    /// Which task, exactly.
    pub task: ContentHash,
    /// Its name.
    pub name: String,
    /// Its goal, as it was given.
    pub goal: String,
    /// The version of LoopForge.
    pub version: String,
    /// What the run was given.
    pub inputs: BTreeMap<String, Payload>,
    /// The file from which the task was read, where it was one. An absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Of [`Event::RunResumed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResumed {
    /// The new owner.
    pub worker: String,
    /// The version of LoopForge.
    pub version: String,
    /// The checkpoint from which state was loaded; none when it was folded from the first record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Seq>,
}

/// Of [`Event::SubgoalStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubgoalStarted {
    /// Its name.
    pub subgoal: String,
    /// The list of a `foreach`, as it was read now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<List>,
}

/// The list of a `foreach`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// The items, an array.
    pub items: Payload,
    /// How many.
    pub count: u32,
}

/// How a subgoal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubgoalOutcome {
    /// All of it.
    Done,
    /// All that could be had; some items were given up.
    Partial,
    /// It failed.
    Failed,
    /// Its `when` did not hold.
    Skipped,
    /// A subgoal that it needs failed, so it can't begin.
    Blocked,
    /// A planner took it out of the plan.
    Dropped,
    /// Another subgoal took its place.
    Replaced,
}

/// Of [`Event::SubgoalEnded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubgoalEnded {
    /// Its name.
    pub subgoal: String,
    /// How it ended.
    pub outcome: SubgoalOutcome,
    /// Why, in a sentence.
    pub reason: String,
}

/// Of [`Event::StepStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepStarted {
    /// The branch; a new one is opened by its first step.
    pub branch: BranchId,
    /// Its number.
    pub step: StepNo,
    /// What it works on.
    pub subgoal: String,
    /// The item of the subgoal's list, 0 for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The item itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// A model decides what is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
    /// The three questions (R2).
    pub basis: Basis,
}

/// The three questions that every step answers: how far is the goal, is the last result credible, what comes next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    /// Parts of the current subgoal that are done (items, or entries).
    pub done: u32,
    /// Parts in all.
    pub of: u32,
    /// How the last finished call of this subgoal ended; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Code>,
    /// The most sensible next action.
    pub next: String,
}

/// Of [`Event::StateSaved`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateSaved {
    /// The branch; none when a person set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The step; none when a person set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepNo>,
    /// The entry whose `set` did it; none when it is the result of an action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u32>,
    /// The key.
    pub key: String,
    /// The member of the map under that key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The value.
    pub value: Payload,
    /// Who set it, where a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Of [`Event::WaitStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitStarted {
    /// The branch.
    pub branch: BranchId,
    /// The step.
    pub step: StepNo,
    /// The entry.
    pub entry: u32,
    /// Until when.
    pub until: Timestamp,
}

/// Of [`Event::WaitEnded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitEnded {
    /// The branch.
    pub branch: BranchId,
}

/// Of [`Event::LifecycleMoved`] and [`Event::LifecycleRefused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LifecycleMoved {
    /// The branch.
    pub branch: BranchId,
    /// The entry.
    pub entry: u32,
    /// From which state.
    pub from: String,
    /// To which.
    pub to: String,
}

/// Of [`Event::LimitReached`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitReached {
    /// `max_steps`, `max_duration`, or `budget.` with the name of a budget.
    pub limit: String,
    /// Its value, for a reader.
    pub value: String,
}

/// Of [`Event::LimitsRaised`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsRaised {
    /// The new number of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// The new wall-clock limit since the start, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
    /// The new number of tokens that the run may use in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The new amount of money that the run may use in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Who raised them.
    pub by: String,
}

/// Of [`Event::RunPaused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPaused {
    /// Why.
    pub reason: String,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// All criteria hold.
    Succeeded,
    /// Not.
    Failed,
    /// A person stopped it.
    Cancelled,
}

/// Of [`Event::RunEnded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// How.
    pub outcome: RunOutcome,
    /// Why, in a sentence.
    pub reason: String,
    /// What was verified, criterion by criterion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// What was not verified, or not done, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// What a model says of it, where the task asks for that: judged, not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
}

/// Of [`Event::HookSent`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookSent {
    /// The hook's position in the task.
    pub hook: u32,
    /// What it was about.
    pub on: HookEvent,
    /// The record that it tells of.
    pub about: Seq,
    /// The id by which the receiver can tell a repeat.
    pub delivery: String,
    /// `log`, `webhook` or `process`.
    pub via: String,
    /// What went wrong after all tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Of [`Event::ChangesAccepted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangesAccepted {
    /// Who.
    pub by: String,
    /// The other version of LoopForge, where that was the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionChange>,
    /// The other task, where that was the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskChange>,
}

/// A run goes on with another version of LoopForge than its last records were written by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionChange {
    /// The one before.
    pub from: String,
    /// The one from now on.
    pub to: String,
}

/// A run goes on with another task. Both texts are kept, byte for byte; the hash of a text names the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskChange {
    /// The one before.
    pub from: BlobRef,
    /// The one from now on.
    pub to: BlobRef,
    /// The names of its subgoals, in its order. Those that had begun are among them.
    pub subgoals: Vec<String>,
    /// What is different, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

impl Event {
    /// The event's name, as it stands in the archive.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run_started",
            Self::RunResumed(_) => "run_resumed",
            Self::SubgoalStarted(_) => "subgoal_started",
            Self::SubgoalEnded(_) => "subgoal_ended",
            Self::StepStarted(_) => "step_started",
            Self::ModelCalled(_) => "model_called",
            Self::ModelReplied(_) => "model_replied",
            Self::ModelFailed(_) => "model_failed",
            Self::ConsultStarted(_) => "consult_started",
            Self::ConsultFailed(_) => "consult_failed",
            Self::PlanAmended(_) => "plan_amended",
            Self::Judged(_) => "judged",
            Self::ActionDecided(_) => "action_decided",
            Self::ActionRefused(_) => "action_refused",
            Self::ActionStarted(_) => "action_started",
            Self::AttemptFailed(_) => "attempt_failed",
            Self::ActionFinished(_) => "action_finished",
            Self::ActionUnknown(_) => "action_unknown",
            Self::ActionNotHappened(_) => "action_not_happened",
            Self::StateSaved(_) => "state_saved",
            Self::WaitStarted(_) => "wait_started",
            Self::WaitEnded(_) => "wait_ended",
            Self::QuestionAsked(_) => "question_asked",
            Self::QuestionAnswered(_) => "question_answered",
            Self::LifecycleMoved(_) => "lifecycle_moved",
            Self::LifecycleRefused(_) => "lifecycle_refused",
            Self::LoopFound(_) => "loop_found",
            Self::StepEvaluated(_) => "step_evaluated",
            Self::LimitReached(_) => "limit_reached",
            Self::LimitsRaised(_) => "limits_raised",
            Self::RunPaused(_) => "run_paused",
            Self::RunEnded(_) => "run_ended",
            Self::HookSent(_) => "hook_sent",
            Self::ChangesAccepted(_) => "changes_accepted",
            Self::BudgetWarned(_) => "budget_warned",
            Self::BudgetStaged(_) => "budget_staged",
            Self::NoteTaken(_) => "note_taken",
            Self::OrderTaken(_) => "order_taken",
        }
    }

    /// The step that it belongs to.
    #[must_use]
    pub const fn step(&self) -> Option<StepNo> {
        match self {
            Self::StepStarted(event) => Some(event.step),
            Self::ModelCalled(event) => event.step,
            Self::ModelReplied(event) => event.step,
            Self::ModelFailed(event) => event.step,
            Self::ActionDecided(event) => Some(event.id.step),
            Self::ActionRefused(event) => Some(event.id.step),
            Self::ActionStarted(event) => Some(event.id.step),
            Self::AttemptFailed(event) => Some(event.id.step),
            Self::ActionFinished(event) => Some(event.id.step),
            Self::ActionUnknown(event) => Some(event.id.step),
            Self::ActionNotHappened(event) => Some(event.id.step),
            Self::StateSaved(event) => event.step,
            Self::WaitStarted(event) => Some(event.step),
            Self::StepEvaluated(event) => Some(event.step),
            _ => None,
        }
    }

    /// The blobs that it refers to. A record may be archived only together with them, or after them.
    pub fn for_each_blob(&self, visit: &mut impl FnMut(&BlobRef)) {
        let mut payload = |payload: &Payload| payload.holes.iter().for_each(|hole| visit(&hole.blob));
        match self {
            Self::RunStarted(event) => event.inputs.values().for_each(payload),
            Self::SubgoalStarted(event) => event.list.iter().for_each(|list| payload(&list.items)),
            Self::StepStarted(event) => event.input.iter().for_each(payload),
            Self::ModelReplied(event) => {
                payload(&event.blocks);
                event.raw.iter().for_each(visit);
            }
            Self::ActionDecided(event) => payload(&event.arguments),
            Self::StateSaved(event) => payload(&event.value),
            Self::ActionFinished(event) => {
                payload(&event.result.data);
                event.result.raw.iter().for_each(visit);
            }
            Self::ChangesAccepted(event) => event.task.iter().for_each(|task| {
                visit(&task.from);
                visit(&task.to);
            }),
            _ => {}
        }
    }
}

/// A run's status. `running` is never only a word in a column: it needs a live lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Not taken up yet.
    Queued,
    /// Being worked on, or to be taken up by whoever finds it.
    Running,
    /// Goes on by itself when a time comes, or once a person has answered.
    Waiting,
    /// Goes on when a person says so.
    Paused,
    /// Ended: all criteria hold.
    Succeeded,
    /// Ended: not.
    Failed,
    /// Ended: a person stopped it.
    Cancelled,
}

impl RunStatus {
    /// Whether nothing more will happen.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// The word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
