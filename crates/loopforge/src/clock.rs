//! The one place where the engine reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use loopforge_core::time::Timestamp;

/// The present instant, in microseconds.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
