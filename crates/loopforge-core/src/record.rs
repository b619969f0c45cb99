//! The archive of a run: facts, in order, never changed.
//!
//! An [`Event`] says what happened, a [`Record`] is its archived form with place and time. There is no other truth: state,
//! checkpoints, tables and reports are made from records. Records of format 1 stay readable for ever: a field may be
//! added with a default, none may be removed or change its meaning; anything else is format 2.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{ActionNo, BranchId, ContentHash, RecordId, Seq, StepNo, StepToken};
use crate::json::Json;
use crate::payload::{BlobRef, Payload};
use crate::task::HookEvent;
use crate::time::Timestamp;
use crate::tool::{Code, Effect};

/// The format of the records that this version writes. It reads all formats up to this one and refuses later ones by name.
pub const FORMAT: u16 = 1;

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

/// Where a result goes when the call succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaveTarget {
    /// The name.
    pub name: String,
    /// The member of a map in state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Kept for this item only, not in state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
}

/// Of [`Event::ActionDecided`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionDecided {
    /// The branch.
    pub branch: BranchId,
    /// Which action.
    #[serde(flatten)]
    pub id: ActionId,
    /// The entry of the subgoal's steps, 0 for the first.
    pub entry: u32,
    /// 0 for the entry's own call, 1 for its first alternative, ...
    #[serde(default, skip_serializing_if = "is_zero")]
    pub alternative: u32,
    /// The tool, by its name in the task.
    pub tool: String,
    /// What it does to the world, by the task's contract at this moment.
    pub effect: Effect,
    /// What it is called with.
    pub arguments: Payload,
    /// Hash of the canonical arguments: equal arguments have equal digests.
    pub digest: ContentHash,
    /// Names the effect in business terms; the same effect is made once in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Where the result goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<SaveTarget>,
    /// The tool that this one stands in for without a try, since it kept failing (R55).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Of [`Event::ActionRefused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionRefused {
    /// The branch.
    pub branch: BranchId,
    /// Which action.
    #[serde(flatten)]
    pub id: ActionId,
    /// [`Code::InvalidArgument`] or [`Code::Refused`].
    pub code: Code,
    /// Which check refused it: `schema`, `whitelist`, `lifecycle`, `quota`, `precondition`, `effect_key`, `repetition`.
    pub check: String,
    /// Why, in a sentence that names the remedy.
    pub reason: String,
}

/// Of [`Event::ActionStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionStarted {
    /// The branch.
    pub branch: BranchId,
    /// Which action.
    #[serde(flatten)]
    pub id: ActionId,
    /// 1 for the first try.
    pub attempt: u32,
    /// The idempotency key that the target gets.
    pub token: StepToken,
    /// The tool again, so that this record alone tells what may be out there.
    pub tool: String,
    /// As decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
}

/// Of [`Event::AttemptFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptFailed {
    /// The branch.
    pub branch: BranchId,
    /// Which action.
    #[serde(flatten)]
    pub id: ActionId,
    /// 1 for the first try.
    pub attempt: u32,
    /// How it failed.
    pub code: Code,
    /// What went wrong.
    pub error: String,
    /// When the next try is due.
    pub retry_at: Timestamp,
    /// The wait that the target asked for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_wait_ms: Option<u64>,
}

/// Where an outcome comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeSource {
    /// The tool was called and answered.
    Call,
    /// The answer of an earlier, equal read was still good.
    Cache,
    /// The same effect was made before in this run; this is its first result.
    FirstResult,
    /// The status query found that the effect happened.
    StatusQuery,
    /// The answer came after the time limit.
    LateAnswer,
    /// A person said so.
    Person,
}

/// Of [`Event::ActionFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionFinished {
    /// The branch.
    pub branch: BranchId,
    /// Which action.
    #[serde(flatten)]
    pub id: ActionId,
    /// The tries that were made.
    pub attempt: u32,
    /// Where the outcome comes from.
    pub source: OutcomeSource,
    /// What came of it.
    pub result: Outcome,
    /// Time from the start of the last try to its answer, in microseconds.
    #[serde(default)]
    pub took_us: u64,
}

/// What came of a call, as it is archived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`Code::Success`], or why not.
    pub code: Code,
    /// The answer.
    #[serde(default, skip_serializing_if = "is_null")]
    pub data: Payload,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What an empty answer means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning_of_empty: Option<String>,
    /// The wait that the target asked for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What was changed or left out on the way in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// Bytes as they came, where `data` can't hold them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<BlobRef>,
    /// Values that matter verbatim, by JSON pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub key_fields: BTreeMap<String, Json>,
    /// Nothing reached the target, or it was found that nothing changed there, whatever the code says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub effect_excluded: bool,
    /// Hash of the answer without its volatile parts: the guard compares it.
    pub fingerprint: ContentHash,
}

