//! `loopforge trace RUN [STEP]`

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
    /// The run; a few characters of its id's end will do
    pub run: String,
    /// A step: everything that it was given, did and came to
    pub step: Option<u64>,
    /// Begin after this record
    #[arg(long, value_name = "SEQ", default_value_t = 0, conflicts_with = "step")]
    pub after: u64,
    /// How many records at most
    #[arg(long, value_name = "N", conflicts_with = "step")]
    pub limit: Option<u64>,
    /// Values as a whole, however long
    #[arg(long, requires = "step")]
    pub full: bool,
}

impl Trace {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run or step, or a store that can't be read. A record that can't be read is named in its place, and the exit code is 5.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let store = context.look()?;
        let id = context.find_run(store.as_ref(), Some(&self.run)).await?;
        let info = store.run(id).await?;
        let mut out = Output::new();
        if let Some(step) = self.step {
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

/// A record in columns: seq, time of day, step, kind, summary.
fn line(record: &Record) -> String {
    const WIDTH: usize = 160;
    let at = record.at.to_string();
    let step = record.event.step().map(|step| step.to_string()).unwrap_or_default();
    let kind = record.event.kind();
    format!("{:>6}  {at}  {step:>5}  {kind:<19}  {}", record.seq, summary(&record.event, WIDTH))
}
