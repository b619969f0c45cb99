//! `loopforge check FILE`

use std::path::PathBuf;

use clap::Args;
use loopforge::gateway::{Registry, StatusVia};
use loopforge::{Prepared, inputs};
use loopforge_core::tool::Effect;
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Exit};

/// Check a task file and say what would run.
#[derive(Debug, Args)]
pub struct Check {
    /// The task file
    pub file: PathBuf,
    /// A value for an input: `name=value`, or `name=@file`
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
}

impl Check {
    /// Carries it out.
    ///
    /// # Errors
    /// All mistakes of the file, each with its place.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let prepared = Prepared::from_file(&self.file, &Registry::default())?;
        let inputs = inputs::read(&prepared.task, &prepared.base, &self.file.display().to_string(), &self.inputs)?;
        let task = &prepared.task;
        if let [problem, ..] = prepared.models.problems() {
            return Err(loopforge::EngineError::Invalid(problem.clone()).into());
        }
        let models: Vec<&str> = prepared.models.iter().map(|model| model.describe().name.as_str()).collect();
        if context.json {
            let tools: serde_json::Map<String, serde_json::Value> = prepared
                .toolbox
                .iter()
                .map(|(name, tool)| {
                    let timeout_ms = u64::try_from(tool.timeout.as_millis()).unwrap_or(u64::MAX);
                    (name.to_owned(), json!({ "effect": tool.contract.effect, "timeout_ms": timeout_ms }))
                })
                .collect();
            let subgoals: Vec<&str> = task.subgoals.iter().map(|subgoal| subgoal.id.as_str()).collect();
            let hash = prepared.hash.to_string();
            crate::tell!(
                "{}",
                json!({
                    "ok": true, "name": task.name, "hash": hash, "models": models, "subgoals": subgoals, "tools": tools
                })
            );
            return Ok(Exit::Success);
        }
        crate::tell!("{} is a valid task: {}", self.file.display(), task.goal);
        for (name, value) in &inputs {
            let size = match value {
                serde_json::Value::Array(items) => format!("{} items", items.len()),
                serde_json::Value::String(text) => format!("{} characters", text.chars().count()),
                other => other.to_string(),
            };
            crate::tell!("  input    {name}: {}", crate::text::line(&size, 60));
        }
        for model in prepared.models.iter() {
            let known = model.describe();
            let address = if known.address.is_empty() { "on this machine" } else { &known.address };
            crate::tell!("  model    {}: {address}", known.name);
        }
        for (name, tool) in prepared.toolbox.iter() {
            let care = match (tool.contract.effect, tool.contract.idempotent, &tool.status) {
                (Effect::Read, ..) => "can be repeated",
                (Effect::Write, true, _) => "made once: its target honours the step token",
                (Effect::Write, false, StatusVia::Itself | StatusVia::Tool(_)) => {
                    "made once: can be asked what happened"
                }
                (Effect::Write, false, StatusVia::Nobody) => "made once: if its answer is lost, a person is asked",
            };
            crate::tell!("  tool     {name}: {}, {:?}, {care}", tool.contract.effect, tool.timeout);
        }
        for subgoal in &task.subgoals {
            let needs =
                if subgoal.needs.is_empty() { String::new() } else { format!(" after {}", subgoal.needs.join(", ")) };
            let each = subgoal
                .foreach
                .as_ref()
                .map(|each| format!(", for each {} of {} ({} at once)", each.name, each.list, each.parallel))
                .unwrap_or_default();
            let work = if subgoal.is_agent() {
                "a model decides".to_owned()
            } else {
                format!("{} entries", subgoal.steps.len())
            };
            crate::tell!("  subgoal  {}: {work}{each}{needs}", subgoal.id);
        }
        for rule in &task.evaluator.criteria {
            crate::tell!("  holds    {rule}");
        }
        crate::tell!("  limits   {} steps", task.limits.max_steps);
        Ok(Exit::Success)
    }
}
