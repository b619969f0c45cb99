//! Tests of the core through its public door.

mod route;
mod task;
mod transitions;
mod values;
