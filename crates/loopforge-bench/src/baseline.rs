//! What the disk itself can do: append a few bytes, flush, again.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Bytes of an append: about what a step of the workload has before compression.
const BYTES: usize = 2500;

/// Appends with a `fdatasync` each, for `time`. Returns how many were done per second.
pub(crate) fn appends_per_second(folder: &Path, time: Duration) -> Result<f64> {
    let path = folder.join("baseline");
    let mut file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let bytes = [b'x'; BYTES];
    let started = Instant::now();
    let mut count = 0u32;
    while started.elapsed() < time {
        file.write_all(&bytes)?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / started.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(rate)
}
