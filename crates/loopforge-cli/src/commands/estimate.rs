//! `loopforge estimate FILE`

use std::path::PathBuf;

use clap::Args;
use loopforge::gateway::Registry;
use loopforge::{Engine, Estimate as Found, Prepared, Probe, Report, inputs};
use loopforge_core::model::Amount;
use serde_json::json;

use crate::context::{Context, interruption};
use crate::error::{CliError, Exit, resume_hint};

use super::progress::Progress;

/// Make the first steps of a task, and say from them what the whole will use. The calls are real, and so is their cost.
#[derive(Debug, Args)]
pub struct Estimate {
    /// The task file (YAML or JSON)
    pub file: PathBuf,
    /// A value for an input: `name=value`, or `name=@file`
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
    /// Steps of the probe
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: u64,
    /// What the probe may use at most: `0.50usd` or `50000tokens`; both by giving it twice
    #[arg(long, value_name = "AMOUNT", value_parser = super::budget::amount)]
    pub at_most: Vec<Amount>,
}

impl Estimate {
    /// Carries it out.
    ///
    /// # Errors
    /// The task or an input has a mistake, no model was asked, or the store fails.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let prepared = Prepared::from_file(&self.file, &Registry::default())?;
        let inputs = inputs::read(&prepared.task, &prepared.base, &self.file.display().to_string(), &self.inputs)?;
        let at_most: Amount = self.at_most.into_iter().sum();
        let engine = context.engine()?;
        let progress = Progress::new(context.json, &prepared.task);
        let probe = Probe { inputs, steps: self.steps, at_most, watcher: Some(progress.watcher()) };
        let found = engine.estimate(prepared, probe, interruption()).await;
        progress.finish();
        let found = found?;
        if context.json {
            crate::tell!("{}", json!({ "estimate": found }));
            return Ok(Exit::Success);
        }
        crate::tell!(
            "the probe took {} steps and {} calls of models: {} ({})",
            found.steps,
            found.calls,
            said(found.used, found.unpriced),
            found.probe
        );
        if found.ended {
            crate::tell!("it ended the task: that is all");
            return Ok(Exit::Success);
        }
        crate::tell!("the whole will use {}", range(&found));
        crate::say!("the probe can go on as it is: {} --max-steps {}", resume_hint(found.probe), found.range.1);
        Ok(Exit::Success)
    }
}

fn said(amount: Amount, unpriced: bool) -> String {
    let cost = if unpriced { "of unknown cost".to_owned() } else { amount.cost.to_string() };
    format!("{} tokens, {cost}", amount.tokens)
}

/// An estimate as one line.
pub(super) fn range(found: &Found) -> String {
    format!(
        "from {} ({} steps) to {} ({} steps)",
        said(found.low, found.unpriced),
        found.range.0,
        said(found.high, found.unpriced),
        found.range.1
    )
}

/// Says how what a run used compares with what was estimated for its task, if it has ended and somebody did.
pub(super) fn compare(context: &Context, engine: &Engine, report: &Report) {
    if context.json || report.outcome.is_none() {
        return;
    }
    let (Some(used), Some(found)) = (report.used, engine.estimated(report.task)) else { return };
    crate::say!("used {}; estimated were {}", said(used, found.unpriced), range(&found));
}
