//! When the disk or another process does not play along: the right cause is named, and work goes on once it is gone.

use std::sync::Arc;
use std::time::Duration;

use loopforge_core::json::Json;
use loopforge_core::payload::{Blob, BlobKind};
use loopforge_store::sqlite::{Options, SqliteStore};
use loopforge_store::testing::{Fault, Faulty, samples};
use loopforge_store::{Append, Appended, Durability, Lease, Store, StoreError};
use rusqlite::Connection;

use crate::support::{Disk, add_step, archive, beside, place, run_of};

fn impatient() -> Options {
    let mut options = Options::default();
    options.busy_timeout = Duration::from_millis(50);
    options
}

/// An append with bytes that don't compress.
fn large(lease: &Lease, seed: u64, size: usize) -> Append {
    // Different for each seed: equal content is stored once.
    let mut state = seed * 2 + 1;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(size)
    .collect();
    let mut append = samples::append(lease, vec![samples::state_saved("n", None, Json::from(seed))]);
    append.blobs = vec![Blob::new(BlobKind::Bytes, bytes)];
    append
}

#[tokio::test]
async fn a_lock_of_another_process_is_told_and_passes() {
    let (_folder, path) = place();
    let store = SqliteStore::open_with(&path, impatient()).unwrap();
    let mut lease = run_of(&store, 1).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let error = add_step(&store, &mut lease, 2, Durability::Hard).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(message) if message.contains("locked")), "{error}");
    assert!(error.is_transient());
    assert_eq!(archive(&store, lease.run).await.unwrap().len(), 6, "reading goes on");
    other.execute_batch("rollback").unwrap();
    assert_eq!(add_step(&store, &mut lease, 2, Durability::Hard).await, Ok(Appended::Written));
}

#[tokio::test]
async fn a_limit_of_pages_is_full_and_nothing_is_written_by_halves() {
    let (_folder, path) = place();
    let mut options = Options::default();
    options.max_pages = Some(80);
    let store = SqliteStore::open_with(&path, options).unwrap();
    let mut lease = run_of(&store, 1).await;
    let error = store.append(&lease, large(&lease, 1, 1 << 20)).await.unwrap_err();
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert_eq!(archive(&store, lease.run).await.unwrap().len(), 6);
    assert_eq!(add_step(&store, &mut lease, 2, Durability::Hard).await, Ok(Appended::Written), "small ones fit still");
    assert_eq!(store.check().await, Ok(Vec::new()));
}

/// One that doesn't fit fails alone, also when it shares a transaction with others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_too_large_spoils_no_other() {
    let (_folder, path) = place();
    let mut options = Options::default();
    options.max_pages = Some(400);
    let store = Arc::new(SqliteStore::open_with(&path, options).unwrap());
    let mut calls = Vec::new();
    for number in 0..40 {
        let lease = run_of(&*store, 0).await;
        calls.push((number, lease));
    }
    let calls: Vec<_> = calls
        .into_iter()
        .map(|(number, mut lease)| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                if number % 10 == 0 {
                    store.append(&lease, large(&lease, number, 4 << 20)).await
                } else {
                    add_step(&*store, &mut lease, number, Durability::Hard).await
                }
            })
        })
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Err(StoreError::Full(_)) => assert_eq!(number % 10, 0),
            result => assert!(result == Ok(Appended::Written) && number % 10 != 0, "{number}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn a_full_disk_is_told_and_work_goes_on_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(folder.path(), "2m") else {
        eprintln!("this process may not mount a small disk; the limit of pages is tested all the same");
        return;
    };
    let store = SqliteStore::open(&folder.path().join("store.db")).unwrap();
    let mut lease = run_of(&store, 1).await;
    let mut full = 0;
    for number in 0..40 {
        match store.append(&lease, large(&lease, number, 100_000)).await {
            Ok(appended) => {
                assert_eq!(appended, Appended::Written);
                lease.head = lease.head.next();
            }
            Err(StoreError::Full(_)) => full += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(full > 10, "the disk was full for a while: {full}");
    let records = archive(&store, lease.run).await.unwrap();
    assert_eq!(records.last().map(|record| record.seq), Some(lease.head));
    disk.resize("20m");
    assert_eq!(store.append(&lease, large(&lease, 99, 100_000)).await, Ok(Appended::Written));
    assert_eq!(store.check().await, Ok(Vec::new()));
    drop(store);
    drop(disk);
}

#[tokio::test]
async fn a_disk_that_can_only_be_read_is_told_and_can_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let disk = Disk::mount(folder.path(), "4m");
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 2).await;
    drop(store);
    match &disk {
        Some(disk) => disk.make_read_only(),
        None => set_mode(folder.path(), 0o500),
    }
    let Err(error) = SqliteStore::open(&path) else { panic!("it opened") };
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
    let Err(error) = SqliteStore::open(&folder.path().join("new.db")) else { panic!("it was made") };
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
    let looker = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(archive(&looker, lease.run).await.unwrap().len(), 11);
    assert_eq!(looker.check().await, Ok(Vec::new()));
    set_mode(folder.path(), 0o700);
}

