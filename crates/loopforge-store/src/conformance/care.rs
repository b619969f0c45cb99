//! Moving, measuring and removing runs.

use std::sync::Arc;

use loopforge_core::id::{ContentHash, RunId, Seq};
use loopforge_core::json::Json;
use loopforge_core::payload::{Blob, BlobKind, Hole};
use loopforge_core::record::{ChangesAccepted, Event, RunStatus, TaskChange};
use uuid::Uuid;

use super::appends::{archive, run, write};
use crate::testing::{ManualClock, samples};
use crate::{Lease, Page, Pages, Pruned, RunInfo, RunSize, Store, StoreError};

/// Pages that are there already. Without `last` the reading of the page after them fails.
#[derive(Debug)]
struct Kept {
    pages: Vec<Page>,
    whole: bool,
}

impl Pages for Kept {
    fn page(&self, number: usize) -> Result<Option<Page>, StoreError> {
        match self.pages.get(number) {
            None if !self.whole => Err(StoreError::Unavailable("the file has gone".to_owned())),
            page => Ok(page.cloned()),
        }
    }
}

/// A run of `steps` steps, each with a write, a state value, and a blob of its own.
async fn worked_on(store: &dyn Store, steps: u64) -> Lease {
    let mut lease = run(store).await;
    for step in 1..=steps {
        let (mut events, blobs) = samples::step(lease.run, step);
        events.push(samples::state_saved("seen", Some("a"), Json::from(step)));
        let mut append = samples::append(&lease, events);
        (append.blobs, append.steps) = (blobs, step);
        write(store, &mut lease, append).await;
    }
    lease
}

/// Ends a run and gives it up.
async fn end(store: &dyn Store, lease: &mut Lease, status: RunStatus) {
    let mut append = samples::append(lease, vec![samples::state_saved("over", None, Json::Bool(true))]);
    append.status = status;
    write(store, lease, append).await;
    store.release_lease(lease).await.expect("it is given up");
}

/// What a run is made of, as another store would be given it, `size` records to a page.
async fn taken(store: &dyn Store, run: RunId, size: usize) -> (RunInfo, Vec<u8>, Vec<Page>) {
    let info = store.run(run).await.expect("it is there");
    let task = store.task(info.task).await.expect("its task is there");
    let mut pages = Vec::new();
    for records in archive(store, run).await.chunks(size) {
        let mut references = Vec::new();
        records.iter().for_each(|record| record.event.for_each_blob(&mut |blob| references.push(*blob)));
        let mut blobs = Vec::new();
        for reference in references {
            blobs.push(Blob::new(reference.kind, store.blob(&reference).await.expect("it is there")));
        }
        pages.push(Page { records: records.to_vec(), blobs });
    }
    (info, task, pages)
}

/// Everything about a run that an import must bring over.
async fn all_of(store: &dyn Store, run: RunId) -> impl PartialEq + std::fmt::Debug {
    let info = RunInfo { owner: None, ..store.run(run).await.expect("it is there") };
    (
        store.task(info.task).await,
        archive(store, run).await,
        store.state(run, None).await,
        store.effects(run).await,
        store.step_records(run, loopforge_core::id::StepNo(1)).await,
        info,
    )
}

/// A run that was taken out and removed comes back as it was, belongs to nobody, and goes on.
pub async fn import(store: &dyn Store) {
    let mut lease = worked_on(store, 3).await;
    end(store, &mut lease, RunStatus::Succeeded).await;
    let id = lease.run;
    let before = all_of(store, id).await;
    let (info, task, pages) = taken(store, id, 4).await;
    let again = Arc::new(Kept { pages: pages.clone(), whole: true });
    let exists = store.import_run(info.clone(), task.clone(), again.clone()).await;
    assert_eq!(exists, Err(StoreError::Exists(id)));
    store.prune(&[id], true).await.expect("it has ended");
    assert_eq!(store.run(id).await, Err(StoreError::NoRun(id)));

    store.import_run(info, task, again).await.expect("it is imported");
    assert_eq!(all_of(store, id).await, before);
    assert_eq!(store.run(id).await.expect("it is there").owner, None);
    assert_eq!(store.check().await, Ok(Vec::new()));
    let head = lease.head;
    let mut lease = store.claim_run(id, &samples::worker("b")).await.expect("nobody has it");
    assert_eq!((lease.head, lease.before.len()), (head, 0));
    let append = samples::append(&lease, vec![samples::step_started(4)]);
    write(store, &mut lease, append).await;
}

