//! What the tools do, seen from outside.
#![expect(clippy::unwrap_used, reason = "tests")]

mod builtin;
mod process;
