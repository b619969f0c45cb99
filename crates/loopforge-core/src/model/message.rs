//! Messages, made of blocks.

use serde::{Deserialize, Serialize};

use super::arguments::Arguments;
use crate::json::Json;

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whoever the model works for; status and hints of LoopForge come so, too.
    User,
    /// The model.
    Assistant,
    /// What tools brought: answers to the calls of the assistant's message before.
    Tool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said, in order. Blocks that don't fit the role are left out by adapters: see [`Block`].
    pub blocks: Vec<Block>,
    /// The prompt up to the end of this message will stand unchanged at the beginning of later requests, so that a provider's cache is
    /// worth filling up to here. A hint; adapters use the last few where a provider wants marks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_end: bool,
}

impl Message {
    /// A message of the user.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Block::text(text)])
    }

    /// A message of the model.
    #[must_use]
    pub fn assistant(blocks: Vec<Block>) -> Self {
        Self::new(Role::Assistant, blocks)
    }

    /// The results of the calls of the message before, in the order of the calls.
    #[must_use]
    pub fn results(results: Vec<CallResult>) -> Self {
        Self::new(Role::Tool, results.into_iter().map(Block::ToolResult).collect())
    }

    /// A message.
    #[must_use]
    pub fn new(role: Role, blocks: Vec<Block>) -> Self {
        Self { role, blocks, prefix_end: false }
    }

    /// Its text blocks, one after the other, a line feed between them.
    #[must_use]
    pub fn text(&self) -> String {
        join_texts(&self.blocks)
    }

    /// Its calls.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        calls(&self.blocks)
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text; in messages of users and the assistant.
    Text {
        /// The text.
        text: String,
    },
    /// A call that the model wants; in messages of the assistant.
    ToolCall(ToolCall),
    /// What a call brought; in messages of tools.
    ToolResult(CallResult),
    /// A part that only its provider understands; in messages of the assistant.
    Opaque(Opaque),
}

impl Block {
    /// A text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A call that the model wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call. Adapters make it unique among the calls of the request and the reply: servers repeat theirs.
    pub id: String,
    /// The id that the provider gave, where that one could not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The tool, by the name in [`super::ToolSchema::name`], or a name that the model made up.
    pub name: String,
    /// The arguments as they came.
    pub arguments: Arguments,
}

/// What a call brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The id of the call.
    pub call: String,
    /// What the model is told.
    pub content: String,
    /// The call failed, or was not made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// A part of a reply that only its provider understands: reasoning, signatures, encrypted state.
///
/// It is kept in its place and sent back unchanged to the same model of the same provider, and left out for all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    /// The provider that made it, as in [`super::Request::model`] before the slash.
    pub provider: String,
    /// The model that made it.
    pub model: String,
    /// The part, as it came.
    pub value: Json,
}

impl Opaque {
    /// The text in it that people can read (a model's reasoning), for looking at and measuring only. None where all is encrypted.
    #[must_use]
    pub fn readable(&self) -> Option<String> {
        for key in ["thinking", "reasoning_content", "reasoning", "text"] {
            if let Some(Json::String(text)) = self.value.get(key) {
                return Some(text.clone());
            }
        }
        let parts = ["summary", "content"].iter().filter_map(|key| self.value.get(*key)?.as_array()).flatten();
        let texts: Vec<&str> = parts.filter_map(|part| part.get("text")?.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

pub(super) fn join_texts(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            Block::ToolCall(_) | Block::ToolResult(_) | Block::Opaque(_) => None,
        })
        .collect();
    texts.join("\n")
}

pub(super) fn calls(blocks: &[Block]) -> impl Iterator<Item = &ToolCall> {
    blocks.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some(call),
        Block::Text { .. } | Block::ToolResult(_) | Block::Opaque(_) => None,
    })
}
