//! What waits for the writing thread.
//!
//! An operation that somebody waits for wakes the writer at once. One that nobody waits for yet (an append that was submitted)
//! waits a little for others, so that one flush of the disk serves them all. On a disk that is slower than that, whatever came
//! during one flush shares the next.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::writer::{Work, stopped};
use crate::StoreError;

/// How long an operation that nobody waits for waits for others. Nobody sees so short a delay, and a crash costs no more than it
/// does by what runs may be ahead.
const LINGER: Duration = Duration::from_millis(5);

/// Operations that need not wait for more: beyond it each flush costs little beside what it serves.
const COMPANY: usize = 64;

/// Operations in one transaction. More gains nothing: beyond a hundred or so only the wait of each grows.
const LARGEST_BATCH: usize = 256;

/// Operations that may wait. Beyond it, callers wait for a place: that slows them down to what the disk can take.
const PLACES: usize = 1024;

/// Operations in the order in which they came.
#[derive(Debug)]
pub(crate) struct Queue {
    // A std mutex, since it is held only to put something in or take it out.
    waiting: Mutex<Waiting>,
    wake: Condvar,
    places: Semaphore,
}

struct Waiting {
    operations: VecDeque<(Instant, Box<dyn Work>)>,
    /// Operations that came so far.
    count: u64,
    /// Somebody waits for one of them.
    hurry: bool,
    /// The writer sleeps until it is woken, or has lingered long enough.
    sleeps: bool,
    /// No more come in.
    closed: bool,
}

impl Queue {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { operations: VecDeque::new(), count: 0, hurry: false, sleeps: false, closed: false };
        Self { waiting: Mutex::new(waiting), wake: Condvar::new(), places: Semaphore::new(PLACES) }
    }

    /// Puts an operation behind the others, and returns its number for [`Self::hurry`].
    pub(crate) async fn push(&self, operation: Box<dyn Work>, hurry: bool) -> Result<u64, StoreError> {
        self.places.acquire().await.map_err(|_| stopped())?.forget();
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(stopped());
        }
        waiting.operations.push_back((Instant::now(), operation));
        waiting.count += 1;
        waiting.hurry |= hurry;
        let number = waiting.count;
        // The first one sets the time.
        if waiting.operations.len() == 1 || waiting.hurry || waiting.operations.len() >= COMPANY {
            self.wake(waiting);
        }
        Ok(number)
    }

    /// Says that somebody waits for the operation of that number.
    pub(crate) fn hurry(&self, number: u64) {
        let mut waiting = self.lock();
        let taken = waiting.count - waiting.operations.len() as u64;
        if number > taken && !waiting.hurry {
            waiting.hurry = true;
            self.wake(waiting);
        }
    }

    /// Takes what is to be written together, as soon as there is a reason to write. `None` when nothing will come any more.
    pub(crate) fn take(&self) -> Option<Vec<Box<dyn Work>>> {
        let mut waiting = self.lock();
        loop {
            let left = match waiting.operations.front() {
                None if waiting.closed => return None,
                None => None,
                Some((since, _)) => Some(LINGER.saturating_sub(since.elapsed())),
            };
            if left.is_some_and(|left| left.is_zero() || waiting.must_go()) {
                break;
            }
            waiting.sleeps = true;
            waiting = match left {
                None => self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.wake.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0,
            };
            waiting.sleeps = false;
        }
        let count = waiting.operations.len().min(LARGEST_BATCH);
        let batch = waiting.operations.drain(..count).map(|(_, operation)| operation).collect();
        waiting.hurry &= !waiting.operations.is_empty();
        drop(waiting);
        self.places.add_permits(count);
        Some(batch)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().operations.is_empty()
    }

    /// Lets nothing more in. What waits is still taken.
    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        self.places.close();
        self.wake(waiting);
    }

    /// Lets nothing more in, and drops what waits: nobody will take it.
    pub(crate) fn abandon(&self) {
        self.close();
        let left = std::mem::take(&mut self.lock().operations);
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        // Waking a thread that doesn't sleep costs a call of the system all the same.
        if std::mem::take(&mut waiting.sleeps) {
            drop(waiting);
            self.wake.notify_one();
        }
    }
}

impl Waiting {
    fn must_go(&self) -> bool {
        self.hurry || self.closed || self.operations.len() >= COMPANY
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("operations", &self.operations.len()).field("count", &self.count).finish()
    }
}
