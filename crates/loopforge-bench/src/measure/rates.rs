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

/// Steps per second of 500 runs, where the disk does [`APPENDS`] appends per second. Nothing is promised for slower ones.
const MANY: f64 = 10_000.0;
const APPENDS: f64 = 5_000.0;

/// Steps of all runs together when they are interrupted: more than they get to.
const ENDLESS: u64 = 200_000;

/// What the rounds of one workload brought.
struct Found {
    rates: Vec<f64>,
    cores: Vec<f64>,
    /// Steps per append, of rounds in which the disk stayed as it was.
    ratios: Vec<f64>,
}

impl Found {
    const fn new() -> Self {
        Self { rates: Vec::new(), cores: Vec::new(), ratios: Vec::new() }
    }

    fn add(&mut self, told: &Told, before: f64, after: f64) {
        self.rates.push(told.steps_per_second());
        self.cores.push(told.core_seconds * 1e6 / told.steps.max(1) as f64);
        // On a busy machine a flush takes now 0.2 ms, now 4 ms. A ratio across such a change says nothing.
        if before.max(after) < 1.5 * before.min(after) {
            self.ratios.push(told.steps_per_second() / f64::midpoint(before, after));
        }
    }

    fn rows(self, name: &str, job: &Job, appends: f64) -> [Row; 2] {
        let what = format!("{name}: durable steps");
        let rate = median(self.rates.clone());
        let rate = match (job.runs, job.deed) {
            (500, _) if appends >= APPENDS => Row::at_least(what, rate, MANY, "per second"),
            _ => Row::plain(what, rate, "per second"),
        };
        let core = median(self.cores);
        let rate = rate.note(&format!("{}; {core:.0} µs of core time per step", spread(&self.rates)));
        let what = format!("{name}: steps per append and fdatasync");
        if self.ratios.is_empty() {
            return [rate, Row::missing(what, "the disk didn't keep still")];
        }
        let ratio = match (job.runs, job.deed) {
            (1, Deed::Read) => Row::at_least(what, median(self.ratios.clone()), 0.8, ""),
            _ => Row::plain(what, median(self.ratios.clone()), ""),
        };
        [rate, ratio.note(&format!("{}; {} of {} rounds", spread(&self.ratios), self.ratios.len(), self.rates.len()))]
    }
}

impl Bench {
    fn time(&self) -> u64 {
        if self.quick { 500 } else { 1_000 }
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

    /// Durable steps per second beside what the disk itself can do just before and after.
    pub(super) fn rates(&self) -> Result<Vec<Row>> {
        let rounds = if self.quick { 2 } else { 9 };
        let jobs = self.jobs();
        let mut disk = Vec::new();
        let mut found = [const { Found::new() }; 4];
        for round in 0..rounds {
            let mut before = self.appends()?;
            for turn in 0..jobs.len() {
                // Another order in each round: none is always the first after a pause.
                let which = (turn + round) % jobs.len();
                let folder = self.folder()?;
                let told = self.work(folder.path(), &jobs[which].1)?;
                let after = self.appends()?;
                found[which].add(&told, before, after);
                disk.push(after);
                before = after;
            }
        }
        let appends = median(disk.clone());
        let mut rows = vec![Row::plain("append and fdatasync, alone", appends, "per second").note(&spread(&disk))];
        for ((name, job), found) in jobs.iter().zip(found) {
            rows.extend(found.rows(name, job, appends));
        }
        Ok(rows)
    }

    /// What the disk can do now, per second.
    fn appends(&self) -> Result<f64> {
        baseline::appends_per_second(&self.scratch, Duration::from_millis(if self.quick { 100 } else { 300 }))
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
