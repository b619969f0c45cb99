//! What a model answered, and what it used.

use serde::{Deserialize, Serialize};

use super::message::{self, Block, ToolCall};

/// A whole answer of a model. A stream that broke off is none: see [`super::ModelError`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The provider's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The model that answered, as the provider names it; it can differ from the one that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it said, in order.
    pub blocks: Vec<Block>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it used, as far as the provider says.
    #[serde(default)]
    pub usage: Usage,
    /// What was mended or left out on the way in ("2 × lone surrogate replaced"). Never silent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
}

impl Reply {
    /// Its text blocks, one after the other, a line feed between them.
    #[must_use]
    pub fn text(&self) -> String {
        message::join_texts(&self.blocks)
    }

    /// Its calls.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        message::calls(&self.blocks)
    }

    /// Whether it has neither text (other than blanks) nor a call. Reasoning alone is empty, too.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls().next().is_none() && self.text().trim().is_empty()
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said what it wanted, or came upon a stop text.
    End,
    /// It wants calls to be made. Whether there are any is another question: servers say so without one.
    ToolCalls,
    /// The limit of output, or the window, was reached. The last block may be cut off.
    Length,
    /// The model refused, or a filter cut it off.
    Refused,
    /// Something else, in the provider's words.
    Other(String),
}

/// Tokens of a call. What the provider didn't say is `None`, never 0.
///
/// The numbers mean the same for all providers: parts are contained in their whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// All input, from a cache or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// The part of `input` that was read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    /// The part of `input` that was written to the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// All output, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// The part of `output` that was reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Whether the provider said what was read and what was written.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.input.is_some() && self.output.is_some()
    }

    /// Input and output together; what is unknown counts as nothing.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input.unwrap_or_default().saturating_add(self.output.unwrap_or_default())
    }

    /// The sum with another; a number is unknown only if both are.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Self {
            input: sum(self.input, other.input),
            cached_input: sum(self.cached_input, other.cached_input),
            cache_write: sum(self.cache_write, other.cache_write),
            output: sum(self.output, other.output),
            reasoning: sum(self.reasoning, other.reasoning),
        }
    }
}
