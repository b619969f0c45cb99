//! `loopforge watch RUN`

use std::io::Write;
use std::time::Duration;

use clap::Args;
use loopforge_core::id::Seq;
use loopforge_core::record::RunStatus;
use loopforge_store::{RunInfo, Store, StoreError};

use crate::context::Context;
use crate::error::{CliError, Exit, resume_hint};
use crate::output::Output;
use crate::text::safe;
use crate::view::{Archive, Place, View, status};

use super::progress::plain;

/// How often the store is asked for more.
const PERIOD: Duration = Duration::from_millis(250);

/// Follow a run that another process works on, until it ends.
///
/// Only looks: ending it with Ctrl-C leaves the run as it is.
#[derive(Debug, Args)]
pub struct Watch {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
    /// Begin after this record; 0 shows all. With `--json` all is what you get, else the last few
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
}

impl Watch {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or a store that can't be read.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        /// What is shown of the time before.
        const BEFORE: u64 = 100;
        let store = context.look()?;
        let id = context.find_run(store.as_ref(), self.run.as_deref()).await?;
        let first = store.run(id).await?;
        let mut seen = Seq(match self.after {
            Some(after) => after,
            None if context.json => 0,
            None => first.head.0.saturating_sub(BEFORE),
        });
        if !context.json {
            crate::say!("{id}  {}", safe(&first.name));
        }
        let mut out = Output::new();
        let mut said = "";
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        loop {
            // The head is read before the records, so a run that ends in between is read to its end.
            let info = match store.run(id).await {
                Ok(info) => context.present(info).0,
                Err(StoreError::Unavailable(_)) => {
                    tokio::time::sleep(PERIOD).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            show(context, store.as_ref(), &info, &mut seen, &mut out).await?;
            out.finish()?;
            if info.status.is_final() {
                return Ok(if info.status == RunStatus::Succeeded { Exit::Success } else { Exit::Failed });
            }
            let now = status(&info);
            if now != said {
                said = now;
                tell(&View::load(context, store.as_ref(), id).await?);
            }
            tokio::select! {
                _ = &mut interrupted => return Ok(Exit::Interrupted),
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }
}

async fn show(
    context: &Context,
    store: &dyn Store,
    info: &RunInfo,
    seen: &mut Seq,
    out: &mut Output,
) -> Result<(), CliError> {
    let mut archive = Archive::new(store, info.id, *seen, info.head);
    while let Some(page) = archive.next().await? {
        for place in page {
            match place {
                Place::Record(record) if context.json => out.json(&record)?,
                Place::Record(record) => {
                    if let Some(line) = plain(&record) {
                        writeln!(out, "{line}")?;
                    }
                }
                Place::Unreadable { seq, problem } => crate::say!("record {seq}: {}", safe(&problem)),
            }
        }
    }
    *seen = (*seen).max(info.head);
    Ok(())
}

/// Says why nothing comes, where nobody works on the run.
fn tell(view: &View) {
    let run = view.info.id;
    let questions = view.questions();
    for open in &questions {
        crate::say!("waits for a person: {}", safe(&open.text));
        crate::say!("{}", open.advice(&run.to_string()));
    }
    if view.info.owner.is_none() && questions.is_empty() {
        let why = match &view.gone {
            Some(gone) => format!("{}: {} is gone", view.status(), safe(&gone.label)),
            None => view.status().to_owned(),
        };
        crate::say!("nobody works on it ({why}). Go on with: {}", resume_hint(run));
    }
}