/// What is not a whole run leaves nothing behind.
pub async fn import_refused(store: &dyn Store) {
    let mut lease = worked_on(store, 2).await;
    end(store, &mut lease, RunStatus::Succeeded).await;
    let (info, task, pages) = taken(store, lease.run, 4).await;
    store.prune(&[lease.run], true).await.expect("it has ended");
    let id = RunId(Uuid::now_v7());
    let original = info.clone();
    let info = RunInfo { id, ..info };
    let refused = async |what: &str, info: RunInfo, task: &[u8], pages: Vec<Page>, whole: bool| {
        let error = store.import_run(info, task.to_vec(), Arc::new(Kept { pages, whole })).await.expect_err(what);
        assert_eq!(store.run(id).await, Err(StoreError::NoRun(id)), "{what}");
        assert_eq!(archive(store, id).await, Vec::new(), "{what}");
        error
    };
    let invalid = |error: StoreError| assert!(matches!(error, StoreError::Invalid(_)), "{error}");
    let gone = refused("a source that fails", info.clone(), &task, pages.clone(), false).await;
    assert_eq!(gone, StoreError::Unavailable("the file has gone".to_owned()));
    invalid(refused("no records", info.clone(), &task, Vec::new(), true).await);
    invalid(refused("the end is missing", info.clone(), &task, pages[..2].to_vec(), true).await);
    invalid(refused("a part is missing", info.clone(), &task, vec![pages[0].clone(), pages[2].clone()], true).await);
    invalid(refused("another task", info.clone(), b"task: another\n", pages.clone(), true).await);
    let other = RunInfo { task: ContentHash::of(b"another"), ..info.clone() };
    invalid(refused("another task by name", other, b"another", pages.clone(), true).await);
    // The effects of another run have these tokens.
    store
        .import_run(original, task.clone(), Arc::new(Kept { pages: pages.clone(), whole: true }))
        .await
        .expect("whole");
    let error = refused("tokens in use", info, &task, pages, true).await;
    assert!(matches!(error, StoreError::Duplicate { .. }), "{error}");
    assert_eq!(store.check().await, Ok(Vec::new()));
}

/// An accepted change of the task makes it the run's task, and both texts can be read.
pub async fn task_changed(store: &dyn Store) {
    let mut lease = run(store).await;
    let before = store.task(store.run(lease.run).await.expect("it is there").task).await.expect("its task is there");
    let text = |bytes: &[u8]| Blob::new(BlobKind::Text, bytes.to_vec());
    let (from, to) = (text(&before), text(format!("task: changed {}\n", lease.run).as_bytes()));
    let change = TaskChange { from: from.reference, to: to.reference, subgoals: Vec::new(), changes: Vec::new() };
    let event = Event::ChangesAccepted(ChangesAccepted { by: "ann".to_owned(), version: None, task: Some(change) });
    let mut append = samples::append(&lease, vec![event]);
    append.blobs = vec![from.clone(), to.clone()];
    write(store, &mut lease, append).await;
    let info = store.run(lease.run).await.expect("it is there");
    assert_eq!(info.task, to.reference.hash);
    assert_eq!(store.task(info.task).await.as_deref(), Ok(&*to.bytes));
    assert_eq!(store.blob(&from.reference).await.as_deref(), Ok(before.as_slice()));
    assert_eq!(store.check().await, Ok(Vec::new()));
    let (info, _, _) = taken(store, lease.run, 9).await;
    end(store, &mut lease, RunStatus::Failed).await;
    let (_, task, pages) = taken(store, lease.run, 1).await;
    store.prune(&[lease.run], true).await.expect("it has ended");
    let info = RunInfo { head: lease.head, ..info };
    store.import_run(info, task, Arc::new(Kept { pages, whole: true })).await.expect("it is imported");
}

/// The size of a run grows with what it holds, and an unknown run has none.
pub async fn size(store: &dyn Store) {
    let small = worked_on(store, 1).await;
    let large = worked_on(store, 20).await;
    let (small, large) = (store.size(small.run).await, store.size(large.run).await);
    let (small, large) = (small.expect("it is there"), large.expect("it is there"));
    assert!(small.records > 0 && large.records > 4 * small.records, "{small:?} {large:?}");
    assert!(small.blobs > 0 && large.blobs >= small.blobs, "{small:?} {large:?}");
    assert_eq!((small.checkpoints, small.total()), (0, small.records + small.blobs));
    let nobody = RunId(Uuid::now_v7());
    assert_eq!(store.size(nobody).await, Err(StoreError::NoRun(nobody)));
}

