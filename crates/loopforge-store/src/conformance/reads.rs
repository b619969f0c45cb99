//! Reading records and runs.

use loopforge_core::id::{ContentHash, RunId, Seq, StepNo};
use loopforge_core::payload::{Blob, BlobKind};
use uuid::Uuid;

use super::appends::{archive, run, write};
use crate::testing::samples;
use crate::{Store, StoreError};

/// Records come in order and in pages; none is left out or told twice.
pub async fn pages(store: &dyn Store) {
    let mut lease = run(store).await;
    for step in 1..=7 {
        let append = samples::append(&lease, vec![samples::step_started(step), samples::step_evaluated(step)]);
        write(store, &mut lease, append).await;
    }
    let all = archive(store, lease.run).await;
    assert_eq!(all.iter().map(|record| record.seq.0).collect::<Vec<_>>(), (1..=15).collect::<Vec<_>>());
    let mut paged = Vec::new();
    while let Ok(page) = store.records(lease.run, Seq(paged.len() as u64), 4).await {
        assert!(page.len() <= 4);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert_eq!(store.records(lease.run, Seq(15), 4).await, Ok(Vec::new()));
    assert_eq!(store.records(lease.run, Seq(u64::MAX), 4).await, Ok(Vec::new()));
    assert_eq!(store.records(lease.run, Seq(0), 0).await, Ok(Vec::new()));
    assert_eq!(store.records(RunId(Uuid::now_v7()), Seq(0), 9).await, Ok(Vec::new()));
}

/// A step's records are found, also where steps overlap and where one comes early or late.
pub async fn steps(store: &dyn Store) {
    let mut lease = run(store).await;
    let events = vec![
        samples::step_started(1),
        samples::step_started(2),
        samples::action_started(lease.run, 1, None),
        samples::step_evaluated(1),
        samples::step_evaluated(2),
        samples::action_unknown(1),
        samples::action_unknown(3),
        samples::step_started(3),
    ];
    let append = samples::append(&lease, events);
    write(store, &mut lease, append).await;
    for (step, expected) in [(1, vec![2, 4, 5, 7]), (2, vec![3, 6]), (3, vec![8, 9]), (4, vec![])] {
        let records = store.step_records(lease.run, StepNo(step)).await.expect("they are read");
        assert_eq!(records.iter().map(|record| record.seq.0).collect::<Vec<_>>(), expected, "step {step}");
    }
    assert_eq!(store.step_records(RunId(Uuid::now_v7()), StepNo(1)).await, Ok(Vec::new()));
}

/// Runs are listed, the newest first. The store may hold others, older than these.
pub async fn runs(store: &dyn Store) {
    let mut ids = Vec::new();
    for days in 1..=3 {
        let mut new = samples::new_run();
        new.at = samples::NOON.after(std::time::Duration::from_secs(days * 86_400));
        ids.push(new.id);
        store.create_run(new, &samples::worker("a")).await.expect("a run is created");
    }
    ids.reverse();
    let listed = store.runs(3).await.expect("they are listed");
    assert_eq!(listed.iter().map(|run| run.id).collect::<Vec<_>>(), ids);
    for info in listed {
        assert_eq!(store.run(info.id).await, Ok(info));
    }
    assert_eq!(store.runs(0).await, Ok(Vec::new()));
    let nobody = RunId(Uuid::now_v7());
    assert_eq!(store.run(nobody).await, Err(StoreError::NoRun(nobody)));
}

/// What should be there by its hash and isn't is an error, never an empty answer.
pub async fn missing_content(store: &dyn Store) {
    let blob = Blob::new(BlobKind::Text, Uuid::new_v4().to_string().into_bytes());
    assert!(matches!(store.blob(&blob.reference).await, Err(StoreError::Corrupt(_))));
    let task = ContentHash::of(Uuid::new_v4().as_bytes());
    assert!(matches!(store.task(task).await, Err(StoreError::Corrupt(_))));
}

/// A sound store has no findings.
pub async fn sound(store: &dyn Store) {
    let mut lease = run(store).await;
    let (events, blobs) = samples::step(lease.run, 1);
    let mut append = samples::append(&lease, events);
    append.blobs = blobs;
    write(store, &mut lease, append).await;
    assert_eq!(store.check().await, Ok(Vec::new()));
}
