//! What a step takes in the store, and whether that stays the same as a run grows.

use std::path::Path;

use anyhow::Result;
use loopforge::gateway::Registry;
use std::sync::Arc;

use super::{Bench, Job};
use crate::content::Text;
use crate::report::Row;
use crate::tools::{Answer, Deed};
use crate::work::{arguments, prepared};

impl Bench {
    /// Stores of runs of several lengths, as they are when the process has ended.
    pub(super) fn sizes(&self) -> Result<Vec<Row>> {
        let longest = if self.quick { 2_000 } else { 10_000 };
        let mut rows = Vec::new();
        for (text, name) in [(Text::Page, "HTML"), (Text::Random, "random base64")] {
            let payload = self.payload(text)?;
            let empty = self.size(text, 0)?;
            let mut per_step = Vec::new();
            for steps in [100, 1_000, longest] {
                let bytes = (self.size(text, steps)? - empty) / steps as f64;
                per_step.push(bytes);
                let what = format!("{name}, {steps} steps: bytes per step");
                rows.push(Row::at_most(what, bytes, 4096.0, "bytes"));
            }
            let what = format!("{name}: bytes per step at {longest} steps against those at 100");
            let ratio = per_step[2] / per_step[0];
            rows.push(Row { share_of_bar: Some((ratio - 1.0).abs() / 0.1), ..Row::at_most(what, ratio, 1.1, "") });
            let what = format!("{name}, {longest} steps: bytes per step against the compressed payload");
            rows.push(Row::at_most(what, per_step[2] / payload, 1.5, "").note(&format!("payload {payload:.0} bytes")));
        }
        Ok(rows)
    }

    /// Bytes of all files of the store after a run of so many steps.
    fn size(&self, text: Text, steps: u64) -> Result<f64> {
        // Sizes don't depend on the disk, so the fastest one will do.
        let folder = match Self::ram_folder() {
            Some(folder) => folder,
            None => self.folder()?,
        };
        self.work(folder.path(), &Job { text, ..Job::new(1, steps) })?;
        let mut bytes = 0;
        for entry in std::fs::read_dir(folder.path())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("store.db") {
                bytes += entry.metadata()?.len();
            }
        }
        Ok(bytes as f64)
    }

    /// What arguments and answer of a step take when each is compressed by itself, on the average.
    fn payload(&self, text: Text) -> Result<f64> {
        const SAMPLES: u64 = 100;
        let registry = Registry::default().with("answer", Arc::new(Answer::new(Deed::Read, text, Arc::default())));
        let prepared = prepared(Path::new("/"), &registry)?;
        let mut bytes = 0;
        for number in 0..SAMPLES {
            bytes += zstd::bulk::compress(arguments(&prepared, number).to_string().as_bytes(), 3)?.len();
            bytes += zstd::bulk::compress(text.answer(number).as_bytes(), 3)?.len();
        }
        Ok(bytes as f64 / SAMPLES as f64)
    }
}
