//! What a task will use before it is spent: a few real steps, measured, and a range for the whole (R60).
//!
//! A step costs more the longer a branch goes on, since its prompt grows up to the room that prompts have. So the range is made from the
//! first prompt, its growth from step to step, and what models wrote; its lower end from one step for each part of the work, its upper
//! end from all steps that the task allows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use loopforge_core::id::{ContentHash, RunId, Seq};
use loopforge_core::json::Json;
use loopforge_core::model::{Amount, Money};
use loopforge_core::record::{Event, LimitsRaised, Record, RunOutcome};
use loopforge_core::task::{ModelSpec, Task};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::driver::Watcher;
use crate::engine::{Engine, Start};
use crate::error::EngineError;
use crate::prepare::Prepared;

/// How far a probe goes.
#[derive(Default)]
pub struct Probe {
    /// Inputs by name.
    pub inputs: BTreeMap<String, Json>,
    /// Steps.
    pub steps: u64,
    /// What it may use at most, besides the budget of the task.
    pub at_most: Amount,
    /// Sees every record once it is archived.
    pub watcher: Option<Watcher>,
}

/// What a task is expected to use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The task.
    pub task: ContentHash,
    /// The run that was the probe. It can be resumed, with more steps.
    pub probe: RunId,
    /// Steps that it took.
    pub steps: u64,
    /// Calls of models in them.
    pub calls: u64,
    /// What it used.
    pub used: Amount,
    /// The whole task with as few steps as can be.
    pub low: Amount,
    /// The whole task with all steps that it allows.
    pub high: Amount,
    /// Steps of the lower and of the upper end.
    pub range: (u64, u64),
    /// The probe ended the task: nothing is left to be estimated.
    pub ended: bool,
    /// The cost is not known of all models.
    pub unpriced: bool,
}

impl Engine {
    /// Makes the first steps of a task, and says from them what the whole will use. What it finds is kept for the end of later runs.
    ///
    /// # Errors
    /// As [`Self::start`]; [`EngineError::Invalid`] when no model was called in these steps.
    pub async fn estimate(
        &self,
        prepared: Arc<Prepared>,
        probe: Probe,
        cancel: CancellationToken,
    ) -> Result<Estimate, EngineError> {
        let Probe { inputs, steps, at_most, watcher } = probe;
        let task = prepared.task.clone();
        let hash = prepared.hash;
        let mut run = self.start(prepared, Start { inputs, watcher }).await?;
        let id = run.id();
        if at_most.cost > Money::ZERO
            && (0..run.prepared().models.len()).any(|at| run.prepared().models.price(at).is_none())
        {
            run.leave().await;
            let problem =
                "not all models have a known price, so the probe can't be limited in money: give `budget.prices`";
            return Err(EngineError::Invalid(problem.to_owned()));
        }
        let limit = run.state().budget_limit(&task);
        let less = |own: Option<u64>, limit: Option<u64>| own.into_iter().chain(limit).min();
        let tokens = less((at_most.tokens > 0).then_some(at_most.tokens), limit.tokens);
        let cost = (at_most.cost > Money::ZERO).then_some(at_most.cost).into_iter().chain(limit.cost).min();
        let raised = LimitsRaised {
            max_steps: Some(steps.max(1)),
            max_duration_ms: None,
            tokens,
            cost,
            by: "a probe".to_owned(),
        };
        run.record(vec![Event::LimitsRaised(raised).into()])?;
        let report = run.drive(cancel).await?;
        let mut seen = Seen::default();
        let mut after = Seq(0);
        loop {
            let page = self.store.records(id, after, 1000).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            page.iter().for_each(|record| seen.take(record));
        }
        if seen.calls == 0 {
            let problem = "no model was called in these steps, so there is nothing to be measured: take more `--steps`";
            return Err(EngineError::Invalid(problem.to_owned()));
        }
        let mut estimate = seen.estimate(&task, hash, id, report.totals.steps);
        estimate.ended = report.outcome == Some(RunOutcome::Succeeded);
        if estimate.ended {
            (estimate.low, estimate.high) = (estimate.used, estimate.used);
            estimate.range = (estimate.steps, estimate.steps);
        }
        self.keep_estimate(&estimate);
        Ok(estimate)
    }

