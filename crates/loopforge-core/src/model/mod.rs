//! What is said to a model and what it answers, in one form for all providers.
//!
//! A [`Request`] is the whole prompt; a [`Reply`] is what came back, or a [`ModelError`] says what can be done now. Adapters translate
//! to and from each provider's own form. Nothing here reads, sends or waits. All of it goes into records.

mod arguments;
mod error;
mod message;
mod price;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use arguments::{Arguments, Malformed};
pub use error::{ErrorKind, ModelError};
pub use message::{Block, CallResult, Message, Opaque, Role, ToolCall};
pub use price::{Amount, LongPrice, Money, Price};
pub use reply::{Reply, StopReason, Usage};
pub use request::{Api, Effort, OutputSchema, Request, ToolChoice, ToolSchema};
