//! `loopforge run FILE`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use loopforge::gateway::Registry;
use loopforge::{Prepared, Start, inputs};
use serde_json::json;

use crate::context::{Context, interruption};
use crate::error::{CliError, Exit};
use crate::output::Output;

use super::progress::{Progress, conclude};

/// Run a task file.
#[derive(Debug, Args)]
pub struct Run {
    /// The task file (YAML or JSON)
    pub file: PathBuf,
    /// A value for an input: `name=value`, or `name=@file`
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
    /// Leave it to the workers of the store, and print the run's id
    #[arg(short, long)]
    pub detach: bool,
}

impl Run {
    /// Carries it out.
    ///
    /// # Errors
    /// The task or an input has a mistake, or the store fails.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        // Mistakes in the files are told before a store is made.
        let prepared = Prepared::from_file(&self.file, &Registry::default())?;
        let inputs = inputs::read(&prepared.task, &prepared.base, &self.file.display().to_string(), &self.inputs)?;
        let engine = context.engine()?;
        if self.detach {
            let run = engine.queue(&prepared, inputs).await?;
            let mut out = Output::new();
            if context.json {
                out.json(&json!({ "run": run.to_string() }))?;
            } else {
                writeln!(out, "{run}")?;
            }
            out.finish()?;
            return Ok(Exit::Success);
        }
        let progress = Progress::new(context.json, &prepared.task);
        let run = engine.start(prepared, Start { inputs, watcher: Some(progress.watcher()) }).await?;
        let report = run.drive(interruption()).await;
        progress.finish();
        let report = report?;
        let exit = conclude(context, &report);
        super::estimate::compare(context, &engine, &report);
        Ok(exit)
    }
}
