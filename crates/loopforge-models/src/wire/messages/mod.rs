//! Anthropic's Messages.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(super) use decode::Decoder;
pub(super) use encode::encode;
