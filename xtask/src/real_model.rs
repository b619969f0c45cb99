//! A small real language model, for checks that no mock can do.

use anyhow::Result;
use clap::Args;

/// What `cargo xtask real-model` takes.
#[derive(Debug, Args)]
pub(crate) struct RealModel {}

impl RealModel {
    pub(crate) fn run(&self) -> Result<()> {
        Ok(())
    }
}
