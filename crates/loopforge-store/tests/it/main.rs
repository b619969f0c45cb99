//! Tests of the stores, as one program.
#![expect(clippy::unwrap_used, reason = "tests")]

mod archive;
mod conformance;
mod damage;
mod failover;
mod failures;
mod half_made;
mod opening;
mod processes;
mod properties;
mod sizes;
mod support;
mod views;
