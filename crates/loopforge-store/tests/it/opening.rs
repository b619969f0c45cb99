//! Opening a file: whose is it, and does this program know it?

use std::sync::{Arc, Barrier};

use loopforge_store::sqlite::SqliteStore;
use loopforge_store::{Store, StoreError};
use rusqlite::Connection;

use crate::support::{archive, place, run_of};

#[test]
fn the_sqlite_inside_is_not_one_that_damages_databases() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[tokio::test]
async fn what_was_written_is_there_after_opening_again() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 3).await;
    let before = archive(&store, lease.run).await.unwrap();
    drop(store);
    assert!(!path.with_extension("db-wal").exists(), "the last one to close puts the log away");
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(archive(&store, lease.run).await.unwrap(), before);
    assert_eq!(store.check().await, Ok(Vec::new()));
}

#[test]
fn files_of_others_are_refused_and_untouched() {
    let (folder, path) = place();
    std::fs::write(&path, "a diary, and no database at all, but long enough to look like one ".repeat(20)).unwrap();
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("create table cats (name text)").unwrap();
    for path in [path, other] {
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(SqliteStore::open(&path), Err(StoreError::NotAStore(_))), "{}", path.display());
        assert!(matches!(SqliteStore::open_read_only(&path), Err(StoreError::NotAStore(_))));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing was left beside them");
}

#[test]
fn an_empty_file_becomes_a_store() {
    let (_folder, path) = place();
    std::fs::write(&path, "").unwrap();
    assert!(matches!(SqliteStore::open_read_only(&path), Err(StoreError::NotAStore(_))));
    SqliteStore::open(&path).unwrap();
    SqliteStore::open_read_only(&path).unwrap();
}

#[test]
fn a_missing_folder_is_named() {
    let (folder, _) = place();
    let path = folder.path().join("none").join("store.db");
    let Err(StoreError::Unavailable(message)) = SqliteStore::open(&path) else { panic!("it opened") };
    assert!(message.contains("none"), "{message}");
    assert!(matches!(SqliteStore::open_read_only(&path), Err(StoreError::Unavailable(_))));
    assert!(!path.parent().unwrap().exists());
}

#[test]
fn a_later_version_is_refused_with_both_numbers() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    let database = Connection::open(&path).unwrap();
    database.execute("insert into migration values (9, 'fleet', x'00')", []).unwrap();
    drop(database);
    let before = std::fs::read(&path).unwrap();
    let newer = StoreError::Newer { found: "version 9 (fleet)".to_owned(), known: "versions up to 5".to_owned() };
    assert_eq!(SqliteStore::open(&path).unwrap_err(), newer);
    assert_eq!(SqliteStore::open_read_only(&path).unwrap_err(), newer);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn tables_of_another_make_are_refused() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute("update migration set hash = x'00'", []).unwrap();
    assert!(matches!(SqliteStore::open(&path), Err(StoreError::Corrupt(_))));
}

#[test]
fn many_may_make_the_same_store_at_once() {
    let (_folder, path) = place();
    let start = Arc::new(Barrier::new(6));
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let (path, start) = (path.clone(), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                SqliteStore::open(&path).map(drop)
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn a_looker_sees_what_is_written_meanwhile_and_writes_nothing() {
    let (_folder, path) = place();
    assert!(SqliteStore::open_read_only(&path).is_err());
    assert!(!path.exists(), "looking makes no store");
    let store = SqliteStore::open(&path).unwrap();
    let looker = SqliteStore::open_read_only(&path).unwrap();
    let lease = run_of(&store, 2).await;
    assert_eq!(archive(&looker, lease.run).await, archive(&store, lease.run).await);
    let worker = loopforge_store::testing::samples::worker("b");
    assert!(matches!(looker.claim_run(lease.run, &worker).await, Err(StoreError::ReadOnly(_))));
    drop(store);
    assert_eq!(archive(&looker, lease.run).await.unwrap().len(), 11, "also when the writer has gone");
}
