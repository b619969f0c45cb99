//! How many tokens a text has, about.

use crate::model::{Block, Message, ToolSchema};

/// Characters of a Latin text that make a token, about. Source: the rule of thumb of the providers' own documentation.
const LATIN: u64 = 4;

/// Tokens that the frame of a message takes.
const FRAME: u64 = 4;

/// Estimates the tokens of a text: a quarter of its ASCII characters, and one for each other (a Chinese character is about one).
///
/// It is an estimate from above for prose; what providers count is recorded beside it.
#[must_use]
pub fn estimate(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|character| !character.is_ascii()).count() as u64;
    ascii.div_ceil(LATIN) + others
}

pub(super) fn of_messages(messages: &[Message]) -> u64 {
    messages.iter().map(|message| FRAME + message.blocks.iter().map(of_block).sum::<u64>()).sum()
}

fn of_block(block: &Block) -> u64 {
    match block {
        Block::Text { text } => estimate(text),
        Block::ToolCall(call) => FRAME + estimate(&call.name) + estimate(call.arguments.text()),
        Block::ToolResult(result) => FRAME + estimate(&result.content),
        Block::Opaque(opaque) => estimate(&opaque.value.to_string()),
    }
}

pub(super) fn of_tools(tools: &[ToolSchema]) -> u64 {
    tools
        .iter()
        .map(|tool| FRAME + estimate(&tool.name) + estimate(&tool.description) + estimate(&tool.parameters.to_string()))
        .sum()
}
