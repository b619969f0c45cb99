//! Subgoals without steps: a model decides the calls, LoopForge everything else.
//!
//! A step is one reply of the model, with the calls in it and the verdict on them. The model is given tools and a few
//! [`Control`]s, by which it speaks to the loop: say that a subgoal is done, ask a person, keep a value, wait, try another way.
//! Its word is never the last one: `finish` is a claim, which the subgoal's `done_when` proves or refutes.

mod control;
mod handle;
#[cfg(test)]
mod tests;

pub use control::{Control, LONGEST_WAIT_S};
pub use handle::{Handle, resolve};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::guard::{Seen, Window};
use crate::id::ContentHash;
use crate::json::Json;
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::tool::{Code, Effect};

/// What a branch on which a model works must remember between records. Without the history: that is in the archive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Agent {
    /// The reply of the open step is in.
    pub replied: bool,
    /// Calls of the open step that did what was asked.
    pub succeeded: u32,
    /// Calls of the open step that failed or were refused.
    pub failed: u32,
    /// The last of these failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// The model says that the subgoal is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The model wants to wait until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Timestamp>,
    /// The model wants to try another way, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up: Option<String>,
    /// The reply of the open step had nothing in it, or was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// What the guard did about the last loop, until a step brings something new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Response>,
    /// Calls that the guard took out of reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<Withheld>,
    /// Steps in a row that brought nothing: refuted claims, failures, unusable replies.
    pub bad_in_row: u32,
    /// Times that it began anew on another way.
    pub replans: u32,
    /// Steps in a row without a useful observation.
    pub fruitless_in_row: u32,
    /// Why the last way was given up, until the planner has looked at it or another way is begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_failed: Option<String>,
    /// Replies in a row that have nothing to do with the goal, as far as words tell.
    #[serde(default)]
    pub adrift_in_row: u32,
    /// Model calls of the open step that failed in a passing way.
    pub model_failures: u32,
    /// The model in the task's chain that is asked.
    pub model: u32,
    /// What the guard watches: the calls of this branch alone, since those of others would hide its circles.
    pub window: Window,
}

/// What the guard does about a loop of a model, milder means first (R6, R7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The model is told.
    Tell,
    /// The calls that go round are out of reach from now on.
    Withhold,
    /// The subgoal begins anew on another way.
    Replan,
    /// A person decides.
    Ask,
}

impl Response {
    /// What is done when the loop goes on in spite of `before`.
    #[must_use]
    pub const fn after(before: Option<Self>) -> Self {
        match before {
            None => Self::Tell,
            Some(Self::Tell) => Self::Withhold,
            Some(Self::Withhold) => Self::Replan,
            Some(Self::Replan | Self::Ask) => Self::Ask,
        }
    }
}

/// A call that the guard took out of reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// The tool.
    pub tool: String,
    /// With these arguments only.
    pub digest: ContentHash,
}

impl Agent {
    /// A new step begins: what the last one left is over.
    pub(crate) fn open_step(&mut self) {
        self.replied = false;
        self.succeeded = 0;
        self.failed = 0;
        self.last_failure = None;
        self.claim = None;
        self.wait = None;
        self.gives_up = None;
        self.unusable = None;
        self.way_failed = None;
        self.model_failures = 0;
    }

    /// Whether the open step brought nothing but failures.
    #[must_use]
    pub const fn only_failed(&self) -> bool {
        self.failed > 0 && self.succeeded == 0
    }

    /// Takes a call in that ended. Returns whether it brought something useful: an outcome not seen before.
    ///
    /// For a read, the outcome must be new for this tool with whatever arguments: ten searches that all find the same nothing bring one
    /// thing. A write that did what was asked has changed the world, whatever it answers.
    pub(crate) fn finished(&mut self, call: Seen, effect: Effect, arguments: &Payload, at: Timestamp) -> bool {
        let known = self.window.saw(&call.tool, call.code, call.fingerprint);
        let ok = call.code == Code::Success;
        if ok {
            self.succeeded += 1;
            self.obeyed(&call.tool, &arguments.inline, at);
        }
        let control = Control::find(&call.tool).is_some();
        let new_call = self.window.push(call);
        ok && !control && new_call && (effect == Effect::Write || !known)
    }

    fn obeyed(&mut self, tool: &str, arguments: &Json, at: Timestamp) {
        let text = |key: &str| arguments.get(key).and_then(Json::as_str).unwrap_or("(a long text)").to_owned();
        match Control::find(tool) {
            Some(Control::Finish) => self.claim = Some(text("summary")),
            Some(Control::Replan) => self.gives_up = Some(text("reason")),
            Some(Control::Wait) => {
                let seconds = arguments.get("seconds").and_then(Json::as_u64).unwrap_or(0).min(LONGEST_WAIT_S);
                self.wait = Some(at.after(Duration::from_secs(seconds)));
            }
            Some(Control::AskPerson | Control::SetState | Control::GetState | Control::Recall) | None => {}
        }
    }

    /// Takes a verdict in.
    pub(crate) fn stepped(&mut self, failed: bool, useful: bool) {
        self.bad_in_row = if failed { self.bad_in_row + 1 } else { 0 };
        self.fruitless_in_row = if useful { 0 } else { self.fruitless_in_row + 1 };
        if useful {
            self.guard = None;
        }
    }

    /// Begins anew on another way. What the guard took out of reach stays so.
    pub(crate) fn replan(&mut self) {
        self.replans += 1;
        self.bad_in_row = 0;
        self.fruitless_in_row = 0;
        self.window.clear();
    }

    /// Whether the guard took this call out of reach.
    #[must_use]
    pub fn is_withheld(&self, tool: &str, digest: ContentHash) -> bool {
        self.withheld.iter().any(|held| held.tool == tool && held.digest == digest)
    }
}
