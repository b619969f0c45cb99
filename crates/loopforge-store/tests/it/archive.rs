//! Archives of earlier versions stay readable, whatever becomes of this one.
//!
//! The files in `tests/archives/` are never edited; a new format gets a folder of its own. `records.jsonl` has the
//! records as they are exported, `rows.sql` the same as rows of a database. A kind that is unknown is an error by name.
//! A field that is unknown is passed over: within a format fields are only added, with a default, so what was written
//! before still means the same.

use std::path::PathBuf;

use loopforge_core::id::{RunId, Seq};
use loopforge_core::json::Json;
use loopforge_core::payload::{Blob, BlobKind};
use loopforge_core::record::Record;
use loopforge_store::sqlite::SqliteStore;
use loopforge_store::{EffectState, NewRun, Store, StoreError};
use rusqlite::Connection;
use uuid::Uuid;

use crate::support::place;

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/archives/1").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn run_id() -> RunId {
    RunId(Uuid::from_u128(0x0193_8000_0000_7000_8000_0000_0000_0001))
}

fn records() -> Vec<Record> {
    file("records.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A database as the first version left it, with a run in it.
fn yesterday(path: &std::path::Path) -> Connection {
    let first = include_str!("../../migrations/sqlite/0001_archive.sql");
    let database = Connection::open(path).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.execute_batch(first).unwrap();
    let hash = loopforge_core::id::ContentHash::of(first.as_bytes()).0;
    database.execute("insert into migration (number, name, hash) values (1, 'archive', ?1)", [hash]).unwrap();
    database.pragma_update(None, "application_id", 0x4c46_7267).unwrap();
    database.execute_batch(&file("rows.sql")).unwrap();
    database
}

#[test]
fn exported_records_are_read_and_written_as_they_stand() {
    let mut kinds = Vec::new();
    for line in file("records.jsonl").lines() {
        let record: Record = serde_json::from_str(line).unwrap();
        let written: Json = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(written, serde_json::from_str::<Json>(line).unwrap());
        kinds.push(record.event.kind());
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 26, "every kind of format 1 is there");
}

#[tokio::test]
async fn a_database_of_format_1_gives_the_same_records() {
    let (_folder, path) = place();
    drop(yesterday(&path));
    // To be looked at it needn't be brought up to date.
    let looked = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(looked.records(run_id(), Seq(0), usize::MAX).await.unwrap(), records());
    assert_eq!(looked.runs(9).await.unwrap().len(), 1);
    drop(looked);
    let store = SqliteStore::open(&path).unwrap();
    let read = store.records(run_id(), Seq(0), usize::MAX).await.unwrap();
    for (read, expected) in read.iter().zip(records()) {
        assert_eq!(*read, expected, "record {}", expected.seq);
    }
    assert_eq!(read.len(), records().len());
    assert_eq!(store.check().await, Ok(Vec::new()));
    let task = store.run(run_id()).await.unwrap().task;
    assert_eq!(store.task(task).await.as_deref(), Ok(file("task.yaml").as_bytes()));
    let blob = Blob::new(BlobKind::Text, file("blob.txt").into_bytes());
    assert_eq!(store.blob(&blob.reference).await.as_deref(), Ok(&*blob.bytes));
    let effects = store.effects(run_id()).await.unwrap();
    assert_eq!(
        effects.iter().map(|effect| (effect.state, effect.attempts)).collect::<Vec<_>>(),
        [(EffectState::Failed, 2)]
    );
}

/// What is imported from an export is the same again.
#[tokio::test]
async fn exported_records_can_be_stored_anew() {
    let (_folder, path) = place();
    let stores: [Box<dyn Store>; 2] =
        [Box::new(SqliteStore::open(&path).unwrap()), Box::new(loopforge_store::memory::MemoryStore::new())];
    for store in stores {
        let run = NewRun {
            id: run_id(),
            name: "orders".to_owned(),
            task: file("task.yaml").into_bytes(),
            workspace: "/srv/runs/orders".to_owned(),
            base: "/srv/tasks".to_owned(),
            at: loopforge_store::testing::samples::NOON,
            records: records(),
            blobs: vec![Blob::new(BlobKind::Text, file("blob.txt").into_bytes())],
        };
        store.create_run(run, &loopforge_store::testing::samples::worker("a")).await.unwrap();
        assert_eq!(store.records(run_id(), Seq(0), usize::MAX).await.unwrap(), records());
        assert_eq!(store.check().await, Ok(Vec::new()));
    }
}

#[test]
fn unknown_kinds_are_named_and_unknown_fields_passed_over() {
    let line = file("records.jsonl").lines().nth(25).unwrap().to_owned();
    let unknown = line.replace("limit_reached", "limit_moved");
    let error = serde_json::from_str::<Record>(&unknown).unwrap_err().to_string();
    assert!(error.contains("limit_moved"), "{error}");
    let more = line.replace("\"limit\":", "\"since\":7,\"limit\":");
    assert_ne!(more, line);
    assert_eq!(serde_json::from_str::<Record>(&more).unwrap(), serde_json::from_str(&line).unwrap());
}

/// A kind of a later format, in a row that claims to be of this one, stops that run and is no default.
#[tokio::test]
async fn a_row_of_an_unknown_kind_is_damage() {
    let (_folder, path) = place();
    let database = yesterday(&path);
    database.execute("update record set kind = 99 where seq = 3", []).unwrap();
    drop(database);
    let store = SqliteStore::open(&path).unwrap();
    let error = store.records(run_id(), Seq(0), usize::MAX).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(message) if message.contains("record 3")), "{error}");
}
