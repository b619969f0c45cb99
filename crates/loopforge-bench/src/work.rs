//! One workload in a process of its own: some runs of one task, driven at once, on one store.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use loopforge::gateway::Registry;
use loopforge::{Engine, Options, Prepared, Resume, Run, Start, Watcher};
use loopforge_core::json::Json;
use loopforge_core::record::Event;
use loopforge_store::sqlite::SqliteStore;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::content::Text;
use crate::proc;
use crate::tools::{Answer, Deed};

/// The task of all workloads: a step for each item, in each a call with arguments of 300 bytes.
pub(crate) const TASK: &str = r#"name: bench
goal: Call a tool for every item.
inputs:
  items: { value: [] }
tools:
  answer: { builtin: answer }
loop: { max_steps: 100000000 }
subgoals:
  - id: work
    foreach: { in: inputs.items, as: item }
    steps:
      - call: answer
        with:
          item: "${ item }"
          url: "https://shop.example.com/catalogue/kitchen/kettles/product-${ item }.html?view=full&currency=CNY"
          fields: [title, price, stock, description, rating, delivery]
          because: "The page is on today's list, and its price is to be compared with the one that was archived yesterday."
    on_failure: ask
"#;

/// What a workload is told.
#[derive(Debug, Clone, Args)]
pub(crate) struct Work {
    /// The folder of its store
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Runs that are driven at once
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: u64,
    /// Items, and with it steps, of each run
    #[arg(long, default_value_t = 1000)]
    pub(crate) steps: u64,
    /// Measures for so many milliseconds, then interrupts the runs; without it until their ends
    #[arg(long)]
    pub(crate) stop_after_ms: Option<u64>,
    /// Doesn't look for so many milliseconds first: what every run does once at its beginning is no step
    #[arg(long, default_value_t = 0)]
    pub(crate) warm_up_ms: u64,
    /// Drives one run after the other instead of all at once
    #[arg(long)]
    pub(crate) in_turn: bool,
    /// What calls do
    #[arg(long, value_enum, default_value_t = Deed::Read)]
    pub(crate) deed: Deed,
    /// What they answer
    #[arg(long, value_enum, default_value_t = Text::Page)]
    pub(crate) text: Text,
    /// Takes up the last run instead of starting new ones
    #[arg(long)]
    pub(crate) resume: bool,
    /// Prints a line when the first step is archived
    #[arg(long)]
    pub(crate) tell_first: bool,
    /// Kills this process, as `kill -9` does, when so many steps are archived
    #[arg(long)]
    pub(crate) kill_at: Option<u64>,
}

/// What a workload tells when it has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Steps that were archived between the two instants.
    pub(crate) steps: u64,
    /// Seconds since 1970 when all runs were created, the work had begun, and the warm-up was over.
    pub(crate) began: f64,
    /// When it was interrupted, or had ended.
    pub(crate) ended: f64,
    /// The time that its threads had a core meanwhile.
    pub(crate) core_seconds: f64,
    /// Resident memory in bytes: when the work began, and at the end, with the runs as they are then.
    pub(crate) resident: [u64; 2],
}

impl Told {
    pub(crate) fn steps_per_second(&self) -> f64 {
        self.steps as f64 / (self.ended - self.began)
    }
}

