//! Who may write to a run.

use std::time::Duration;

use loopforge_core::id::RunId;
use uuid::Uuid;

use super::appends::{run, write};
use crate::testing::{ManualClock, samples};
use crate::{Appended, Store, StoreError, StoredCheckpoint, Worker};

/// A live lease keeps others out, and says whose it is and until when.
pub async fn held(store: &dyn Store, clock: &ManualClock) {
    let lease = run(store).await;
    let ttl = samples::worker("a").lease_ttl;
    assert_eq!(lease.until, clock.now().after(ttl));
    let held = StoreError::Held {
        run: lease.run,
        owner: "a".to_owned(),
        worker_id: samples::worker("a").id,
        until: lease.until,
    };
    assert_eq!(store.claim_run(lease.run, &samples::worker("b")).await, Err(held.clone()));
    clock.advance(ttl - Duration::from_micros(1));
    assert_eq!(store.claim_run(lease.run, &samples::worker("b")).await, Err(held));
    let nobody = RunId(Uuid::now_v7());
    assert_eq!(store.claim_run(nobody, &samples::worker("b")).await, Err(StoreError::NoRun(nobody)));
}

/// The same worker gets a new lease while its old one is live; the old one is void then.
pub async fn claimed_again(store: &dyn Store) {
    let old = run(store).await;
    let relabelled = Worker { label: "other words".to_owned(), ..samples::worker("a") };
    let new = store.claim_run(old.run, &relabelled).await.expect("the same worker");
    assert_eq!((new.epoch, new.head), (old.epoch + 1, old.head));
    assert_ne!(new.id, old.id);
    let append = samples::append(&old, vec![samples::step_started(1)]);
    assert_eq!(store.append(&old, append).await, Ok(Appended::Fenced));
    assert_eq!(store.renew_lease(&old, old.ttl).await, Err(StoreError::LeaseLost(old.run)));
}

/// A lease that ran out is there for anybody; its owner comes back fenced off.
pub async fn taken_over(store: &dyn Store, clock: &ManualClock) {
    let mut old = run(store).await;
    let append = samples::append(&old, vec![samples::step_started(1)]);
    write(store, &mut old, append).await;
    clock.advance(old.ttl);
    assert_eq!(store.run(old.run).await.expect("it is there").owner, None, "a lease runs out by itself");
    let new = store.claim_run(old.run, &samples::worker("b")).await.expect("it ran out");
    assert_eq!((new.epoch, new.head), (old.epoch + 1, old.head));
    let append = samples::append(&old, vec![samples::step_evaluated(1)]);
    assert_eq!(store.append(&old, append).await, Ok(Appended::Fenced));
    assert_eq!(store.renew_lease(&old, old.ttl).await, Err(StoreError::LeaseLost(old.run)));
    let checkpoint = StoredCheckpoint { seq: old.head, at: samples::NOON, bytes: vec![1] };
    assert_eq!(store.save_checkpoint(&old, checkpoint).await, Err(StoreError::LeaseLost(old.run)));
    assert_eq!(store.load_checkpoint(old.run).await, Ok(None), "nothing was written");
    store.release_lease(&old).await.expect("giving up a void lease is no error");
    let owner = store.run(new.run).await.expect("it is there").owner;
    let owner = owner.map(|owner| owner.id);
    assert_eq!(owner, Some(samples::worker("b").id), "the new lease is untouched");
}

/// A claim tells who had the run before and never gave it up, until somebody appends; not those whose end is known.
pub async fn workers_before(store: &dyn Store, clock: &ManualClock) {
    let first = run(store).await;
    assert_eq!(first.before, [] as [&str; 0]);
    let claim = async |name: &str| store.claim_run(first.run, &samples::worker(name)).await.expect("it is free");
    clock.advance(first.ttl);
    assert_eq!(claim("b").await.before, ["a-1"]);
    assert_eq!(claim("b").await.before, ["a-1"], "nobody has appended");
    clock.advance(first.ttl);
    let mut third = claim("c").await;
    assert_eq!(third.before, ["a-1", "b-1"]);
    let append = samples::append(&third, vec![samples::step_started(1)]);
    write(store, &mut third, append).await;
    clock.advance(third.ttl);
    let fourth = claim("d").await;
    assert_eq!(fourth.before, ["c-1"], "what was before the append is settled");
    store.release_lease(&fourth).await.expect("it is given up");
    assert_eq!(claim("e").await.before, ["c-1"], "one that gave it up left nothing behind");
    store.void_lease(first.run, "e-1").await.expect("it is voided");
    assert_eq!(claim("f").await.before, ["c-1"], "one that is dead as a whole is known about");
}

