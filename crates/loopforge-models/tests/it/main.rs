//! Tests of models over real connections.
#![expect(clippy::unwrap_used, reason = "tests")]

mod http;
mod judges;
mod raw;
mod served;
