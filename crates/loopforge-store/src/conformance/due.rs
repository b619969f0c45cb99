//! Runs that are due, and workers that share them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::RunId;
use loopforge_core::record::RunStatus;
use loopforge_core::time::Timestamp;

use super::appends::{archive, run, write};
use crate::testing::{ManualClock, samples};
use crate::{Appended, Lease, Store, StoreError, Worker};

async fn claim(store: &dyn Store, name: &str) -> Vec<Lease> {
    store.claim_due(&samples::worker(name), 1000, &[]).await.expect("due runs are claimed")
}

async fn enqueue(store: &dyn Store) -> RunId {
    let new = samples::new_run();
    let id = new.id;
    store.queue_run(new).await.expect("a run is stored");
    id
}

/// A run that was left in this status, and given up.
async fn left(store: &dyn Store, status: RunStatus, wake_at: Option<Timestamp>) -> RunId {
    let mut lease = run(store).await;
    let mut append = samples::append(&lease, vec![samples::step_started(1)]);
    (append.status, append.wake_at) = (status, wake_at);
    write(store, &mut lease, append).await;
    store.release_lease(&lease).await.expect("it is given up");
    lease.run
}

/// A run that is put in the queue belongs to nobody, is queued, and is there as a whole.
pub async fn queueing(store: &dyn Store) {
    let new = samples::new_run();
    store.queue_run(new.clone()).await.expect("a run is stored");
    let info = store.run(new.id).await.expect("it is there");
    assert_eq!((info.status, info.owner, info.head.0), (RunStatus::Queued, None, 1));
    assert_eq!(archive(store, new.id).await, new.records);
    assert_eq!(store.task(info.task).await.as_deref(), Ok(new.task.as_slice()));
    let mut other = samples::new_run();
    other.id = new.id;
    assert_eq!(store.queue_run(other).await, Err(StoreError::Exists(new.id)));
    assert_eq!(archive(store, new.id).await, new.records);
    let mut lease = store.claim_run(new.id, &samples::worker("a")).await.expect("nobody has it");
    let append = samples::append(&lease, vec![samples::step_started(1)]);
    write(store, &mut lease, append).await;
    assert_eq!(store.run(new.id).await.map(|info| info.status), Ok(RunStatus::Running));
}

/// Due is what is queued, what is running and nobody has, and what waits for a time that has come. Wants a store that nobody
/// else changes.
pub async fn due(store: &dyn Store, clock: &ManualClock) {
    let soon = clock.now().after(Duration::from_secs(10));
    let (queued, running) = (enqueue(store).await, left(store, RunStatus::Running, None).await);
    let waiting = left(store, RunStatus::Waiting, Some(soon)).await;
    let past = left(store, RunStatus::Waiting, Some(samples::NOON)).await;
    // One that works on while a part of it waits is due whatever that part waits for.
    let busy = left(store, RunStatus::Running, Some(soon)).await;
    for status in [RunStatus::Paused, RunStatus::Succeeded, RunStatus::Failed, RunStatus::Cancelled] {
        left(store, status, None).await;
    }
    left(store, RunStatus::Waiting, None).await;
    let held = run(store).await;

    let claimed = claim(store, "b").await;
    let runs: HashSet<RunId> = claimed.iter().map(|lease| lease.run).collect();
    assert_eq!(runs, HashSet::from([queued, running, past, busy]));
    for mut lease in claimed {
        let owner = store.run(lease.run).await.expect("it is there").owner.expect("it was claimed");
        assert_eq!((owner.id, owner.until), (samples::worker("b").id, lease.until));
        let mut append = samples::append(&lease, vec![samples::step_started(2)]);
        append.status = RunStatus::Succeeded;
        write(store, &mut lease, append).await;
        store.release_lease(&lease).await.expect("it is given up");
    }
    assert_eq!(claim(store, "b").await, []);

    clock.advance(Duration::from_secs(10));
    let claimed = claim(store, "b").await;
    assert_eq!(claimed.iter().map(|lease| lease.run).collect::<Vec<_>>(), [waiting]);
    store.release_lease(&claimed[0]).await.expect("it is given up");
    assert_eq!(claim(store, "b").await[0].run, waiting, "its time has come and stays so");

    clock.advance(held.ttl);
    let lapsed = claim(store, "c").await;
    let runs: HashSet<RunId> = lapsed.iter().map(|lease| lease.run).collect();
    assert_eq!(runs, HashSet::from([held.run, waiting]), "leases that lapsed");
    let lease = lapsed.iter().find(|lease| lease.run == held.run).expect("it was claimed");
    assert_eq!((lease.epoch, lease.before.as_slice()), (held.epoch + 1, [samples::worker("a").id].as_slice()));
    let late = samples::append(&held, vec![samples::step_started(1)]);
    assert_eq!(store.append(&held, late).await, Ok(Appended::Fenced));
}

