//! Resident memory: of one run, and of each further one.

use anyhow::Result;

use super::{Bench, Job};
use crate::report::Row;
use crate::tools::Deed;

const MIB: f64 = 1024.0 * 1024.0;
const KIB: f64 = 1024.0;

impl Bench {
    pub(super) fn memory(&self) -> Result<Vec<Row>> {
        let steps = if self.quick { 1_000 } else { 10_000 };
        let one = self.resident(Job::new(1, steps))?;
        // Few items: what counts is the run.
        let hanging = |runs| Job { deed: Deed::Hang, ..Job::new(runs, 100) };
        let further = (self.resident(hanging(501))? - self.resident(hanging(1))?) / 500.0;
        // Each waits before the next is started: what a thousand leave behind in memory, and what two thousand do.
        let waiting = |runs| Job { deed: Deed::Fail, in_turn: true, ..Job::new(runs, 100) };
        let asleep = (self.resident(waiting(2_000))? - self.resident(waiting(1_000))?) / 1_000.0;
        Ok(vec![
            Row::at_most(format!("one run, after {steps} steps: resident"), one / MIB, 30.0, "MiB"),
            Row::at_most("each further run with a call under way: resident", further / KIB, 50.0, "KiB"),
            Row::at_most("each run that waits for a person: resident", asleep / KIB, 1.0, "KiB"),
        ])
    }

    fn resident(&self, job: Job) -> Result<f64> {
        let folder = self.folder()?;
        Ok(self.work(folder.path(), &job)?.resident[1] as f64)
    }
}
