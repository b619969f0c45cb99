//! Events of model calls: asked, replied, failed.

use serde::{Deserialize, Serialize};

use crate::id::{BranchId, ContentHash, Seq, StepNo};
use crate::model::{Amount, ErrorKind, Money, StopReason, Usage};
use crate::payload::{BlobRef, Payload};
use crate::time::Timestamp;

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The next actions of a branch.
    Act,
    /// The plan: the subgoals, or what is to become of them after a failure.
    Plan,
    /// Whether the goal is reached, once all rules say so.
    Judge,
}

/// Of [`super::Event::ModelCalled`]: the intent of a model call. A call may be billed from here on, whatever comes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCalled {
    /// The branch; none when the run as a whole asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The step; none when the run as a whole asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepNo>,
    /// What for.
    pub purpose: Purpose,
    /// Its number among the model calls of this run, from 1. A repeated try has a number of its own.
    pub call: u32,
    /// The model, as the task names it.
    pub model: String,
    /// What it was given.
    pub prompt: PromptRef,
    /// Tokens that it may write at most.
    pub max_output_tokens: u32,
    /// What it may use at most, where the task has a budget. It counts as used until the reply says what was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Amount>,
}

/// Names a prompt. It is not stored: it is made again from the records before it (`loopforge trace RUN STEP --prompt`), and the hash tells
/// whether it is the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptRef {
    /// Hash of the request in its canonical form.
    pub digest: ContentHash,
    /// Made from the records up to this one.
    pub upto: Seq,
    /// Its size in tokens, estimated.
    pub tokens: u64,
    /// Steps of the branch that it leaves out, the oldest ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Of [`super::Event::ModelReplied`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReplied {
    /// The branch; none when the run as a whole asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The step; none when the run as a whole asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepNo>,
    /// The call's number.
    pub call: u32,
    /// The model that answered, as it names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reply: an array of blocks, kept verbatim. Its tool calls are the step's actions, in this order.
    pub blocks: Payload,
    /// How many tool calls are in it.
    pub calls: u32,
    /// What it says besides, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// Why it ended.
    pub stop: StopReason,
    /// Tokens, as the provider counted them.
    pub usage: Usage,
    /// What it cost by the price table; none for a model without a known price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Neither what it says nor what it calls has to do with the goal, as far as words tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adrift: bool,
    /// What was mended on the way in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// What came over the wire, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<BlobRef>,
    /// Time from the request to the end of the reply, in microseconds.
    #[serde(default)]
    pub took_us: u64,
}

/// Of [`super::Event::ModelFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// The branch; none when the run as a whole asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The step; none when the run as a whole asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepNo>,
    /// The call's number.
    pub call: u32,
    /// How it failed.
    pub error: ErrorKind,
    /// What went wrong.
    pub reason: String,
    /// When the next try is due; none when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The position in the task's chain of models of the one that the next try asks, when that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_model: Option<u32>,
    /// Tokens that were billed all the same, as far as the provider told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What they cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}
