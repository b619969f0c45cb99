//! The decisions and the fold, driven by a small simulation: no clock, no store, tools that answer as dice fall.

#![expect(clippy::unwrap_used, reason = "tests")]

mod laws;
mod simulation;
mod table;