/// Renewals and appends keep a lease alive; one that ran out comes to life again if nobody took the run.
pub async fn renewed(store: &dyn Store, clock: &ManualClock) {
    let mut lease = run(store).await;
    let half = lease.ttl / 2;
    clock.advance(half);
    assert_eq!(store.renew_lease(&lease, lease.ttl).await, Ok(clock.now().after(lease.ttl)));
    clock.advance(half);
    clock.advance(half / 2);
    let append = samples::append(&lease, vec![samples::step_started(1)]);
    write(store, &mut lease, append).await;
    let owner = store.run(lease.run).await.expect("it is there").owner.expect("the append extended it");
    assert_eq!(owner.until, clock.now().after(lease.ttl));
    clock.advance(lease.ttl * 2);
    assert_eq!(store.renew_lease(&lease, lease.ttl).await, Ok(clock.now().after(lease.ttl)));
    assert!(matches!(store.claim_run(lease.run, &samples::worker("b")).await, Err(StoreError::Held { .. })));
    let nobody = crate::Lease { run: RunId(Uuid::now_v7()), ..lease };
    assert_eq!(store.renew_lease(&nobody, nobody.ttl).await, Err(StoreError::NoRun(nobody.run)));
}

/// A lease that was given up is void, and the run is free at once.
pub async fn released(store: &dyn Store) {
    let lease = run(store).await;
    store.release_lease(&lease).await.expect("it is given up");
    store.release_lease(&lease).await.expect("twice is no error");
    assert_eq!(store.run(lease.run).await.expect("it is there").owner, None);
    let append = samples::append(&lease, vec![samples::step_started(1)]);
    assert_eq!(store.append(&lease, append).await, Ok(Appended::Fenced));
    assert_eq!(store.renew_lease(&lease, lease.ttl).await, Err(StoreError::LeaseLost(lease.run)));
    let new = store.claim_run(lease.run, &samples::worker("b")).await.expect("it is free");
    assert_eq!(new.epoch, lease.epoch + 1);
}

/// The lease of a worker that is known to be dead can be voided; that of another worker is untouched by it.
pub async fn voided(store: &dyn Store) {
    let lease = run(store).await;
    store.void_lease(lease.run, &samples::worker("b").id).await.expect("another's changes nothing");
    assert_eq!(store.renew_lease(&lease, lease.ttl).await.map(|_| ()), Ok(()));
    store.void_lease(lease.run, &samples::worker("a").id).await.expect("it is voided");
    store.void_lease(lease.run, &samples::worker("a").id).await.expect("twice is no error");
    let append = samples::append(&lease, vec![samples::step_started(1)]);
    assert_eq!(store.append(&lease, append).await, Ok(Appended::Fenced));
    let new = store.claim_run(lease.run, &samples::worker("b")).await.expect("it is free");
    assert_eq!(new.epoch, lease.epoch + 1);
}

/// The newest checkpoint is loaded, one of the same record is replaced, and one of a record that isn't there is
/// refused.
pub async fn checkpoints(store: &dyn Store) {
    let mut lease = run(store).await;
    assert_eq!(store.load_checkpoint(lease.run).await, Ok(None));
    for step in 1..=5 {
        let append = samples::append(&lease, vec![samples::step_started(step)]);
        write(store, &mut lease, append).await;
        let bytes = vec![u8::try_from(step).unwrap_or(0); 4_000];
        let checkpoint = StoredCheckpoint { seq: lease.head, at: samples::NOON, bytes };
        store.save_checkpoint(&lease, checkpoint.clone()).await.expect("it is kept");
        assert_eq!(store.load_checkpoint(lease.run).await, Ok(Some(checkpoint)));
    }
    let again = StoredCheckpoint { seq: lease.head, at: samples::NOON, bytes: b"again".to_vec() };
    store.save_checkpoint(&lease, again.clone()).await.expect("it is kept");
    assert_eq!(store.load_checkpoint(lease.run).await, Ok(Some(again.clone())));
    let ahead = StoredCheckpoint { seq: lease.head.next(), at: samples::NOON, bytes: Vec::new() };
    assert!(matches!(store.save_checkpoint(&lease, ahead).await, Err(StoreError::Invalid(_))));
    assert_eq!(store.load_checkpoint(lease.run).await, Ok(Some(again)));
    let nobody = RunId(Uuid::now_v7());
    assert_eq!(store.load_checkpoint(nobody).await, Err(StoreError::NoRun(nobody)));
}
