//! What a step costs on disk.

use loopforge_core::id::Seq;
use loopforge_store::sqlite::SqliteStore;
use loopforge_store::testing::samples;
use loopforge_store::{Appended, Durability, Store};

use crate::support::{add_step, place, run_of};

/// A decision of 300 bytes and a result of 2 KB cost at most 4 KB, and the same however long the run is.
#[tokio::test]
async fn a_step_costs_the_same_at_any_length() {
    let (_folder, path) = place();
    let size = || std::fs::metadata(&path).unwrap().len();
    drop(SqliteStore::open(&path).unwrap());
    let empty = size();
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 100).await;
    drop(store);
    let at_100 = (size() - empty) / 100;
    let store = SqliteStore::open(&path).unwrap();
    let mut lease = store.claim_run(lease.run, &samples::worker("a")).await.unwrap();
    for step in 101..=3_000 {
        assert_eq!(add_step(&store, &mut lease, step, Durability::Soft).await, Ok(Appended::Written));
    }
    drop(store);
    let at_3000 = (size() - empty) / 3_000;
    assert!(at_100 <= 4_096 && at_3000 <= 4_096, "{at_100} and {at_3000} bytes");
    assert!(at_3000 * 10 <= at_100 * 11, "{at_100} bytes at 100 steps, {at_3000} at 3000");
    // Of what the engine hands over, each part compressed by itself, it is at most one and a half times.
    let payload: usize = (1..=100).map(compressed_step).sum::<usize>() / 100;
    assert!(at_3000 <= payload as u64 * 3 / 2, "{at_3000} bytes for {payload}");
    assert_eq!(lease.head, Seq(15_001));
}

fn compressed_step(step: u64) -> usize {
    let (events, blobs) = samples::step(samples::new_run().id, step);
    let mut parts: Vec<Vec<u8>> = blobs.iter().map(|blob| blob.bytes.to_vec()).collect();
    parts.extend((1..).zip(events).map(|(seq, event)| serde_json::to_vec(&samples::record(seq, event)).unwrap()));
    parts.iter().map(|part| zstd::bulk::compress(part, 3).unwrap().len()).sum()
}