    /// What was estimated for a task, if somebody did.
    #[must_use]
    pub fn estimated(&self, task: ContentHash) -> Option<Estimate> {
        let text = std::fs::read(self.estimate_path(task)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn keep_estimate(&self, estimate: &Estimate) {
        let path = self.estimate_path(estimate.task);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, serde_json::to_vec_pretty(estimate).map_err(std::io::Error::other)?));
        // It is told all the same; only the comparison at the end of a run is missing then.
        if let Err(error) = written {
            tracing::warn!("the estimate can't be kept at `{}`: {error}", path.display());
        }
    }

    fn estimate_path(&self, task: ContentHash) -> PathBuf {
        let folder = self.options.workspaces.parent().unwrap_or(&self.options.workspaces);
        folder.join("estimates").join(format!("{task}.json"))
    }
}

/// What was seen of the probe's calls.
#[derive(Debug, Default)]
struct Seen {
    calls: u64,
    input: u64,
    output: u64,
    used: Amount,
    unpriced: bool,
    /// The first and the last prompt of each branch, and how many lie between.
    prompts: BTreeMap<u64, (u64, u64, u64)>,
    items: BTreeMap<String, u64>,
}

impl Seen {
    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::SubgoalStarted(event) => {
                if let Some(list) = &event.list {
                    self.items.insert(event.subgoal.clone(), u64::from(list.count));
                }
            }
            Event::ModelCalled(event) => {
                let tokens = event.prompt.tokens;
                let branch = event.branch.map_or(0, |branch| branch.0);
                let entry = self.prompts.entry(branch).or_insert((tokens, tokens, 0));
                entry.1 = tokens;
                entry.2 += 1;
            }
            Event::ModelReplied(event) => {
                self.calls += 1;
                self.input += event.usage.input.unwrap_or_default();
                self.output += event.usage.output.unwrap_or_default();
                self.used += Amount { tokens: event.usage.total(), cost: event.cost.unwrap_or_default() };
                self.unpriced |= event.cost.is_none();
            }
            _ => {}
        }
    }

    fn estimate(&self, task: &Task, hash: ContentHash, probe: RunId, steps: u64) -> Estimate {
        // One step for each item of a list, and for each subgoal without one.
        let fewest: u64 = task
            .subgoals
            .iter()
            .map(|subgoal| {
                let entries = if subgoal.is_agent() { 1 } else { subgoal.steps.len().max(1) as u64 };
                match &subgoal.foreach {
                    Some(_) => self.items.get(&subgoal.id).copied().unwrap_or(1),
                    None => entries,
                }
            })
            .sum();
        let most = task.limits.max_steps.max(steps);
        let fewest = fewest.clamp(steps.min(most), most);
        let share = |wanted: u64| wanted.saturating_mul(self.calls).div_ceil(steps.max(1));
        let (few, many) = (share(fewest).max(self.calls), share(most).max(self.calls));
        Estimate {
            task: hash,
            probe,
            steps,
            calls: self.calls,
            used: self.used,
            low: self.of_calls(task, few),
            high: self.of_calls(task, many),
            range: (fewest, most),
            ended: false,
            unpriced: self.unpriced,
        }
    }

    /// What so many calls use, all in one branch, so that the prompt grows as far as it can.
    fn of_calls(&self, task: &Task, calls: u64) -> Amount {
        let room = task.model.as_ref().map_or(ModelSpec::CONTEXT_BUDGET, ModelSpec::budget);
        let growth = self
            .prompts
            .values()
            .filter(|(_, _, count)| *count > 1)
            .map(|(first, last, count)| last.saturating_sub(*first) / (count - 1));
        let growth = growth.max().unwrap_or_default();
        let (mean_in, mean_out) = (self.input / self.calls, self.output / self.calls);
        let first = self.prompts.values().map(|(first, ..)| *first).min().unwrap_or(mean_in);
        let tokens: u64 = (0..calls).map(|number| (first + growth * number).min(room.max(first)) + mean_out).sum();
        // Money goes with tokens, in the proportion that was measured.
        let measured = u128::from(self.used.tokens.max(1));
        let cost = u128::from(self.used.cost.picodollars) * u128::from(tokens) / measured;
        let used = Amount { tokens, cost: Money::picodollars(u64::try_from(cost).unwrap_or(u64::MAX)) };
        Amount { tokens: used.tokens.max(self.used.tokens), cost: used.cost.max(self.used.cost) }
    }
}
