//! Runs of generated tasks and of small ones, in a simulator in which a call always brings the same.
#![expect(clippy::unwrap_used, reason = "tests")]

mod decisions;
mod laws;
mod plan;
mod sim;
