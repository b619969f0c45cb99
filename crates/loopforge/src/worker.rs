//! A worker: claims the runs that are due and carries them out, several at a time, beside other workers.
//!
//! What is due is asked of the store; hints only say when to ask. A run that can't be taken up here is left alone for a while, and others
//! may try it meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::RunId;
use loopforge_store::{Lease, StoreError};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::driver::Report;
use crate::engine::Engine;
use crate::error::EngineError;

/// How long a run that can't be taken up is left alone: at first, and at most.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(300);

/// How a worker works.
#[derive(Debug, Clone)]
pub struct Habits {
    /// Runs at a time.
    pub parallel: usize,
    /// Whether it ends when no run is left that could go on by itself.
    pub until_idle: bool,
}

/// What happens to the runs of a worker.
#[derive(Debug)]
pub enum News {
    /// It was claimed and is being carried out.
    TakenUp(RunId),
    /// It has ended, or waits, or was left to others.
    Left(Box<Report>),
    /// It could not be taken up or carried on here.
    Failed {
        /// The run.
        run: RunId,
        /// Why.
        error: EngineError,
    },
    /// The store could not be asked; the worker goes on asking.
    Trouble(StoreError),
}

/// Sees what happens.
pub type Listener = Arc<dyn Fn(News) + Send + Sync>;

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Served {
    /// Runs that were taken up, each as often as that.
    pub taken_up: u64,
    /// Those that could not be taken up or carried on.
    pub failed: u64,
}

impl Engine {
    /// Carries out the runs of the store that are due, until `cancel` fires or nothing is left to do. When it returns, this worker holds no
    /// lease.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the store can't be used at all; one that can't be reached is asked again.
    pub async fn serve(
        &self,
        habits: &Habits,
        cancel: CancellationToken,
        listener: Listener,
    ) -> Result<Served, EngineError> {
        self.live();
        // The first beat comes before the first claim, so that no lease counts on one that never came.
        self.heart.beat(&*self.store, &self.worker).await?;
        let heartbeat = Beating(tokio::spawn(self.clone().keep_beating(Arc::clone(&listener))));
        let mut work = Work {
            engine: self,
            cancel,
            listener,
            tasks: JoinSet::new(),
            runs: HashMap::new(),
            resting: HashMap::new(),
            served: Served::default(),
        };
        let ended = work.go_on(habits).await;
        work.finish().await;
        drop(heartbeat);
        ended.map(|()| work.served)
    }

    async fn keep_beating(self, listener: Listener) {
        let interval = self.worker.lease_ttl / 3;
        let mut wait = interval;
        loop {
            tokio::time::sleep(wait).await;
            wait = match self.heart.beat(&*self.store, &self.worker).await {
                Ok(()) => interval,
                Err(error) => {
                    listener(News::Trouble(error));
                    interval / 4
                }
            };
        }
    }
}

/// A heartbeat that ends with this value.
struct Beating(tokio::task::JoinHandle<()>);

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Work<'a> {
    engine: &'a Engine,
    cancel: CancellationToken,
    listener: Listener,
    tasks: JoinSet<Result<Report, EngineError>>,
    runs: HashMap<Id, RunId>,
    /// Runs that can't be taken up here: until when they are left alone, and for how long this time.
    resting: HashMap<RunId, (Instant, Duration)>,
    served: Served,
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl Work<'_> {
    async fn go_on(&mut self, habits: &Habits) -> Result<(), EngineError> {
        while !self.cancel.is_cancelled() {
            let claimed = self.claim(habits.parallel.saturating_sub(self.tasks.len())).await?;
            if habits.until_idle && !claimed && self.tasks.is_empty() && self.nothing_left().await? {
                return Ok(());
            }
            tokio::select! {
                // One more may have become due while others were carried out.
                Some(done) = self.tasks.join_next_with_id() => self.take(done).await,
                _ = self.engine.dispatch.next(), if self.tasks.len() < habits.parallel => {}
                () = self.cancel.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Lets all runs come to a place where they can be left.
    async fn finish(&mut self) {
        self.cancel.cancel();
        while let Some(done) = self.tasks.join_next_with_id().await {
            self.take(done).await;
        }
    }

    /// Claims as many runs as there is room for. Says whether there were any.
    async fn claim(&mut self, room: usize) -> Result<bool, EngineError> {
        if room == 0 {
            return Ok(true);
        }
        let now = Instant::now();
        let resting: Vec<RunId> =
            self.resting.iter().filter(|(_, (until, _))| *until > now).map(|(run, _)| *run).collect();
        match self.engine.store.claim_due(&self.engine.worker, room, &resting).await {
            Ok(leases) => {
                let any = !leases.is_empty();
                leases.into_iter().for_each(|lease| self.begin(lease));
                Ok(any)
            }
            Err(error) if error.is_transient() => {
                (self.listener)(News::Trouble(error));
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether no run is left that would go on by itself, but for those that can't be taken up here.
    async fn nothing_left(&self) -> Result<bool, EngineError> {
        match self.engine.store.next_due().await {
            Ok(None) => Ok(true),
            Ok(Some(due)) => Ok(!self.resting.is_empty() && due <= crate::clock::now()),
            Err(error) if error.is_transient() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn begin(&mut self, lease: Lease) {
        let (engine, cancel, run) = (self.engine.clone(), self.cancel.clone(), lease.run);
        (self.listener)(News::TakenUp(run));
        self.served.taken_up += 1;
        let task = self.tasks.spawn(async move { engine.adopt(lease).await?.drive(cancel).await });
        self.runs.insert(task.id(), run);
    }

    async fn take(&mut self, done: Result<(Id, Result<Report, EngineError>), JoinError>) {
        let id = done.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(run) = self.runs.remove(&id) else { return };
        match done {
            Ok((_, Ok(report))) => {
                self.resting.remove(&run);
                (self.listener)(News::Left(Box::new(report)));
            }
            // Somebody else has it, or it is over: nothing is wrong with it.
            Ok((_, Err(EngineError::Fenced(_) | EngineError::Ended { .. }))) => {}
            Ok((_, Err(error))) => self.rest(run, error),
            Err(panic) => {
                tracing::error!(%run, "the run's task ended in a panic: {panic}");
                // The heartbeat would keep its lease for ever.
                if let Err(error) = self.engine.store.void_lease(run, &self.engine.worker.id).await {
                    tracing::warn!(%run, "its lease could not be given up: {error}");
                }
                self.rest(run, EngineError::Invalid(format!("{run}: its task ended in a panic")));
            }
        }
    }

    /// Leaves a run alone for a while, longer each time.
    fn rest(&mut self, run: RunId, error: EngineError) {
        self.served.failed += 1;
        let span = self.resting.get(&run).map_or(FIRST_REST, |(_, before)| (*before * 2).min(LONGEST_REST));
        self.resting.insert(run, (Instant::now() + span, span));
        (self.listener)(News::Failed { run, error });
    }
}
