//! What the kernel tells of this process.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// Resident memory now, in bytes.
pub(crate) fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the kernel tells no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is not a number")?;
    Ok(kib * 1024)
}

/// The time that all threads of this process had a core.
pub(crate) fn process_time() -> Duration {
    duration(ClockId::ProcessCPUTime)
}

/// The time that this thread had a core.
pub(crate) fn thread_time() -> Duration {
    duration(ClockId::ThreadCPUTime)
}

fn duration(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
