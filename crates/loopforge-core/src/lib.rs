//! The pure core of LoopForge.
//!
//! It decides and touches nothing: no clock, no file, no network, no randomness, no `async`. A driver tells it the time and
//! what happened; it answers what is to be done next. The same functions run live, on resume, in replay and in tests.
//!
//! Reading order: [`task`] (what is to be done), [`record`] (what happened), [`tool`] (what a call promises and brings), [`run`]
//! (the fold over the records, and what is to be done next), [`model`] (what is said to a model), [`agent`] and [`prompt`] (how a
//! model works on a subgoal, and what it is shown), [`evaluate`] and [`guard`] (how steps are judged).

pub mod agent;
pub mod checkpoint;
pub mod evaluate;
pub mod expression;
pub mod guard;
pub mod id;
pub mod json;
pub mod model;
pub mod payload;
pub mod plan;
pub mod prompt;
pub mod record;
pub mod run;
pub mod task;
pub mod time;
pub mod tool;
