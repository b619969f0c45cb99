//! The one place where the engine reads the clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loopforge_core::time::Timestamp;

/// The present instant, in microseconds.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Time since the machine was started, also while it slept. Nobody can set it, so leases are measured with it.
pub(crate) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
