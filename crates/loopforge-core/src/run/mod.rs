//! The state of a run, folded from its records, and what is to be done next.
//!
//! [`RunState`] is a set of branches, each in a [`Phase`] that says what must happen next. [`RunState::apply`] is the fold: the
//! same function live, on resume and in replay. [`RunState::next`] is the decision: the same state, time and values give
//! the same move. A crash anywhere finds the same phase again.
//!
//! # Legal transitions of a branch
//!
//! [`transitions::TABLE`] is the list; a record that it doesn't allow is an error, never skipped.
//!
//! ```text
//!              step_started            action_decided            all actions finished or refused
//!   (none) ───────────────▶ Deciding ─────────────────▶ Acting ─────────────────────────────────┐
//!   Ready  ───────────────▶    │  ▲                        │ question_asked: a person says whether │
//!     ▲                        │  └────────────────────────┼──────── an effect happened            │
//!     │ step_evaluated         │                           └───────────────────────────────────────┘
//!     │ (on)                   │ wait_started, step_evaluated (person)         ▼
//!     └────────────────────────┼────────────────────────▶ Waiting ──▶ Deciding or Ready
//!                              │ step_evaluated (done, deferred, given up, failed)
//!                              ▼
//!                           (gone)
//! ```

mod agent;
mod apply;
mod branch;
mod budget;
mod consult;
mod decide;
mod facts;
mod next;
pub mod transitions;
mod update;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::guard::Window;
use crate::id::{BranchId, ContentHash, RecordId, RunId, Seq, StepNo};
use crate::model::{Amount, Money, Usage};
use crate::payload::{Blob, Payload};
use crate::plan::{Consult, Plan};
use crate::record::{ActionId, Event, Judged, LimitReached, List, RunOutcome, RunStatus, SubgoalOutcome, Verdict};
use crate::task::Task;
use crate::time::Timestamp;
use crate::tool::{Code, Effect, RetryPolicy};

pub use agent::Replied;
pub use apply::IllegalEvent;
pub use branch::{Action, ActionState, Branch, Failure, Phase, Question, Thought, ThoughtState, WaitFor};
pub use budget::{BudgetState, Over, RunLimit, used};
pub use next::{Call, Idle, Move, View};
pub use update::{Difference, is_compatible};

/// The state of a run: what its records say, without their history. It stays small.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// The run.
    pub run: RunId,
    /// The last record that was applied.
    pub head: Seq,
    /// When the run started.
    pub started_at: Timestamp,
    /// The time of the last record.
    pub last_at: Timestamp,
    /// The task.
    pub task: ContentHash,
    /// The version of LoopForge that the last owner had.
    pub version: String,
    /// Rises when a run is rolled back, so that work done anew is a new effect.
    pub incarnation: u32,
    /// The subgoals, in the order of the task.
    pub subgoals: Vec<Progress>,
    /// What a planner made of them.
    #[serde(default, skip_serializing_if = "Plan::is_untouched")]
    pub plan: Plan,
    /// What a model is consulted about for the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consult: Option<Consult>,
    /// A model's word on whether the goal is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judged>,
    /// What is being worked on.
    pub branches: BTreeMap<BranchId, Branch>,
    /// Branches opened so far.
    pub last_branch: BranchId,
    /// Steps started so far.
    pub last_step: StepNo,
    /// Counters over the whole run.
    pub totals: Totals,
    /// What models used and cost.
    #[serde(default)]
    pub models: ModelTotals,
    /// How it stands with its budgets.
    #[serde(default)]
    pub budget: BudgetState,
    /// The last messages that were taken from its inbox, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<RecordId>,
    /// Calls per tool that were not refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, u32>,
    /// Tools whose last calls all failed in a passing way.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ailing: BTreeMap<String, Ailing>,
    /// The last record that notices were sent about.
    #[serde(default)]
    pub told: Seq,
    /// What the guard watches.
    pub window: Window,
    /// The lifecycle state, where the task has a lifecycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<String>,
    /// Limits that a person raised.
    pub raised: Raised,
    /// The question that the run as a whole waits on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// The limit that stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<LimitReached>,
    /// Why the owner stopped work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// A person said: stop.
    pub aborted: bool,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunOutcome>,
    /// The last verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The last finished call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_call: Option<LastCall>,
}

/// Counters over the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Steps that were evaluated.
    pub steps: u64,
    /// Calls that ended, refused ones not counted.
    pub calls: u64,
    /// Of these, those that failed for good.
    pub failures: u64,
    /// Tries that failed and were followed by another.
    pub retries: u64,
    /// Calls that the gateway refused.
    pub refusals: u64,
    /// Times that the run was taken up again.
    pub resumes: u64,
    /// Items that were set aside, every time counted.
    pub deferrals: u64,
    /// Steps in a row that failed.
    pub failures_in_row: u32,
    /// Steps in a row without a useful observation.
    pub fruitless_in_row: u32,
}

