//! The measurements: each starts workloads, looks at them from outside, and sets the figures beside their bars.

mod core;
mod memory;
mod rates;
mod resume;
mod sizes;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::content::Text;
use crate::report::Row;
use crate::tools::Deed;
use crate::work::Told;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Flushes of the disk per step (with strace)
    Flushes,
    /// Durable steps per second, against append and fdatasync
    Rates,
    /// Steps per second where a flush takes no time
    Ram,
    /// Bytes per step
    Sizes,
    /// Time from the start of a process to the first new step of a run
    Resume,
    /// Core time per step without I/O
    Core,
    /// Resident memory
    Memory,
}

impl Name {
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }
}

/// Where and how to measure.
#[derive(Debug)]
pub(crate) struct Bench {
    /// This program.
    pub(crate) program: PathBuf,
    /// A folder on the disk to be measured; empty.
    pub(crate) scratch: PathBuf,
    /// Shorter.
    pub(crate) quick: bool,
}

/// A RAM disk, where there is one: sizes don't depend on the disk, and flushes take no time there.
const RAM: &str = "/dev/shm";

/// The time that runs have to begin before their steps are counted.
const WARM_UP_MS: u64 = 500;

impl Bench {
    /// Measures one thing.
    pub(crate) fn measure(&self, name: Name) -> Result<Vec<Row>> {
        match name {
            Name::Flushes => self.flushes(),
            Name::Rates => self.rates(),
            Name::Ram => self.ram(),
            Name::Sizes => self.sizes(),
            Name::Resume => self.resume(),
            Name::Core => core::rows(&self.scratch),
            Name::Memory => self.memory(),
        }
    }

    /// A new, empty folder on the disk that is measured, removed with the value.
    fn folder(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::tempdir_in(&self.scratch)?)
    }

    /// A new, empty folder on a RAM disk, or `None` where there is none.
    fn ram_folder() -> Option<tempfile::TempDir> {
        Path::new(RAM)
            .is_dir()
            .then(|| tempfile::Builder::new().prefix("loopforge-bench-").tempdir_in(RAM).ok())
            .flatten()
    }

    /// The command that does `job` in `dir`.
    fn command(&self, dir: &Path, job: &Job) -> Command {
        let mut command = Command::new(&self.program);
        command.args(job.arguments(dir));
        command
    }

    /// Does a job in a new process, and returns what it tells.
    fn work(&self, dir: &Path, job: &Job) -> Result<Told> {
        told(&mut self.command(dir, job))
    }
}

/// Runs a workload to its end.
fn told(command: &mut Command) -> Result<Told> {
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("a workload can't be started")?;
    if !output.status.success() {
        bail!("a workload failed ({}): {command:?}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("a workload told something else than it should")
}

/// A workload to be started; see [`crate::work::Work`].
#[derive(Debug, Clone, Copy)]
struct Job {
    runs: u64,
    steps: u64,
    stop_after_ms: Option<u64>,
    in_turn: bool,
    deed: Deed,
    text: Text,
}

impl Job {
    /// Runs of so many steps.
    const fn new(runs: u64, steps: u64) -> Self {
        Self { runs, steps, stop_after_ms: None, in_turn: false, deed: Deed::Read, text: Text::Page }
    }

    fn arguments(&self, dir: &Path) -> Vec<std::ffi::OsString> {
        let mut arguments = vec!["work".into(), "--dir".into(), dir.into()];
        let mut add = |name: &str, value: String| arguments.extend([name.into(), value.into()]);
        add("--runs", self.runs.to_string());
        add("--steps", self.steps.to_string());
        add("--deed", name_of(&self.deed));
        add("--text", name_of(&self.text));
        if let Some(time) = self.stop_after_ms {
            add("--stop-after-ms", time.to_string());
            add("--warm-up-ms", WARM_UP_MS.to_string());
        }
        if self.in_turn {
            arguments.push("--in-turn".into());
        }
        arguments
    }
}

fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The value in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len() % 2, values.len() / 2) {
        (_, 0) if values.is_empty() => f64::NAN,
        (0, middle) => (values[middle - 1] + values[middle]) / 2.0,
        (_, middle) => values[middle],
    }
}

/// The least and the greatest value, for people.
fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if greatest < 100.0 { format!("{least:.2} to {greatest:.2}") } else { format!("{least:.0} to {greatest:.0}") }
}

#[cfg(test)]
mod tests {
    use super::{median, spread};

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]).to_bits(), 2.0f64.to_bits());
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]).to_bits(), 2.5f64.to_bits());
        assert!(median(Vec::new()).is_nan());
        assert_eq!(spread(&[2.0, 0.5]), "0.50 to 2.00");
    }
}
