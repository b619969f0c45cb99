//! Until when leases last at least, by a clock that nobody can set.
//!
//! A lease is extended by each append and renewal of its run, and for all runs of a worker at once by the worker's heartbeat. What
//! counts is when that was asked for: whatever the store's clock says, the lease doesn't end earlier than so long after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loopforge_store::{Store, StoreError, Worker};

use crate::clock;

/// An instant since the machine was started, which only moves on. Clones show the same one.
#[derive(Debug, Clone, Default)]
struct Instant(Arc<AtomicU64>);

impl Instant {
    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Acquire))
    }

    fn move_on(&self, to: Duration) {
        self.0.fetch_max(u64::try_from(to.as_micros()).unwrap_or(u64::MAX), Ordering::AcqRel);
    }
}

/// The heartbeat of a worker. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heart(Instant);

impl Heart {
    /// Beats once: until this long from now, none of the worker's leases lapses.
    pub(crate) async fn beat(&self, store: &dyn Store, worker: &Worker) -> Result<(), StoreError> {
        let asked = clock::since_boot();
        store.beat(worker).await?;
        self.0.move_on(asked + worker.lease_ttl);
        Ok(())
    }
}

/// Until when a run is held.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    own: Instant,
    heart: Heart,
}

impl Held {
    /// A run that was claimed now or earlier, for `ttl`.
    pub(crate) fn new(heart: Heart, until: Duration) -> Self {
        let own = Instant::default();
        own.move_on(until);
        Self { own, heart }
    }

    /// Until when at least.
    pub(crate) fn until(&self) -> Duration {
        self.own.get().max(self.heart.0.get())
    }

    /// It was extended.
    pub(crate) fn extend(&self, until: Duration) {
        self.own.move_on(until);
    }

    /// How long the heartbeat alone makes it last from now on.
    pub(crate) fn left_by_heart(&self) -> Duration {
        self.heart.0.get().saturating_sub(clock::since_boot())
    }

    /// How long it lasts from now on.
    pub(crate) fn left(&self) -> Duration {
        self.until().saturating_sub(clock::since_boot())
    }

    /// Returns once no more than `margin` is left.
    pub(crate) async fn nearly_over(&self, margin: Duration) {
        /// A machine that sleeps stops this wait with it, so it is cut into short ones.
        const LONGEST: Duration = Duration::from_millis(250);
        loop {
            let left = self.left();
            if left <= margin {
                return;
            }
            tokio::time::sleep((left - margin).min(LONGEST)).await;
        }
    }
}
