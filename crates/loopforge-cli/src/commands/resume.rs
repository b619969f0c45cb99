//! `loopforge resume [RUN]`

use std::path::PathBuf;

use clap::Args;
use loopforge::{Engine, EngineError, Resume as Options, TaskText};
use loopforge_core::id::RunId;
use loopforge_core::time::Span;
use loopforge_store::StoreError;

use crate::context::{Context, interruption, user};
use crate::error::{CliError, Exit};

use super::progress::{Progress, conclude};

/// Go on with a run after a crash, an interruption, an answer or a limit.
#[derive(Debug, Args)]
pub struct Resume {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
    /// The last run (this is the default)
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Every run that hasn't ended, one after the other, the oldest first
    #[arg(long, conflicts_with_all = ["run", "last"])]
    pub all: bool,
    /// A higher number of steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_steps: Option<u64>,
    /// A longer time since the run's start: `2h`
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    pub max_duration: Option<Span>,
    /// More of the budget: `+2usd` or `+50000tokens`; both by giving it twice
    #[arg(long, value_name = "AMOUNT", value_parser = super::budget::amount, allow_hyphen_values = true)]
    pub budget: Vec<loopforge_core::model::Amount>,
    /// Go on with the task file as it is now, and with this version of LoopForge, where they are others than before
    #[arg(long, conflicts_with_all = ["stored_task", "all"])]
    pub accept_changes: bool,
    /// Go on with the task as the run has it, although its file is another now
    #[arg(long)]
    pub stored_task: bool,
    /// Where the task file is now; where it was, when absent
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stored_task", "all"])]
    pub task: Option<PathBuf>,
}

impl Resume {
    /// Carries it out.
    ///
    /// # Errors
    /// The run is held by another process, has ended, or can't be read.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let engine = context.engine()?;
        let store = engine.store();
        let runs = if self.all {
            let mut open: Vec<_> =
                store.runs(usize::MAX).await?.into_iter().filter(|run| !run.status.is_final()).collect();
            open.reverse();
            open.into_iter().map(|run| run.id).collect()
        } else {
            vec![context.find_run(store.as_ref(), self.run.as_deref()).await?]
        };
        if runs.is_empty() {
            crate::say!("there is nothing to resume");
        }
        let cancel = interruption();
        let mut worst = Exit::Success;
        for id in runs {
            let progress = Progress::resumed(context.json);
            let first = engine.started(id).await?.task;
            let options = Options {
                max_steps: self.max_steps,
                max_duration: self.max_duration.map(|span| span.0),
                more: self.budget.iter().copied().sum(),
                watcher: Some(progress.watcher()),
                task: self.task_now(&engine, id).await?,
                accept: self.accept_changes.then(user),
            };
            let given = options.task.is_some();
            let run = match engine.resume(id, options).await {
                Ok(run) => run,
                // Somebody else is at it already, which is as good.
                Err(EngineError::Store(error @ StoreError::Held { .. })) if self.all => {
                    crate::say!("{error}");
                    continue;
                }
                // Nobody was asked about this one; the others are not held up by it.
                Err(error @ EngineError::Changed { .. }) if self.all => {
                    crate::say!("{error}");
                    worst = Exit::Usage;
                    continue;
                }
                Err(error @ EngineError::Task(_)) if given => {
                    return Err(CliError::from(error).hint("`--stored-task` goes on with the task as the run has it"));
                }
                Err(error) => return Err(error.into()),
            };
            let task = &run.prepared().task;
            progress.of_task(task);
            // Whoever changed the task file must know whether that counts.
            let which = match run.state().task == first {
                true => "with the task as it was when the run started",
                false => "with the task that was accepted in its place",
            };
            crate::say!("{id}: `{}`, {which}", crate::text::safe(&task.name));
            let report = run.drive(cancel.clone()).await;
            progress.finish();
            let report = report?;
            let exit = conclude(context, &report);
            super::estimate::compare(context, &engine, &report);
            if exit != Exit::Success {
                worst = exit;
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        Ok(worst)
    }

    /// The task file as it is now, if it is there to be compared. One that has gone changes nothing: the run has its task.
    async fn task_now(&self, engine: &Engine, run: RunId) -> Result<Option<TaskText>, CliError> {
        if self.stored_task || self.all {
            return Ok(None);
        }
        let file = match &self.task {
            Some(file) => file.clone(),
            None => match engine.started(run).await?.file.map(PathBuf::from) {
                Some(file) if file.is_file() => file,
                Some(_) | None => return Ok(None),
            },
        };
        Ok(Some(TaskText::of_file(&file)?))
    }
}
