//! What groups the appends of many runs.
//!
//! A few lanes, each with at most one transaction on its way. Appends that arrive meanwhile go together in the next one: so
//! throughput doesn't hang on the time of a round trip, and one flush serves many. All appends of a run take the same lane,
//! in their order.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::RunId;
use tokio::sync::{mpsc, oneshot};

use super::Core;
use super::append::{self, Item};
use super::error::Failed;
use super::pool::{Tries, settle};
use crate::{Appended, StoreError, Ticket};

/// Transactions on their way at a time. More share fewer round trips, and each costs the server a process.
pub(crate) const LANES: usize = 4;

/// Appends in one transaction. Beyond a hundred or so only the wait of each grows.
const LARGEST_BATCH: usize = 256;

/// Appends that may wait in a lane. Beyond it, callers wait for a place.
const QUEUE: usize = 1024;

/// How long a transaction may take. It may be waiting for a replica that is away; then nothing is acknowledged.
const LONGEST: Duration = Duration::from_secs(30);

struct Job {
    item: Item,
    reply: oneshot::Sender<Result<Appended, StoreError>>,
}

enum Order {
    Append(Box<Job>),
    /// Answered when all that was ordered before is done.
    Settle(oneshot::Sender<()>),
}

/// The lanes. They end when this is dropped, after what is waiting.
#[derive(Debug)]
pub(crate) struct Lanes {
    senders: Vec<mpsc::Sender<Order>>,
    hasher: RandomState,
}

impl Lanes {
    pub(crate) fn start(core: &Arc<Core>) -> Self {
        let start = |_| {
            let (sender, waiting) = mpsc::channel(QUEUE);
            tokio::spawn(Lane { core: Arc::clone(core), left: Vec::new() }.work(waiting));
            sender
        };
        Self { senders: (0..LANES).map(start).collect(), hasher: RandomState::new() }
    }

    /// Gives an append its place, behind those of the same run that were given before.
    pub(crate) async fn submit(&self, item: Item) -> Ticket {
        let stopped = || StoreError::Unavailable("the store's writer has stopped; open the store again".to_owned());
        let (reply, answer) = oneshot::channel();
        let lane = self.lane(item.head.lease.run);
        let sent = match lane {
            Some(lane) => lane.send(Order::Append(Box::new(Job { item, reply }))).await.is_ok(),
            None => false,
        };
        if !sent {
            return Ticket::answered(Err(stopped()));
        }
        Ticket::new(async move { answer.await.map_err(|_| stopped())? })
    }

    /// Waits until all appends of a run that have their place are done.
    pub(crate) async fn settle(&self, run: RunId) {
        let (reply, answer) = oneshot::channel();
        if let Some(lane) = self.lane(run)
            && lane.send(Order::Settle(reply)).await.is_ok()
        {
            // A lane that has stopped has nothing under way.
            let _ = answer.await;
        }
    }

    fn lane(&self, run: RunId) -> Option<&mpsc::Sender<Order>> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u128(run.0.as_u128());
        let lanes = self.senders.len() as u64;
        self.senders.get(usize::try_from(hasher.finish() % lanes).unwrap_or(0))
    }
}

struct Lane {
    core: Arc<Core>,
    /// Left for the next transaction: this one has an append of the same run, or must end first.
    left: Vec<Order>,
}

impl Lane {
    async fn work(mut self, mut waiting: mpsc::Receiver<Order>) {
        loop {
            let mut arrived = std::mem::take(&mut self.left);
            if arrived.is_empty() {
                match waiting.recv().await {
                    Some(job) => arrived.push(job),
                    None => return,
                }
            }
            while arrived.len() < LARGEST_BATCH
                && let Ok(job) = waiting.try_recv()
            {
                arrived.push(job);
            }
            let (mut runs, mut batch, mut settles) = (HashSet::new(), Vec::new(), false);
            for order in arrived {
                match order {
                    Order::Settle(reply) if batch.is_empty() && self.left.is_empty() => {
                        // Nobody listens when the caller gave up.
                        let _ = reply.send(());
                    }
                    Order::Append(job) if !settles && runs.insert(job.item.head.lease.run) => batch.push(*job),
                    order => {
                        settles |= matches!(order, Order::Settle(_));
                        self.left.push(order);
                    }
                }
            }
            if batch.is_empty() {
                continue;
            }
            self.commit(batch).await;
        }
    }

    async fn commit(&self, batch: Vec<Job>) {
        let (items, replies): (Vec<_>, Vec<_>) = batch.into_iter().map(|job| (job.item, job.reply)).unzip();
        let results = match self.transaction(&items).await {
            Ok(results) => results,
            Err(failed) if items.len() == 1 || for_all(&failed) => {
                let error = failed.into_store_error(&self.core.place);
                vec![Err(error); items.len()]
            }
            // Alone, each gets its own verdict: one that the server can't take must not fail the others with it.
            Err(_) => {
                let mut results = Vec::with_capacity(items.len());
                for item in &items {
                    let alone = self.transaction(std::slice::from_ref(item)).await;
                    let alone = alone.map_err(|failed| failed.into_store_error(&self.core.place));
                    results.push(alone.and_then(|mut alone| alone.pop().unwrap_or(Ok(Appended::Fenced))));
                }
                results
            }
        };
        for (reply, result) in replies.into_iter().zip(results) {
            // Nobody listens when the caller gave up; what was written stays.
            let _ = reply.send(result);
        }
    }

    async fn transaction(&self, items: &[Item]) -> Result<Vec<Result<Appended, StoreError>>, Failed> {
        let mut tries = Tries::new(self.core.options.patience);
        loop {
            match self.once(items).await {
                Err(failed) if tries.again(&failed).await => {}
                result => return result,
            }
        }
    }

    async fn once(&self, items: &[Item]) -> Result<Vec<Result<Appended, StoreError>>, Failed> {
        let connection = self.core.writers.get().await?;
        match tokio::time::timeout(LONGEST, append::append(&connection, items, &self.core.address, self.core.now()))
            .await
        {
            Ok(result) => settle(connection, result),
            Err(_) => {
                // What became of it is found out by the ids of its records, on another connection.
                drop(deadpool_postgres::Object::take(connection));
                Err(Failed::Pool(format!("a commit took longer than {} s", LONGEST.as_secs())))
            }
        }
    }
}

/// Whether an error would be the same for each append alone.
fn for_all(failed: &Failed) -> bool {
    failed.may_pass()
}
