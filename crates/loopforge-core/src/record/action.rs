//! Events of calls: decided, refused, started, failed, finished, unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ActionId;
use crate::id::{BranchId, ContentHash, StepToken};
use crate::json::Json;
use crate::payload::{BlobRef, Payload};
use crate::time::Timestamp;
use crate::tool::{Code, Effect};

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

/// Of [`super::Event::ActionDecided`].
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

/// Of [`super::Event::ActionRefused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionRefused {
    /// The branch.
    pub branch: BranchId,
    /// Which action.
    #[serde(flatten)]
    pub id: ActionId,
    /// [`Code::InvalidArgument`] or [`Code::Refused`].
    pub code: Code,
    /// Which check refused it: `schema`, `whitelist`, `lifecycle`, `quota`, `precondition`, `effect_key`, `repetition`, `order`.
    pub check: String,
    /// Why, in a sentence that names the remedy.
    pub reason: String,
}

/// Of [`super::Event::ActionStarted`].
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

/// Of [`super::Event::AttemptFailed`].
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
    /// The loop itself did what a model told it.
    Loop,
}

/// Of [`super::Event::ActionFinished`].
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

/// Of [`super::Event::ActionUnknown`].
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

/// Of [`super::Event::ActionNotHappened`].
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