/// What the models of a run used and cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelTotals {
    /// Calls that were made, repeated tries included.
    pub calls: u32,
    /// Of these, those without a reply.
    pub failures: u32,
    /// Of these, those whose owner was gone before the reply: what they cost is not known.
    pub lost: u32,
    /// Tokens, as far as providers told.
    pub usage: Usage,
    /// What it cost, as far as prices are known.
    pub cost: Money,
    /// Calls that were answered and whose cost is not known.
    pub unpriced: u32,
    /// What was reserved for calls of which nobody knows what they used. It counts as used.
    #[serde(default)]
    pub estimated: Amount,
    /// What calls under way may use, by their numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved: BTreeMap<u32, Amount>,
}

/// A tool that keeps failing in a passing way (R55).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ailing {
    /// Calls in a row that failed for good.
    pub failures: u32,
    /// Calls that its alternatives took over since.
    pub passed_over: u32,
}

/// Limits that a person raised above the task's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Raised {
    /// Steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Milliseconds since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// How far a subgoal is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Its name.
    pub id: String,
    /// Where it stands.
    pub status: SubgoalStatus,
    /// The list of its `foreach`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<List>,
    /// Items that were begun, from the front of the list; entries done, where there is no list.
    pub begun: u32,
    /// Items that are done.
    pub done: u32,
    /// Items set aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deferred: Vec<Deferred>,
    /// Items that can't be had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<GivenUp>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// How its last call ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Code>,
    /// Calls that a model decided, by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, u32>,
    /// What the model said was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The planner was asked about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub considered: bool,
    /// Why a planner took it out of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
    /// The subgoal in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

/// Where a subgoal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubgoalStatus {
    /// Its needs are not met yet.
    Pending,
    /// It is being worked on.
    Active,
    /// It reached its end.
    Ended(SubgoalOutcome),
}

impl SubgoalStatus {
    /// The word, for people and expressions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Ended(outcome) => match outcome {
                SubgoalOutcome::Done => "done",
                SubgoalOutcome::Partial => "partial",
                SubgoalOutcome::Failed => "failed",
                SubgoalOutcome::Skipped => "skipped",
                SubgoalOutcome::Blocked => "blocked",
                SubgoalOutcome::Dropped => "dropped",
                SubgoalOutcome::Replaced => "replaced",
            },
        }
    }

    /// Whether what needs it can begin. A skipped subgoal is not needed, so it stands in nobody's way; nor does one that is out of the plan.
    #[must_use]
    pub const fn satisfies(self) -> bool {
        match self {
            Self::Pending | Self::Active => false,
            Self::Ended(outcome) => !matches!(outcome, SubgoalOutcome::Failed | SubgoalOutcome::Blocked),
        }
    }
}

/// An item set aside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deferred {
    /// Its position in the list.
    pub item: u32,
    /// How often it was set aside.
    pub rounds: u32,
    /// Not before this instant.
    pub due: Timestamp,
}

/// An item that can't be had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GivenUp {
    /// Its position in the list.
    pub position: u32,
    /// The item.
    pub item: Payload,
    /// How the last call ended.
    pub code: Code,
    /// Why.
    pub reason: String,
}

/// The last finished call, for expressions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastCall {
    /// The tool.
    pub tool: String,
    /// How it ended.
    pub code: Code,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the decision must know of a tool: its contract after the task's tightening.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFacts {
    /// What it does to the world.
    pub effect: Effect,
    /// The same arguments always give the same answer.
    pub deterministic: bool,
    /// The arguments that name the effect in business terms.
    pub effect_key: Vec<String>,
    /// When to try again.
    pub retry: RetryPolicy,
}

/// An event to be archived, with the blobs that it refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// What happened.
    pub event: Event,
    /// The blobs.
    pub blobs: Vec<Blob>,
}

impl From<Event> for Draft {
    fn from(event: Event) -> Self {
        Self { event, blobs: Vec::new() }
    }
}

impl RunState {
    /// The state before the first record.
    #[must_use]
    pub fn new(run: RunId, task: &Task) -> Self {
        Self {
            run,
            head: Seq(0),
            started_at: Timestamp(0),
            last_at: Timestamp(0),
            task: ContentHash([0; 32]),
            version: String::new(),
            incarnation: 0,
            subgoals: task.subgoals.iter().map(|subgoal| Progress::new(&subgoal.id)).collect(),
            plan: Plan::default(),
            consult: None,
            judgement: None,
            branches: BTreeMap::new(),
            last_branch: BranchId(0),
            last_step: StepNo(0),
            totals: Totals::default(),
            models: ModelTotals::default(),
            budget: BudgetState::default(),
            heard: Vec::new(),
            calls: BTreeMap::new(),
            ailing: BTreeMap::new(),
            told: Seq(0),
            window: Window::default(),
            lifecycle: task.states.as_ref().map(|states| states.initial.clone()),
            raised: Raised::default(),
            question: None,
            stopped: None,
            paused: None,
            aborted: false,
            ended: None,
            verdict: None,
            last_call: None,
        }
    }

