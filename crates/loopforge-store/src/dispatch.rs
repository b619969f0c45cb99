//! Telling workers to look: sooner than they would by themselves, and no more than that.
//!
//! What is due is in the store, and only there. A [`Dispatch`] may lose what it is given, double it, delay it or bring it in
//! another order; then a run begins later, or a worker looks in vain. So it carries no data, and [`Polling`] always runs
//! beside it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::id::RunId;
use tokio::sync::Notify;
use uuid::Uuid;

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// This run may be due.
    Run(RunId),
    /// Some run may be due.
    LookYourself,
}

/// Delivery of hints: at least sometimes, in any order.
#[async_trait]
pub trait Dispatch: Send + Sync + fmt::Debug {
    /// Says that a run may be due now. Returns when the hint is on its way, or when it is clear that it will not be.
    async fn wake(&self, run: RunId);

    /// Waits for the next hint. A future that is dropped loses no hint that a later call would bring.
    async fn next(&self) -> Hint;
}

/// Looking again and again, after a time that is cut by chance, so that many workers don't look at once.
#[derive(Debug, Clone)]
pub struct Polling {
    interval: Duration,
}

impl Polling {
    /// Looks after half of `interval` to the whole of it.
    #[must_use]
    pub const fn every(interval: Duration) -> Self {
        Self { interval }
    }
}

#[async_trait]
impl Dispatch for Polling {
    async fn wake(&self, _run: RunId) {}

    async fn next(&self) -> Hint {
        tokio::time::sleep(jittered(self.interval)).await;
        Hint::LookYourself
    }
}

/// Hints of one process, for stores that nobody else uses and for tests.
#[derive(Debug, Clone, Default)]
pub struct InProcess(Arc<Notify>);

#[async_trait]
impl Dispatch for InProcess {
    async fn wake(&self, _run: RunId) {
        self.0.notify_one();
    }

    async fn next(&self) -> Hint {
        self.0.notified().await;
        Hint::LookYourself
    }
}

/// Hints, and polling beside them: however bad the hints are, nothing is found later than by polling alone.
#[derive(Debug, Clone)]
pub struct WithPolling<D> {
    hints: D,
    polling: Polling,
}

impl<D: Dispatch> WithPolling<D> {
    /// `hints`, and a look at least every `interval`.
    pub const fn new(hints: D, interval: Duration) -> Self {
        Self { hints, polling: Polling::every(interval) }
    }
}

#[async_trait]
impl<D: Dispatch> Dispatch for WithPolling<D> {
    async fn wake(&self, run: RunId) {
        self.hints.wake(run).await;
    }

    async fn next(&self) -> Hint {
        tokio::select! {
            hint = self.hints.next() => hint,
            hint = self.polling.next() => hint,
        }
    }
}

/// Between half of a time and the whole of it.
pub(crate) fn jittered(span: Duration) -> Duration {
    let (drawn, _) = Uuid::new_v4().as_u64_pair();
    let part = f64::from(u32::try_from(drawn >> 32).unwrap_or(0)) / f64::from(u32::MAX);
    span.mul_f64(0.5 + part / 2.0)
}
