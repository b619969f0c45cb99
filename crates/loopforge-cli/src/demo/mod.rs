//! The demonstration: a page patrol over a shop on this machine, killed in the middle and resumed.

pub mod shop;

use std::path::PathBuf;

use crate::error::{CliError, Exit};

/// Runs the demonstration in `folder`.
///
/// # Errors
/// A part of it can't be started.
pub async fn run(_folder: Option<PathBuf>, _json: bool) -> Result<Exit, CliError> {
    Ok(Exit::Success)
}
