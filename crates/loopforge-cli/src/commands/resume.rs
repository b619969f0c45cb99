//! `loopforge resume [RUN]`

use clap::Args;
use loopforge::{EngineError, Resume as Options};
use loopforge_core::time::Span;
use loopforge_store::StoreError;

use crate::context::{Context, interruption};
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
            let options = Options {
                max_steps: self.max_steps,
                max_duration: self.max_duration.map(|span| span.0),
                watcher: Some(progress.watcher()),
            };
            let run = match engine.resume(id, options).await {
                Ok(run) => run,
                // Somebody else is at it already, which is as good.
                Err(EngineError::Store(error @ StoreError::Held { .. })) if self.all => {
                    crate::say!("{error}");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let task = &run.prepared().task;
            progress.of_task(task);
            // A task file that was changed since changes nothing: whoever changed it must not think so.
            crate::say!("{id}: `{}`, with the task as it was when the run started", crate::text::safe(&task.name));
            let report = run.drive(cancel.clone()).await;
            progress.finish();
            let exit = conclude(context, &report?);
            if exit != Exit::Success {
                worst = exit;
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        Ok(worst)
    }
}