fn is_null(payload: &Payload) -> bool {
    payload.inline.is_null() && payload.holes.is_empty()
}

impl Outcome {
    /// Whether the call did what was asked.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.code == Code::Success
    }

    /// Whether, for a write, it can't be said that the effect did or did not happen.
    #[must_use]
    pub const fn leaves_effect_unknown(&self) -> bool {
        !self.effect_excluded && self.code.leaves_effect_unknown()
    }

    /// The wait that the target asked for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

/// Of [`Event::ActionUnknown`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionUnknown {
    /// The branch.
    pub branch: BranchId,
    /// Which action.
    #[serde(flatten)]
    pub id: ActionId,
    /// Why it isn't known.
    pub reason: String,
}

/// Of [`Event::ActionNotHappened`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionNotHappened {
    /// The branch.
    pub branch: BranchId,
    /// Which action.
    #[serde(flatten)]
    pub id: ActionId,
    /// Who says so.
    pub source: OutcomeSource,
    /// More, for a reader.
    pub note: String,
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

/// Of [`Event::QuestionAsked`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// The branch that waits; none when the run as a whole waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The action that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ActionId>,
    /// What it is about.
    pub about: About,
    /// The question, for a person.
    pub question: String,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Whether an effect happened.
    UnknownEffect,
    /// What to do after a failure.
    Failure,
    /// Whether more steps may run.
    Limit,
    /// What to do about repetition.
    Loop,
}

/// What a person can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The effect happened: go on from there.
    Happened,
    /// It did not happen: make the call (again).
    Not,
    /// Stop the run.
    Abort,
    /// Go on: try again, or run on.
    Continue,
    /// Give this item up and go on with the rest.
    Skip,
}

/// Of [`Event::QuestionAnswered`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    /// The branch that waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The answer.
    pub answer: Answer,
    /// Who gave it.
    pub by: String,
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

/// What the guard found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopKind {
    /// The same call with the same outcome.
    Repetition,
    /// A cycle of several calls with the same outcomes.
    Cycle,
    /// Different calls, none of which brought anything useful.
    Fruitless,
}

/// Of [`Event::LoopFound`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopFound {
    /// The branch whose call completed it.
    pub branch: BranchId,
    /// What it is.
    pub what: LoopKind,
    /// Length of the cycle; 1 for a repetition.
    pub period: u32,
    /// How often it came round.
    pub rounds: u32,
    /// The tools in it.
    pub tools: Vec<String>,
}

/// Of [`Event::StepEvaluated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEvaluated {
    /// The branch.
    pub branch: BranchId,
    /// The step.
    pub step: StepNo,
    /// The judgement.
    pub verdict: Verdict,
}

/// The evaluator's judgement of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Four scores.
    pub scores: Scores,
    /// Where it leads.
    pub route: Route,
    /// Why, in a sentence.
    pub reason: String,
}

/// Four numbers from 0 (bad) to 1 (good), each with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// How much of the goal is reached.
    pub completion: Score,
    /// Whether results fit what was expected.
    pub consistency: Score,
    /// How much of the limits is left.
    pub resources: Score,
    /// Whether work goes on without failures in a row.
    pub stability: Score,
}

/// One number with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score(pub f32, pub String);

/// Where a verdict leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum Route {
    /// On with the next entry of this subgoal.
    Continue,
    /// This branch has done its part: the item, or all entries.
    BranchDone,
    /// Set the item aside until then, and go on with the rest.
    Defer {
        /// Not before this instant.
        due: Timestamp,
    },
    /// The item can't be had: note it and go on with the rest.
    GiveUp,
    /// Do the same entry again, once, with what went wrong in view.
    Correct,
    /// A person decides.
    Person,
    /// The subgoal has failed.
    Fail,
}

/// Of [`Event::LimitReached`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitReached {
    /// `max_steps` or `max_duration`.
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
}

/// A criterion and whether it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The rule.
    pub rule: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
        }
    }

    /// The step that it belongs to.
    #[must_use]
    pub const fn step(&self) -> Option<StepNo> {
        match self {
            Self::StepStarted(event) => Some(event.step),
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
            Self::ActionDecided(event) => payload(&event.arguments),
            Self::StateSaved(event) => payload(&event.value),
            Self::ActionFinished(event) => {
                payload(&event.result.data);
                event.result.raw.iter().for_each(visit);
            }
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
