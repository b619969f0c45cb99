//! Steps per second and flushes per step: alone, many at once, and on a RAM disk.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Bench, Job, median, spread, told};
use crate::baseline;
use crate::report::Row;
use crate::tools::Deed;
use crate::work::Told;

/// Steps per second of 500 runs, where the disk does [`APPENDS`] appends per second.
const MANY: f64 = 10_000.0;
const APPENDS: f64 = 5_000.0;

/// Steps of all runs together when they are interrupted: more than they get to.
const ENDLESS: u64 = 200_000;

impl Bench {
    fn time(&self) -> u64 {
        if self.quick { 500 } else { 2_000 }
    }

    /// Reads, writes, 100 and 500 runs at once: as many in turn as there are rounds.
    fn jobs(&self) -> [(&'static str, Job); 4] {
        let one = Job { stop_after_ms: Some(self.time()), ..Job::new(1, ENDLESS) };
        let many = |runs| Job { runs, steps: ENDLESS / runs, ..one };
        [
            ("one run, reads", one),
            ("one run, writes", Job { deed: Deed::Write, ..one }),
            ("100 runs at once, reads", many(100)),
            ("500 runs at once, reads", many(500)),
        ]
    }

    /// Durable steps per second beside what the disk itself can do, in turns.
    pub(super) fn rates(&self) -> Result<Vec<Row>> {
        let rounds = if self.quick { 2 } else { 7 };
        let jobs = self.jobs();
        let mut appends = Vec::new();
        let mut rates = [const { Vec::new() }; 4];
        let mut cores = [const { Vec::new() }; 4];
        for round in 0..rounds {
            let folder = self.folder()?;
            appends.push(baseline::appends_per_second(folder.path(), Duration::from_millis(self.time() / 2))?);
            for turn in 0..jobs.len() {
                // Another order in each round: none is always the first after a pause.
                let which = (turn + round) % jobs.len();
                let folder = self.folder()?;
                let told = self.work(folder.path(), &jobs[which].1)?;
                rates[which].push(told.steps_per_second());
                cores[which].push(told.core_seconds * 1e6 / told.steps.max(1) as f64);
            }
        }
        let disk = median(appends.clone());
        let mut rows = vec![Row::plain("append and fdatasync, alone", disk, "per second").note(&spread(&appends))];
        for (which, (name, job)) in jobs.iter().enumerate() {
            let rate = median(rates[which].clone());
            let what = format!("{name}: durable steps");
            let row = match (job.runs, job.deed) {
                (500, _) => Row::at_least(what, rate, MANY * (disk / APPENDS).min(1.0), "per second"),
                _ => Row::plain(what, rate, "per second"),
            };
            let note =
                format!("{}; {:.0} µs of core time per step", spread(&rates[which]), median(cores[which].clone()));
            rows.push(row.note(&note));
            let ratios: Vec<f64> = rates[which].iter().zip(&appends).map(|(rate, appends)| rate / appends).collect();
            let what = format!("{name}: steps per append and fdatasync");
            let ratio = median(ratios.clone());
            let row = match (job.runs, job.deed) {
                (1, Deed::Read) => Row::at_least(what, ratio, 0.8, ""),
                _ => Row::plain(what, ratio, ""),
            };
            rows.push(row.note(&spread(&ratios)));
        }
        Ok(rows)
    }

    /// The same without flushes that take time.
    pub(super) fn ram(&self) -> Result<Vec<Row>> {
        let what = "one run on a RAM disk, reads: steps";
        let rounds = if self.quick { 2 } else { 5 };
        let mut rates = Vec::new();
        let mut cores = Vec::new();
        for _ in 0..rounds {
            let Some(folder) = Self::ram_folder() else {
                return Ok(vec![Row::missing(what, "there is no RAM disk here")]);
            };
            let told = self.work(folder.path(), &self.jobs()[0].1)?;
            rates.push(told.steps_per_second());
            cores.push(told.core_seconds * 1e6 / told.steps.max(1) as f64);
        }
        let note = format!("{}; {:.0} µs of core time per step", spread(&rates), median(cores));
        Ok(vec![Row::at_least(what, median(rates), 8_000.0, "per second").note(&note)])
    }

    /// Flushes, as strace sees them.
    pub(super) fn flushes(&self) -> Result<Vec<Row>> {
        if Command::new("strace").arg("--version").output().is_err() {
            return Ok(vec![Row::missing("flushes per step", "strace isn't installed")]);
        }
        let mut rows = Vec::new();
        for (name, job) in self.jobs() {
            let folder = self.folder()?;
            let (told, flushes) = self.traced(folder.path(), &job)?;
            let (steps, flushes) = (told.steps as f64, flushes as f64);
            let row = match (job.runs, job.deed) {
                // The log is written back to the database every 2,000 pages, with flushes of its own: a hundredth more.
                (1, Deed::Read) => Row::at_most(format!("{name}: flushes per step"), flushes / steps, 1.02, ""),
                (1, _) => Row::at_most(format!("{name}: flushes per step"), flushes / steps, 2.02, ""),
                (500, _) => Row::at_least(format!("{name}: steps per flush"), steps / flushes, 20.0, ""),
                _ => Row::plain(format!("{name}: steps per flush"), steps / flushes, ""),
            };
            rows.push(row.note(&format!("{steps} steps, {flushes} flushes")));
        }
        Ok(rows)
    }

    /// Does a job under strace. Returns what it tells, and the flushes between the two instants that it tells.
    fn traced(&self, dir: &Path, job: &Job) -> Result<(Told, usize)> {
        let trace = dir.join("trace");
        let mut command = Command::new("strace");
        command.args(["-f", "--seccomp-bpf", "-ttt", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o"]);
        command.arg(&trace).arg(&self.program).args(job.arguments(dir));
        let told = told(&mut command)?;
        let lines = std::fs::read_to_string(&trace).context("strace left no trace")?;
        let flushes = lines.lines().filter_map(flush_at).filter(|at| (told.began..=told.ended).contains(at)).count();
        Ok((told, flushes))
    }
}

/// When the flush of this line of a trace began; `None` for a line that tells something else.
fn flush_at(line: &str) -> Option<f64> {
    let mut words = line.split_whitespace();
    let (_, at, call) = (words.next()?, words.next()?, words.next()?);
    // A call that was cut in two lines begins once.
    ["fsync(", "fdatasync(", "sync_file_range(", "msync("]
        .iter()
        .any(|name| call.starts_with(name))
        .then(|| at.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::flush_at;

    #[test]
    fn flushes_are_read_from_a_trace() {
        assert_eq!(flush_at("4711 1700000000.250000 fdatasync(9) = 0"), Some(1_700_000_000.25));
        assert_eq!(flush_at("4711  1700000000.250000 fsync(9 <unfinished ...>"), Some(1_700_000_000.25));
        assert_eq!(flush_at("4711  1700000000.260000 <... fsync resumed>) = 0"), None);
        assert_eq!(flush_at("4711 1700000000.250000 +++ exited with 0 +++"), None);
    }
}