/// Ended runs are removed with what only they needed; what others need stays. Without `apply` nothing happens. Wants a
/// store that nobody else changes.
pub async fn prune(store: &dyn Store, clock: &ManualClock) {
    let shared = Blob::new(BlobKind::Text, format!("shared by two {}", Uuid::new_v4()).into_bytes());
    let own = Blob::new(BlobKind::Text, format!("of one alone {}", Uuid::new_v4()).into_bytes());
    let (mut gone, mut kept) = (worked_on(store, 2).await, worked_on(store, 2).await);
    for (lease, blobs) in [(&mut gone, vec![shared.clone(), own.clone()]), (&mut kept, vec![shared.clone()])] {
        let saved = blobs.iter().map(page_saved).collect();
        let mut append = samples::append(lease, saved);
        append.blobs = blobs;
        write(store, lease, append).await;
    }
    let refused = store.prune(&[gone.run], true).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    clock.advance(gone.ttl);
    let refused = store.prune(&[gone.run], true).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "not ended: {refused:?}");
    let mut lease = store.claim_run(gone.run, &samples::worker("a")).await.expect("it ran out");
    end(store, &mut lease, RunStatus::Cancelled).await;
    let mut kept = store.claim_run(kept.run, &samples::worker("a")).await.expect("it ran out");
    let before = (all_of(store, gone.run).await, all_of(store, kept.run).await);

    let expected = store.prune(&[gone.run], false).await.expect("it has ended");
    assert_eq!((all_of(store, gone.run).await, all_of(store, kept.run).await), before, "nothing was changed");
    assert_eq!(store.blob(&own.reference).await.as_deref(), Ok(&*own.bytes));
    let pruned = store.prune(&[gone.run, gone.run], true).await.expect("it has ended");
    assert_eq!(pruned, expected);
    assert_eq!((pruned.runs, pruned.records), (1, lease.head.0));
    assert!(pruned.blobs >= 1 && pruned.bytes > 0, "{pruned:?}");

    assert_eq!(store.run(gone.run).await, Err(StoreError::NoRun(gone.run)));
    assert_eq!(store.prune(&[gone.run], true).await, Err(StoreError::NoRun(gone.run)));
    assert_eq!(archive(store, gone.run).await, Vec::new());
    assert!(matches!(store.blob(&own.reference).await, Err(StoreError::Corrupt(_))));
    assert_eq!(store.blob(&shared.reference).await.as_deref(), Ok(&*shared.bytes));
    assert_eq!(all_of(store, kept.run).await, before.1);
    assert_eq!(store.prune(&[], true).await, Ok(Pruned::default()), "nothing is left to remove");
    assert_eq!(store.check().await, Ok(Vec::new()));
    let append = samples::append(&kept, vec![samples::step_started(3)]);
    write(store, &mut kept, append).await;
}

/// Of an ended run the newest checkpoint stays; of one that goes on, as many as it had. Wants a store that nobody else
/// changes.
pub async fn old_checkpoints(store: &dyn Store) {
    let mut leases = [worked_on(store, 1).await, worked_on(store, 1).await];
    for lease in &mut leases {
        for seq in 1..=2 {
            let kept = crate::StoredCheckpoint { seq: Seq(seq), at: samples::NOON, bytes: vec![7; 500] };
            store.save_checkpoint(lease, kept).await.expect("it is kept");
        }
    }
    let [open, mut ended] = leases;
    let size = async |run: RunId| store.size(run).await.expect("it is there").checkpoints;
    let two = size(open.run).await;
    end(store, &mut ended, RunStatus::Succeeded).await;
    let pruned = store.prune(&[], true).await.expect("nothing is in the way");
    assert_eq!(pruned.checkpoints, 1);
    assert_eq!(size(open.run).await, two);
    assert_eq!(size(ended.run).await * 2, two);
    let newest = store.load_checkpoint(ended.run).await.expect("it is read").expect("it is there");
    assert_eq!(newest.seq, Seq(2));
    assert!(matches!(store.size(ended.run).await, Ok(RunSize { .. })));
}

/// A value that is a blob as a whole enters state.
fn page_saved(blob: &Blob) -> Event {
    let Event::StateSaved(mut saved) = samples::state_saved("page", None, Json::Null) else {
        unreachable!("the sample is that event");
    };
    saved.value.holes.push(Hole { at: String::new(), blob: blob.reference });
    Event::StateSaved(saved)
}
