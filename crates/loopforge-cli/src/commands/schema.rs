//! `loopforge schema`

use std::io::Write;

use clap::Args;

use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::Output;

/// Print the JSON Schema of task files, for editors.
#[derive(Debug, Args)]
pub struct Schema {}

impl Schema {
    /// Carries it out.
    ///
    /// # Errors
    /// Standard output can't be written to.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let mut out = Output::new();
        let schema = loopforge_core::task::json_schema();
        if context.json {
            out.json(&schema)?;
        } else {
            writeln!(out, "{schema:#}")?;
        }
        out.finish()?;
        Ok(Exit::Success)
    }
}
