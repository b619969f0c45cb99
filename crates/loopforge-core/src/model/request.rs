//! What is said to a model.

use serde::{Deserialize, Serialize};

use super::message::{Block, Message, Role, ToolCall};
use crate::json::Json;

/// The whole prompt of one call, with its limits.
///
/// The parts stand in the order in which providers cache them: tools, `system`, messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// `provider/model`, as in the task file.
    pub model: String,
    /// What holds for the whole conversation; empty for nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSchema>,
    /// Whether it may or must call.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// Whether one reply may hold several calls.
    #[serde(default = "yes")]
    pub parallel_calls: bool,
    /// The form of the answer, where it must be JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSchema>,
    /// The most tokens of output, reasoning included. None for the provider's own limit, or the adapter's where it must send one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// 0 for the likeliest words. None for the provider's own value; several models accept no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How much the model shall think. None for the provider's own value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Texts at which the model stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The same for requests with a common beginning (the run), so that a provider sends them to the same cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
}

const fn yes() -> bool {
    true
}

impl Request {
    /// A prompt without tools and limits.
    #[must_use]
    pub fn new(model: impl Into<String>, system: impl Into<String>, messages: Vec<Message>) -> Self {
        Self {
            model: model.into(),
            system: system.into(),
            messages,
            tools: Vec::new(),
            tool_choice: ToolChoice::default(),
            parallel_calls: true,
            output: None,
            max_output_tokens: None,
            temperature: None,
            effort: None,
            stop: Vec::new(),
            cache_key: None,
        }
    }

    /// Every call of the conversation.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.messages.iter().flat_map(Message::calls)
    }

    /// What providers would refuse about the pairs of calls and results, in a sentence; none if all is well.
    ///
    /// Each call is answered once, in the message right after its own, and nothing else is answered.
    #[must_use]
    pub fn unpaired(&self) -> Option<String> {
        let mut open: Vec<&str> = Vec::new();
        for (position, message) in self.messages.iter().enumerate() {
            if message.role != Role::Tool
                && let Some(id) = open.first()
            {
                return Some(format!("the call `{id}` has no result before message {position}"));
            }
            for block in &message.blocks {
                match block {
                    Block::ToolCall(call) if message.role == Role::Assistant => {
                        if open.contains(&call.id.as_str()) {
                            return Some(format!("two calls of message {position} have the id `{}`", call.id));
                        }
                        open.push(&call.id);
                    }
                    Block::ToolResult(result) if message.role == Role::Tool => {
                        let Some(place) = open.iter().position(|id| *id == result.call) else {
                            return Some(format!("message {position} answers `{}`, which is not open", result.call));
                        };
                        open.remove(place);
                    }
                    Block::ToolCall(_) | Block::ToolResult(_) => {
                        return Some(format!("message {position} has a block that its role can't have"));
                    }
                    Block::Text { .. } | Block::Opaque(_) => {}
                }
            }
        }
        open.first().map(|id| format!("the call `{id}` has no result"))
    }
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    /// Its name in the task. Where a provider allows fewer characters, the adapter translates.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Json,
}

/// Whether the model may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// It must not. The tools stay in the prompt, so that caches hold.
    None,
    /// It must call something. Not every server keeps to it.
    Required,
    /// It must call this one.
    Tool(String),
}

/// A form that the text of the answer must have. Not every server keeps to it: check the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// A name for it, of letters, digits, `_` and `-`.
    pub name: String,
    /// JSON Schema, an object.
    pub schema: Json,
}

/// How much a model shall think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Little.
    Low,
    /// As usual.
    Medium,
    /// Much.
    High,
}

impl Effort {
    /// Its name, which is the same in all places.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The form in which a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// OpenAI's chat completions, which most servers speak (`POST BASE/chat/completions`).
    Chat,
    /// OpenAI's Responses (`POST BASE/responses`).
    Responses,
    /// Anthropic's Messages (`POST BASE/v1/messages`).
    Messages,
}

impl Api {
    /// Its name in the task file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }
}
