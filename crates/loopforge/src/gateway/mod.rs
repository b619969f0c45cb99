//! The gateway: every tool call passes it.
//!
//! Before a call it checks ([`admit`]): arguments against the schema, whitelist, lifecycle, quota, preconditions, the
//! business key. It makes one try at a time ([`attempt`]), with the tool's time limit. After it, it turns whatever came back
//! into the one result shape ([`outcome`]). Retries are decided by the core and archived; the gateway never repeats a call
//! by itself.

pub mod admit;
pub mod attempt;
pub mod outcome;
mod toolbox;

pub use toolbox::{Armed, Registry, StatusVia, Toolbox};
