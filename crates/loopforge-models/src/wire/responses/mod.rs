//! OpenAI's Responses.
//!
//! Nothing is kept at the provider (`store: false`): the whole conversation is sent, and reasoning travels with it, encrypted.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(super) use decode::Decoder;
pub(super) use encode::encode;