/// Workers that claim at the same time get different runs, and all of them together.
pub async fn shared_out(store: Arc<dyn Store>) {
    const RUNS: usize = 60;
    let mut waiting = HashSet::new();
    for _ in 0..RUNS {
        waiting.insert(enqueue(&*store).await);
    }
    let mut workers = Vec::new();
    for number in 0..6 {
        let store = Arc::clone(&store);
        workers.push(tokio::spawn(async move {
            let worker = samples::worker(&format!("w{number}"));
            let mut got = Vec::new();
            loop {
                let leases = store.claim_due(&worker, 7, &[]).await.expect("due runs are claimed");
                assert!(leases.len() <= 7);
                if leases.is_empty() {
                    return got;
                }
                got.extend(leases.into_iter().map(|lease| lease.run));
            }
        }));
    }
    let mut got = Vec::new();
    for worker in workers {
        got.extend(worker.await.expect("the worker ends"));
    }
    // What one had locked, another may have passed over as its last.
    got.extend(claim(&*store, "last").await.into_iter().map(|lease| lease.run));
    assert_eq!(got.len(), RUNS, "each once");
    assert_eq!(got.into_iter().collect::<HashSet<_>>(), waiting);
}

/// Runs that are excepted stay where they are, and no more than wanted are claimed.
pub async fn exceptions(store: &dyn Store) {
    let (first, second, third) = (enqueue(store).await, enqueue(store).await, enqueue(store).await);
    let worker = samples::worker("b");
    assert_eq!(store.claim_due(&worker, 0, &[]).await, Ok(Vec::new()));
    let claimed = store.claim_due(&worker, 2, &[first]).await.expect("due runs are claimed");
    assert_eq!(claimed.iter().map(|lease| lease.run).collect::<HashSet<_>>(), HashSet::from([second, third]));
    assert_eq!(store.claim_due(&worker, 2, &[first]).await, Ok(Vec::new()));
    assert_eq!(claim(store, "b").await[0].run, first);
}

/// A heartbeat keeps all leases of a worker alive, and nobody else's. Wants a store that nobody else changes.
pub async fn heartbeat(store: &dyn Store, clock: &ManualClock) {
    enqueue(store).await;
    enqueue(store).await;
    let mine = claim(store, "b").await;
    assert_eq!(mine.len(), 2);
    let other = run(store).await;
    let ttl = other.ttl;
    clock.advance(ttl / 2);
    let until = store.beat(&samples::worker("b")).await.expect("it lives");
    assert_eq!(until, clock.now().after(ttl));
    clock.advance(ttl / 2);
    let lapsed = claim(store, "c").await;
    assert_eq!(lapsed.iter().map(|lease| lease.run).collect::<Vec<_>>(), [other.run]);
    for lease in &mine {
        assert_eq!(store.run(lease.run).await.expect("it is there").owner.map(|owner| owner.until), Some(until));
        let held = store.claim_run(lease.run, &samples::worker("c")).await;
        assert!(matches!(held, Err(StoreError::Held { until: told, .. }) if told == until), "{held:?}");
    }
    clock.advance(ttl / 2);
    assert_eq!(claim(store, "c").await.len(), 2, "no beat, no life");
    // One that comes back keeps what nobody has taken, and nothing else.
    store.beat(&samples::worker("b")).await.expect("it lives");
    for lease in &mine {
        let late = samples::append(lease, vec![samples::step_started(1)]);
        assert_eq!(store.append(lease, late).await, Ok(Appended::Fenced));
    }
    let silent: Worker = samples::worker("nobody");
    store.beat(&silent).await.expect("one without runs may beat");
}

/// It is known when the next run is due, and when none will be. Wants a store that nobody else changes.
pub async fn next(store: &dyn Store, clock: &ManualClock) {
    assert_eq!(store.next_due().await, Ok(None));
    left(store, RunStatus::Succeeded, None).await;
    left(store, RunStatus::Waiting, None).await;
    assert_eq!(store.next_due().await, Ok(None), "nothing will be due by itself");
    let later = clock.now().after(Duration::from_secs(3_600));
    left(store, RunStatus::Waiting, Some(later)).await;
    assert_eq!(store.next_due().await, Ok(Some(later)));
    let held = run(store).await;
    assert_eq!(store.next_due().await, Ok(Some(held.until)));
    store.release_lease(&held).await.expect("it is given up");
    let due = store.next_due().await.expect("it is known").expect("a run is due");
    assert!(due <= clock.now(), "{due} {}", clock.now());
    let mut lease = claim(store, "b").await.remove(0);
    let mut append = samples::append(&lease, vec![samples::step_started(1)]);
    append.status = RunStatus::Paused;
    write(store, &mut lease, append).await;
    assert_eq!(store.next_due().await, Ok(Some(later)));
}
