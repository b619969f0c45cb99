//! `loopforge trace RUN [STEP]`

mod prompt;
mod step;

use std::io::Write;

use clap::Args;
use loopforge_core::id::{Seq, StepNo};
use loopforge_core::record::Record;

use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::Output;
use crate::text::safe;
use crate::view::{Archive, Place};

use super::summary::summary;

/// Read a run's archive, or one step of it in full.
#[derive(Debug, Args)]
pub struct Trace {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
    /// A step: everything that it was given, did and came to
    pub step: Option<u64>,
    /// The last run: `trace --last [STEP]`
    #[arg(long, conflicts_with = "step")]
    pub last: bool,
    /// Begin after this record
    #[arg(long, value_name = "SEQ", default_value_t = 0, conflicts_with = "step")]
    pub after: u64,
    /// How many records at most
    #[arg(long, value_name = "N", conflicts_with = "step")]
    pub limit: Option<u64>,
    /// Values as a whole, however long
    #[arg(long)]
    pub full: bool,
    /// What the model was shown at the step, made again from the archive, byte for byte
    #[arg(long)]
    pub prompt: bool,
}

impl Trace {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run or step, or a store that can't be read. A record that can't be read is named in its place, and the exit code is 5.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let store = context.look()?;
        let (run, step) = self.place()?;
        let id = context.find_run(store.as_ref(), run).await?;
        let info = context.present(store.run(id).await?).0;
        let mut out = Output::new();
        if let Some(step) = step
            && self.prompt
        {
            let engine = loopforge::Engine::new(store, loopforge::Options::new(std::path::PathBuf::new()));
            prompt::show(context, &engine, id, StepNo(step), &mut out).await?;
            out.finish()?;
            return Ok(Exit::Success);
        }
        if let Some(step) = step {
            step::show(context, store.as_ref(), &info, StepNo(step), self.full, &mut out).await?;
            out.finish()?;
            return Ok(Exit::Success);
        }
        let last = self.limit.map_or(info.head.0, |limit| self.after.saturating_add(limit).min(info.head.0));
        let mut archive = Archive::new(store.as_ref(), id, Seq(self.after), Seq(last));
        let mut damaged = false;
        while let Some(page) = archive.next().await? {
            for place in page {
                match place {
                    Place::Record(record) if context.json => out.json(&record)?,
                    Place::Record(record) => writeln!(out, "{}", line(&record))?,
                    Place::Unreadable { seq, problem } => {
                        damaged = true;
                        if !context.json {
                            writeln!(out, "{seq:>6}  damaged")?;
                        }
                        crate::say!("record {seq}: {}", safe(&problem));
                    }
                }
            }
        }
        out.finish()?;
        if last < info.head.0 {
            crate::say!("{} more records; go on with `--after {last}`", info.head.0 - last);
        }
        Ok(if damaged { Exit::Environment } else { Exit::Success })
    }
}

impl Trace {
    /// The run and the step that were given. Behind `--last` the one number is the step.
    fn place(&self) -> Result<(Option<&str>, Option<u64>), CliError> {
        let place = match (&self.run, self.last) {
            (Some(step), true) => {
                let step = step.parse().map_err(|_| {
                    CliError::usage(format!("`{step}` is not the number of a step: `--last` says which run"))
                })?;
                (None, Some(step))
            }
            (run, _) => (run.as_deref(), self.step),
        };
        match place {
            (_, None) if self.prompt => Err(CliError::usage(
                "`--prompt` shows what a model was given at a step: give its number, `trace RUN STEP --prompt`",
            )),
            (_, None) if self.full => {
                Err(CliError::usage("`--full` shows a step as a whole: give its number, `trace RUN STEP --full`"))
            }
            (_, Some(_)) if self.after > 0 || self.limit.is_some() => {
                Err(CliError::usage("`--after` and `--limit` choose among records, not within a step"))
            }
            place => Ok(place),
        }
    }
}

/// A record in columns: seq, time of day, step, kind, summary.
fn line(record: &Record) -> String {
    const WIDTH: usize = 160;
    let at = record.at.to_string();
    let step = record.event.step().map(|step| step.to_string()).unwrap_or_default();
    let kind = record.event.kind();
    format!("{:>6}  {at}  {step:>5}  {kind:<19}  {}", record.seq, summary(&record.event, WIDTH))
}