    /// The status that lists show.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        if let Some(outcome) = self.ended {
            return match outcome {
                RunOutcome::Succeeded => RunStatus::Succeeded,
                RunOutcome::Failed => RunStatus::Failed,
                RunOutcome::Cancelled => RunStatus::Cancelled,
            };
        }
        if self.paused.is_some() || (self.stopped.is_some() && self.question.is_none()) {
            return RunStatus::Paused;
        }
        let waits = |branch: &Branch| match &branch.phase {
            Phase::Waiting { .. } => true,
            Phase::Acting { actions } => actions
                .iter()
                .all(|action| matches!(action.state, ActionState::Asked(_)) || self.held_behind(action).is_some()),
            Phase::Ready => self.question.is_some(),
            Phase::Deciding | Phase::Thinking { .. } => {
                self.is_out_of_budget() && branch.agent.as_ref().is_some_and(|agent| !agent.replied)
            }
        };
        let nothing_moves = self.branches.values().all(waits);
        let thinks = self.consult.as_ref().is_some_and(|consult| consult.is_at_work());
        if nothing_moves && !thinks && !self.aborted && (self.question.is_some() || !self.branches.is_empty()) {
            RunStatus::Waiting
        } else {
            RunStatus::Running
        }
    }

    /// All open questions, with the branch that waits.
    pub fn questions(&self) -> impl Iterator<Item = (Option<BranchId>, &Question)> {
        let of_branches = self.branches.iter().flat_map(|(id, branch)| {
            let in_phase: Vec<&Question> = match &branch.phase {
                Phase::Waiting { on: WaitFor::Person(question) } => vec![question],
                Phase::Acting { actions } => actions
                    .iter()
                    .filter_map(|action| match &action.state {
                        ActionState::Asked(question) => Some(question),
                        _ => None,
                    })
                    .collect(),
                _ => Vec::new(),
            };
            in_phase.into_iter().map(|question| (Some(*id), question))
        });
        // Once a person has said stop, nothing is asked any more.
        let open = !self.aborted;
        self.question.iter().map(|question| (None, question)).chain(of_branches).filter(move |_| open)
    }

    /// The action of the same effect that a person was asked about, if `action` must wait for the answer (R41).
    #[must_use]
    pub fn held_behind(&self, action: &Action) -> Option<ActionId> {
        let key = action.business_key.as_ref().filter(|_| action.state == ActionState::Decided)?;
        self.branches.values().find_map(|branch| match &branch.phase {
            Phase::Acting { actions } => actions
                .iter()
                .find(|other| matches!(other.state, ActionState::Asked(_)) && other.business_key.as_ref() == Some(key))
                .map(|other| other.id),
            _ => None,
        })
    }

    /// Calls that wait for a person's answer about the same effect: the call, and the one that the person is asked about.
    pub fn held_calls(&self) -> impl Iterator<Item = (ActionId, ActionId)> {
        let open = self.branches.values().flat_map(|branch| match &branch.phase {
            Phase::Acting { actions } => actions.as_slice(),
            _ => &[],
        });
        open.filter_map(|action| Some((action.id, self.held_behind(action)?)))
    }

    /// Finds an action that hasn't ended.
    #[must_use]
    pub fn action(&self, id: ActionId) -> Option<(BranchId, &Action)> {
        self.branches.iter().find_map(|(branch, state)| match &state.phase {
            Phase::Acting { actions } => actions.iter().find(|action| action.id == id).map(|action| (*branch, action)),
            _ => None,
        })
    }

    /// When something is due: a wait ends, a try, an item that was set aside.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        let of_branches = self.branches.values().flat_map(|branch| match &branch.phase {
            Phase::Waiting { on: WaitFor::Time(until) } => vec![*until],
            Phase::Thinking { thought: Thought { state: ThoughtState::Backoff { until }, .. } } => vec![*until],
            Phase::Acting { actions } => actions
                .iter()
                .filter_map(|action| match action.state {
                    ActionState::Backoff { until } => Some(until),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        });
        let consulted = self.consult.iter().filter_map(|consult| match consult.thought.as_ref()?.state {
            ThoughtState::Backoff { until } => Some(until),
            ThoughtState::Called | ThoughtState::Lost => None,
        });
        let set_aside = self.subgoals.iter().flat_map(|progress| progress.deferred.iter().map(|deferred| deferred.due));
        of_branches.chain(set_aside).chain(consulted).min()
    }

    /// Whether the subgoal is in the plan no more.
    #[must_use]
    pub fn is_out(&self, id: &str) -> bool {
        let found = self.subgoals.iter().find(|progress| progress.id == id);
        found.is_some_and(|progress| {
            matches!(progress.status, SubgoalStatus::Ended(SubgoalOutcome::Dropped | SubgoalOutcome::Replaced))
        })
    }

    /// The number of steps after which no further one starts.
    #[must_use]
    pub fn max_steps(&self, task: &Task) -> u64 {
        self.raised.max_steps.unwrap_or(task.limits.max_steps).max(1)
    }
}

impl Progress {
    fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            status: SubgoalStatus::Pending,
            list: None,
            begun: 0,
            done: 0,
            deferred: Vec::new(),
            given_up: Vec::new(),
            failure: None,
            last: None,
            calls: BTreeMap::new(),
            summary: None,
            considered: false,
            dropped: None,
            replaced_by: None,
        }
    }
}