impl Work {
    /// Does it, and prints what there is to tell as a line of JSON.
    pub(crate) fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let told = runtime.block_on(self.work())?;
        println!("{}", serde_json::to_string(&told)?);
        Ok(())
    }

    async fn work(&self) -> Result<Told> {
        let calls = Arc::new(AtomicU64::new(0));
        let registry =
            Registry::default().with("answer", Arc::new(Answer::new(self.deed, self.text, Arc::clone(&calls))));
        let store = Arc::new(SqliteStore::open(&store_path(&self.dir))?);
        let mut options = Options::new(self.dir.join("runs"));
        options.lives = Some(self.dir.join("workers"));
        let engine = Engine::new(store, options).with_tools(registry);
        let steps = Arc::new(AtomicU64::new(0));
        let mut runs = Vec::new();
        if self.resume {
            let last = engine.store().runs(1).await?;
            let id = last.first().context("there is no run to resume")?.id;
            runs.push(engine.resume(id, Resume { watcher: Some(self.watcher(&steps)), ..Resume::default() }).await?);
        } else {
            let prepared = prepared(&self.dir, engine.registry())?;
            if self.in_turn {
                return self.drive_in_turn(&engine, &prepared, &steps).await;
            }
            for _ in 0..self.runs {
                runs.push(engine.start(Arc::clone(&prepared), self.start(&steps)).await?);
            }
        }
        self.drive(runs, &steps, &calls).await
    }

    /// Drives one run after the other.
    async fn drive_in_turn(&self, engine: &Engine, prepared: &Arc<Prepared>, steps: &Arc<AtomicU64>) -> Result<Told> {
        let look = Look::now(steps)?;
        for _ in 0..self.runs {
            let run = engine.start(Arc::clone(prepared), self.start(steps)).await?;
            run.drive(CancellationToken::new()).await?;
        }
        look.tell(steps)
    }

    fn start(&self, steps: &Arc<AtomicU64>) -> Start {
        let items: Vec<u64> = (0..self.steps).collect();
        Start { inputs: BTreeMap::from([("items".to_owned(), items.into())]), watcher: Some(self.watcher(steps)) }
    }

    async fn drive(&self, runs: Vec<Run>, steps: &AtomicU64, calls: &AtomicU64) -> Result<Told> {
        let cancel = CancellationToken::new();
        let mut look = Look::now(steps)?;
        let count = runs.len() as u64;
        let mut working = tokio::task::JoinSet::new();
        for run in runs {
            working.spawn(run.drive(cancel.clone()));
        }
        if self.deed == Deed::Hang {
            while calls.load(Ordering::Relaxed) < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let told = look.tell(steps);
            cancel.cancel();
            while working.join_next().await.is_some() {}
            return told;
        }
        let mut told = None;
        if let Some(time) = self.stop_after_ms {
            tokio::time::sleep(Duration::from_millis(self.warm_up_ms)).await;
            look = Look::now(steps)?;
            tokio::time::sleep(Duration::from_millis(time)).await;
            told = Some(look.tell(steps)?);
            cancel.cancel();
        }
        while let Some(done) = working.join_next().await {
            let report = done??;
            if told.is_some() && report.outcome.is_some() {
                bail!("a run ended before its time was over: give it more steps");
            }
        }
        told.map_or_else(|| look.tell(steps), Ok)
    }

    /// Counts steps as they are archived.
    fn watcher(&self, steps: &Arc<AtomicU64>) -> Watcher {
        let steps = Arc::clone(steps);
        let (tell_first, kill_at) = (self.tell_first, self.kill_at);
        Box::new(move |record| {
            if !matches!(record.event, Event::StepEvaluated(_)) {
                return;
            }
            let archived = steps.fetch_add(1, Ordering::Relaxed) + 1;
            if tell_first && archived == 1 {
                println!("first step");
                // A line that can't be written is waited for in vain, and reported there.
                let _ = std::io::stdout().flush();
            }
            if kill_at == Some(archived) {
                // Nothing can be done if it doesn't work; whoever started this process notices.
                let _ = kill_process(getpid(), Signal::KILL);
            }
        })
    }
}

/// How things stood when the work that is measured began.
struct Look {
    steps: u64,
    at: f64,
    core: Duration,
    resident: u64,
}

impl Look {
    fn now(steps: &AtomicU64) -> Result<Self> {
        let steps = steps.load(Ordering::Relaxed);
        Ok(Self { steps, at: now(), core: proc::process_time(), resident: proc::resident()? })
    }

    /// What has happened since.
    fn tell(&self, steps: &AtomicU64) -> Result<Told> {
        let after = Self::now(steps)?;
        Ok(Told {
            steps: after.steps - self.steps,
            began: self.at,
            ended: after.at,
            core_seconds: (after.core - self.core).as_secs_f64(),
            resident: [self.resident, after.resident],
        })
    }
}

/// The task of the workloads, with the tools of `registry`.
pub(crate) fn prepared(base: &Path, registry: &Registry) -> Result<Arc<Prepared>> {
    Ok(Prepared::from_source(TASK.as_bytes().to_vec(), "bench.yaml", base, registry)?)
}

/// The arguments of a call, as the task gives them.
pub(crate) fn arguments(prepared: &Prepared, item: u64) -> Json {
    let text = serde_json::to_string(&prepared.task.subgoals[0].steps[0]).unwrap_or_default();
    let step: Json = serde_json::from_str(&text.replace("${ item }", &item.to_string())).unwrap_or_default();
    step["with"].clone()
}

/// Where a workload's store is.
pub(crate) fn store_path(dir: &Path) -> PathBuf {
    dir.join("store.db")
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn calls_have_arguments_of_300_bytes() {
        let registry =
            Registry::default().with("answer", Arc::new(Answer::new(Deed::Read, Text::Page, Arc::default())));
        let prepared = prepared(Path::new("/"), &registry).unwrap();
        let arguments = arguments(&prepared, 1234);
        assert!(arguments["url"].as_str().unwrap().contains("product-1234.html"), "{arguments}");
        assert!((280..=330).contains(&arguments.to_string().len()), "{}", arguments.to_string().len());
    }
}
