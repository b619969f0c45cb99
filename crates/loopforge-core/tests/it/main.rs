//! Tests of the core through its public door.

mod generated;
mod route;
mod task;
mod transitions;
mod values;
