//! `loopforge worker`

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use loopforge::EngineError;
use loopforge::worker::{Habits, News};
use loopforge_core::id::RunId;
use serde_json::json;

use crate::context::{Context, interruption};
use crate::error::{CliError, Exit};
use crate::text::safe;

/// Carry out the runs that are due, beside other workers.
#[derive(Debug, Args)]
pub struct Worker {
    /// Runs at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub parallel: u16,
    /// End when no run is left that could go on by itself
    #[arg(long)]
    pub until_idle: bool,
}

impl Worker {
    /// Carries it out.
    ///
    /// # Errors
    /// The store can't be used. What goes wrong with a run is told, and the others go on.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let engine = context.worker()?;
        let habits = Habits { parallel: usize::from(self.parallel), until_idle: self.until_idle };
        let json = context.json;
        let served = engine.serve(&habits, interruption(), Arc::new(move |news| tell(&news, json))).await?;
        crate::say!("{} runs taken up, {} could not be carried on here", served.taken_up, served.failed);
        Ok(Exit::Success)
    }
}

fn tell(news: &News, json: bool) {
    let line = match news {
        News::TakenUp(run) => json!({ "run": run, "event": "taken_up" }),
        News::Left(report) => json!({ "run": report.run, "event": "left", "status": report.status.name() }),
        News::Failed { run, error } => json!({ "run": run, "event": "failed", "error": error.to_string() }),
        News::Trouble(error) => json!({ "event": "trouble", "error": error.to_string() }),
    };
    if json {
        // A closed pipe ends the talk, not the work.
        let _ = writeln!(std::io::stdout().lock(), "{line}");
        return;
    }
    match news {
        News::TakenUp(run) => crate::say!("{run}: taken up"),
        News::Left(report) => crate::say!("{}: {}", report.run, report.status.name()),
        News::Failed { run, error } => crate::say!("{}", failure(run, error)),
        News::Trouble(error) => crate::say!("the store can't be asked: {}", safe(&error.to_string())),
    }
}

fn failure(run: &RunId, error: &EngineError) -> String {
    let error = error.to_string();
    let text = safe(&error);
    if text.contains(&run.to_string()) { text.to_string() } else { format!("{run}: {text}") }
}