fn set_mode(folder: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    // It fails on a mount that is read-only, where it isn't needed.
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode));
}

/// A long read lets the log grow; once it has ended, the log is written back and cut.
#[tokio::test]
async fn the_log_is_bounded_once_readers_have_gone() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let mut lease = run_of(&store, 1).await;
    let size = || std::fs::metadata(beside(&path, "-wal")).unwrap().len();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("begin; select count(*) from record;").unwrap();
    let write = async |lease: &mut Lease, numbers: std::ops::Range<u64>| {
        for number in numbers {
            assert_eq!(store.append(lease, large(lease, number, 500_000)).await, Ok(Appended::Written));
            lease.head = lease.head.next();
        }
    };
    write(&mut lease, 1..61).await;
    assert!(size() > 25 << 20, "{}", size());
    reader.execute_batch("rollback").unwrap();
    write(&mut lease, 61..121).await;
    assert!(size() < 20 << 20, "{}", size());
}

/// What was acknowledged is in the files, also if this process ends without closing them.
#[tokio::test]
async fn an_acknowledged_append_needs_no_closing() {
    let (folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 5).await;
    let copy = folder.path().join("copy.db");
    crate::support::copy(&path, &copy);
    let copied = SqliteStore::open(&copy).unwrap();
    assert_eq!(archive(&copied, lease.run).await, archive(&store, lease.run).await);
    assert_eq!(copied.check().await, Ok(Vec::new()));
}

/// Callers that give up leave all or nothing, and the store at work. Dropping the store writes what is waiting.
#[tokio::test]
async fn calls_that_are_given_up_leave_all_or_nothing() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let mut lease = run_of(&store, 0).await;
    for step in 1..=20 {
        let before = lease.head;
        let call = add_step(&store, &mut lease, step, Durability::Soft);
        let given_up = tokio::time::timeout(Duration::from_micros(step * 20), call).await.is_err();
        if given_up {
            // Whatever is waiting is done before the next operation.
            let head = store.claim_run(lease.run, &samples::worker("a")).await.unwrap();
            assert!(head.head == before || head.head.0 == before.0 + 5, "{} after {before}", head.head);
            lease = head;
        }
    }
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.check().await, Ok(Vec::new()));
}

/// The faulty store fails as it is told to; a lost acknowledgement is found out by repeating.
#[tokio::test]
async fn faults_are_injected_in_turn() {
    let store = Faulty::new(loopforge_store::memory::MemoryStore::new());
    let lease = run_of(&store, 0).await;
    let error = StoreError::Unavailable("by plan".to_owned());
    store.plan([Fault::BeforeCommit(error.clone()), Fault::AfterCommit(error.clone())]);
    let append = samples::append(&lease, vec![samples::step_started(1)]);
    assert_eq!(store.append(&lease, append.clone()).await, Err(error.clone()));
    assert_eq!(archive(store.inner(), lease.run).await.unwrap().len(), 1);
    assert_eq!(store.append(&lease, append.clone()).await, Err(error));
    assert_eq!(store.append(&lease, append).await, Ok(Appended::AlreadyMine));
    assert_eq!(archive(store.inner(), lease.run).await.unwrap().len(), 2);
}

/// Makes sure that nothing is written while another file, or none, is where the store's was.
async fn assert_refused(store: &SqliteStore, lease: &mut Lease) {
    for durability in [Durability::Soft, Durability::Hard] {
        let error = add_step(store, lease, 2, durability).await.unwrap_err();
        let StoreError::Corrupt(problem) = &error else { panic!("{error}") };
        assert!(problem.contains("was removed or replaced while it was open"), "{problem}");
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_store_that_is_removed_while_it_is_open_takes_nothing_more() {
    let (folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let mut lease = run_of(&store, 1).await;
    std::fs::remove_dir_all(folder.path()).unwrap();
    assert_refused(&store, &mut lease).await;
    assert!(!path.exists(), "it is not made anew either");
}

#[tokio::test]
async fn a_store_that_is_replaced_while_it_is_open_takes_nothing_more_until_it_is_back() {
    let (folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let mut lease = run_of(&store, 1).await;
    let (other, aside) = (folder.path().join("other.db"), folder.path().join("aside.db"));
    drop(SqliteStore::open(&other).unwrap());
    std::fs::hard_link(&path, &aside).unwrap();
    let untouched = std::fs::read(&other).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_refused(&store, &mut lease).await;
    assert_eq!(std::fs::read(&path).unwrap(), untouched);
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(add_step(&store, &mut lease, 2, Durability::Hard).await, Ok(Appended::Written));
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(archive(&store, lease.run).await.unwrap().len(), 11);
}
