//! Tests of the stores, as one program.
#![expect(clippy::unwrap_used, reason = "tests")]

mod conformance;
