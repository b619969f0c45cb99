//! What works on a subgoal or an item, and the phase in which it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::id::{ActionNo, ContentHash, StepNo};
use crate::payload::Payload;
use crate::record::{About, ActionId, SaveTarget, StepStarted};
use crate::time::Timestamp;
use crate::tool::{Code, Effect};

/// What works on one subgoal, or on one item of its list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// Position of the subgoal in the task.
    pub subgoal: usize,
    /// Position of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// How often the item was set aside before.
    pub rounds: u32,
    /// The entry that comes next, or is being worked on.
    pub entry: u32,
    /// Tries of this entry's call and its alternatives that failed.
    pub alternative: u32,
    /// The entry was done again after a broken result.
    pub corrected: bool,
    /// The open step, or the last one.
    pub step: StepNo,
    /// Actions that the open step decided.
    pub actions: u32,
    /// The open step did an entry.
    pub did: bool,
    /// The open step brought something not seen before.
    pub useful: bool,
    /// The guard found that the open step completed a loop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub looped: bool,
    /// How the last call of the current entry failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What a model's work needs to remember, where one works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// Names saved for this branch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub locals: BTreeMap<String, Payload>,
    /// What must happen next.
    pub phase: Phase,
}

/// What must happen next in a branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A step can start.
    Ready,
    /// A step is open: its next action is to be decided, or the step is to be judged.
    Deciding,
    /// A model is to be asked, or its reply awaited.
    Thinking {
        /// The call.
        thought: Thought,
    },
    /// Calls are to be made, or awaited.
    Acting {
        /// Those that haven't ended.
        actions: Vec<Action>,
    },
    /// Something outside must happen first.
    Waiting {
        /// What.
        on: WaitFor,
    },
}

/// A call of a model that has no reply yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thought {
    /// Its number.
    pub call: u32,
    /// Where it stands.
    pub state: ThoughtState,
}

/// Where a call of a model stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThoughtState {
    /// Its owner waits for the reply.
    Called,
    /// Its owner is gone: it is to be made again.
    Lost,
    /// It failed in a passing way.
    Backoff {
        /// When it is to be made again.
        until: Timestamp,
    },
}

/// What a branch waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// A time.
    Time(Timestamp),
    /// A person.
    Person(Question),
}

/// A question that is open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What it is about.
    pub about: About,
    /// The action that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ActionId>,
    /// The question.
    pub text: String,
}

/// A call that was decided and hasn't ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Which.
    pub id: ActionId,
    /// The tool.
    pub tool: String,
    /// What it does to the world.
    pub effect: Effect,
    /// What it is called with.
    pub arguments: Payload,
    /// Hash of the canonical arguments.
    pub digest: ContentHash,
    /// Names the effect in business terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Where the result goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<SaveTarget>,
    /// Tries that were started, as far as they are archived.
    pub attempts: u32,
    /// Of these, those whose owner was gone before they had ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u32,
    /// Where it stands.
    pub state: ActionState,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionState {
    /// It can be made.
    Decided,
    /// The intent of a write is archived, so it may have been made.
    Started,
    /// A try failed in a passing way.
    Backoff {
        /// When the next is due.
        until: Timestamp,
    },
    /// It may have happened or not: ask.
    Unknown {
        /// Why.
        reason: String,
    },
    /// A person was asked.
    Asked(Question),
}

/// How a call failed for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The tool.
    pub tool: String,
    /// How.
    pub code: Code,
    /// What went wrong.
    pub error: String,
    /// The wait that the target asked for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Action {
    /// Tries that count against the tool's limit. One that ended with its owner says nothing about the target.
    #[must_use]
    pub const fn tries(&self) -> u32 {
        self.attempts.saturating_sub(self.lost)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Branch {
    /// The next action of the open step.
    #[must_use]
    pub fn next_action(&self) -> ActionId {
        ActionId { step: self.step, action: ActionNo(self.actions) }
    }

    pub(super) fn new(subgoal: usize, event: &StepStarted, rounds: u32) -> Self {
        Self {
            subgoal,
            item: event.item,
            input: event.input.clone(),
            rounds,
            entry: 0,
            alternative: 0,
            corrected: false,
            step: event.step,
            actions: 0,
            did: false,
            useful: false,
            looped: false,
            failure: None,
            agent: event.agent.then(Agent::default),
            locals: BTreeMap::new(),
            phase: Phase::Deciding,
        }
    }

    pub(super) fn open_step(&mut self, step: StepNo) {
        self.step = step;
        self.actions = 0;
        self.did = false;
        self.useful = false;
        self.looped = false;
        if let Some(agent) = &mut self.agent {
            agent.open_step();
        }
        self.phase = Phase::Deciding;
    }

    /// The entry is done; the next one comes.
    pub(super) fn did(&mut self, entry: u32) {
        // Any number can stand in a damaged archive.
        self.entry = entry.saturating_add(1);
        self.alternative = 0;
        self.corrected = false;
        self.did = true;
    }

    /// Goes on to decide once no call is open any more.
    pub(super) fn settle(&mut self) {
        if matches!(&self.phase, Phase::Acting { actions } if actions.is_empty()) {
            self.phase = Phase::Deciding;
        }
    }
}
