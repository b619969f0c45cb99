//! LoopForge as a library: it runs agent tasks to their end, through crashes.
//!
//! ```text
//! task file ──▶ Prepared ──▶ Engine::start / Engine::resume ──▶ Run::drive ──▶ Report
//! ```
//!
//! [`Engine`] opens runs in a store, [`Run`] drives one: it asks the core what is next, archives it, does it, archives what
//! came of it. Every tool call passes the [`gateway`]. Nothing is acted on before it is archived.

mod accept;
mod answer;
pub mod clock;
mod driver;
mod engine;
mod error;
mod estimate;
pub mod gateway;
mod heart;
mod hooks;
pub mod inputs;
mod journal;
mod killpoint;
mod life;
pub mod models;
mod prepare;
pub mod prompts;
pub mod retention;
mod set_state;
mod tell;
pub mod transfer;
pub mod worker;

pub use driver::{OpenQuestion, Report, Run, Watcher};
pub use engine::{Company, Engine, Loaded, Options, Resume, Start, TaskText};
pub use error::{ChangedTask, EngineError};
pub use estimate::{Estimate, Probe};
pub use hooks::Notice;
pub use life::is_gone;
pub use prepare::{Prepared, catalog};
pub use tell::Told;

/// The version that runs and archives carry.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
