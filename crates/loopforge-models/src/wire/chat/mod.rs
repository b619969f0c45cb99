//! OpenAI's chat completions, as OpenAI and everybody else speaks it.

mod calls;
mod decode;
mod encode;
mod reasoning;
#[cfg(test)]
mod tests;

pub(super) use decode::Decoder;
pub(super) use encode::{arguments_text, encode, is_own, is_strict};

/// The member of an opaque block that belongs to the call right after it, not to the message.
const CALL_EXTRA: &str = "tool_call";
/// The member of an opaque block that is a part of the content.
const CONTENT_PART: &str = "content_part";
