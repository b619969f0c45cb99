//! Tests of the core through its public door.

mod run;
mod task;
