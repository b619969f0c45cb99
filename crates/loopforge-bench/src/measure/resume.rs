//! How soon a run that was killed goes on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Bench, Job, median, spread};
use crate::report::Row;

impl Bench {
    /// From the start of a process to its first new step in the archive, after short runs and long ones.
    pub(super) fn resume(&self) -> Result<Vec<Row>> {
        let lengths = if self.quick { [100, 1_000] } else { [100, 10_000] };
        let tries = if self.quick { 3 } else { 9 };
        let mut rows = Vec::new();
        let mut medians = Vec::new();
        for steps in lengths {
            let folder = self.folder()?;
            let job = Job::new(1, steps + 1_000);
            let killed = self.command(folder.path(), &job).arg("--kill-at").arg(steps.to_string()).status()?;
            if killed.success() {
                bail!("a workload that should have been killed ended by itself");
            }
            let mut times = Vec::new();
            for _ in 0..tries {
                times.push(self.first_step(folder.path(), &job)?);
            }
            medians.push(median(times.clone()));
            let what = format!("killed after {steps} steps: process start to first new step");
            rows.push(Row::at_most(what, median(times.clone()), 100.0, "ms").note(&spread(&times)));
        }
        rows.push(Row::plain("resume after the long run against the short one", medians[1] / medians[0], ""));
        Ok(rows)
    }

    /// Milliseconds until the first new step; the process kills itself then, so that the next one finds the same.
    fn first_step(&self, dir: &Path, job: &Job) -> Result<f64> {
        let mut command = self.command(dir, job);
        command.args(["--resume", "--tell-first", "--kill-at", "1"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().context("a workload can't be started")?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let time = started.elapsed();
        child.wait()?;
        if line.trim() != "first step" {
            bail!("a resumed workload told no step");
        }
        Ok(time.as_secs_f64() * 1000.0)
    }
}
