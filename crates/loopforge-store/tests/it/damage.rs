//! Damaged files: what is whole is loaded, the rest is named, and nothing stands in for what can't be read.

use std::path::{Path, PathBuf};

use loopforge_core::id::{RunId, Seq};
use loopforge_core::record::Record;
use loopforge_store::sqlite::SqliteStore;
use loopforge_store::testing::samples;
use loopforge_store::{Appended, Durability, Store, StoreError, StoredCheckpoint};
use rusqlite::Connection;

use crate::support::{add_step, archive, beside, copy, place, run_of};

/// Overwrites one byte, after `offset`, of the place in the file where `content` stands.
fn flip(path: &Path, content: &[u8], offset: usize) {
    let mut file = std::fs::read(path).unwrap();
    let place = file.windows(content.len()).position(|window| window == content).expect("it stands in one piece");
    file[place + offset] ^= 0x10;
    std::fs::write(path, file).unwrap();
}

fn column(path: &Path, sql: &str) -> Vec<u8> {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

async fn stored(path: &Path, steps: u64) -> (RunId, Vec<Record>) {
    let store = SqliteStore::open(path).unwrap();
    let lease = run_of(&store, steps).await;
    (lease.run, archive(&store, lease.run).await.unwrap())
}

#[tokio::test]
async fn a_log_that_breaks_off_is_read_up_to_the_last_whole_commit() {
    let (folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let mut lease = run_of(&store, 0).await;
    let mut sizes = Vec::new();
    for step in 1..=8 {
        add_step(&store, &mut lease, step, Durability::Soft).await.unwrap();
        sizes.push(std::fs::metadata(beside(&path, "-wal")).unwrap().len());
    }
    let records = archive(&store, lease.run).await.unwrap();
    for (whole, pair) in sizes.windows(2).enumerate() {
        let kept = (whole + 1) * 5 + 1;
        for cut in [pair[0], pair[0] + 10, pair[0].midpoint(pair[1]), pair[1] - 1] {
            let torn = folder.path().join(format!("torn-{cut}.db"));
            copy(&path, &torn);
            let log = std::fs::File::options().write(true).open(beside(&torn, "-wal")).unwrap();
            log.set_len(cut).unwrap();
            drop(log);
            let store = SqliteStore::open(&torn).unwrap();
            assert_eq!(archive(&store, lease.run).await.unwrap(), records[..kept]);
            // Work goes on from there.
            let mut lease = store.claim_run(lease.run, &samples::worker("a")).await.unwrap();
            assert_eq!(lease.head, Seq(kept as u64));
            assert_eq!(add_step(&store, &mut lease, 90, Durability::Hard).await, Ok(Appended::Written));
            assert_eq!(store.check().await, Ok(Vec::new()));
        }
    }
}

#[tokio::test]
async fn a_file_that_breaks_off_is_never_half_read() {
    let (folder, path) = place();
    let (run, records) = stored(&path, 40).await;
    let whole = std::fs::read(&path).unwrap();
    for part in 1..16 {
        let cut = folder.path().join(format!("cut-{part}.db"));
        std::fs::write(&cut, &whole[..whole.len() * part / 16]).unwrap();
        let read = match SqliteStore::open(&cut) {
            Ok(store) => {
                assert!(!store.check().await.unwrap().is_empty(), "cut at {part}/16");
                archive(&store, run).await
            }
            Err(error) => Err(error),
        };
        match read {
            Ok(read) => assert_eq!(read, records),
            Err(StoreError::Corrupt(_)) => {}
            Err(error) => panic!("cut at {part}/16: {error}"),
        }
    }
}

#[tokio::test]
async fn a_changed_byte_in_a_record_is_named() {
    let (_folder, path) = place();
    let (run, records) = stored(&path, 3).await;
    // Without the remains of rows that were moved within their page.
    Connection::open(&path).unwrap().execute_batch("vacuum").unwrap();
    let whole = std::fs::read(&path).unwrap();
    for column_of_record in ["body", "id", "cast(note as blob)", "cast(name as blob)"] {
        let sql = format!("select {column_of_record} from record where note is not null and step = 2 limit 1");
        let sql = if column_of_record.contains("name") { sql.replace("note is not null", "kind = 6") } else { sql };
        let content = column(&path, &sql);
        let context = column(&path, &sql.replace(column_of_record, "id"));
        // Short words stand in many rows: the id makes the place unique.
        let mut file = std::fs::read(&path).unwrap();
        let row = file.windows(16).position(|window| window == context).unwrap();
        let place = file[row..].windows(content.len()).position(|window| window == content).unwrap() + row;
        let mut harmless = 0;
        for offset in 0..content.len() {
            file[place + offset] ^= 0x10;
            std::fs::write(&path, &file).unwrap();
            file[place + offset] ^= 0x10;
            let store = SqliteStore::open(&path).unwrap();
            let error = match archive(&store, run).await {
                // zstd has bits that mean nothing: then nothing has changed either.
                Ok(read) if column_of_record == "body" && harmless < 4 => {
                    assert_eq!(read, records);
                    harmless += 1;
                    continue;
                }
                read => read.expect_err(column_of_record),
            };
            let StoreError::Corrupt(message) = &error else { panic!("{error}") };
            assert!(message.contains(&run.to_string()) && message.contains("record "), "{message}");
            let findings = store.check().await.unwrap();
            assert!(findings.iter().any(|finding| finding.run == Some(run)), "{findings:?}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
}

/// The whole sweep: whatever byte of the file is changed, records come out as they were, or an error does.
#[tokio::test]
async fn no_changed_byte_brings_other_records() {
    let (_folder, path) = place();
    let (run, records) = stored(&path, 4).await;
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = 0;
    for place in (0..whole.len()).step_by(211) {
        let mut file = whole.clone();
        file[place] ^= 0xff;
        std::fs::write(&path, &file).unwrap();
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(beside(&path, suffix));
        }
        let read = match SqliteStore::open(&path) {
            Ok(store) => {
                store.check().await.expect("a check gets through");
                archive(&store, run).await
            }
            Err(error) => Err(error),
        };
        match read {
            Ok(read) if read.is_empty() => damaged += 1, // The run's own id was changed.
            Ok(read) => assert_eq!(read, records, "byte {place}"),
            Err(_) => damaged += 1,
        }
    }
    assert!(damaged > 20, "{damaged}");
}

#[tokio::test]
async fn a_damaged_blob_or_task_is_an_error() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 1).await;
    let task = store.run(lease.run).await.unwrap().task;
    let (_, blobs) = samples::step(lease.run, 1);
    drop(store);
    let content = column(&path, "select content from blob");
    flip(&path, &content, content.len() / 2);
    let text = column(&path, "select content from task");
    flip(&path, &text, 3);
    let store = SqliteStore::open(&path).unwrap();
    let blob = &blobs[0].reference;
    let error = store.blob(blob).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(message) if message.contains(&blob.hash.to_string())), "{error}");
    assert!(matches!(store.task(task).await, Err(StoreError::Corrupt(_))));
    let findings = store.check().await.unwrap();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings.iter().all(|finding| finding.run == Some(lease.run) && !finding.remedy.is_empty()));
}

#[tokio::test]
async fn a_damaged_checkpoint_is_passed_over() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 2).await;
    for seq in [6, 11] {
        let bytes = samples::prose(seq, 3_000).into_bytes();
        let checkpoint = StoredCheckpoint { seq: Seq(seq), at: samples::NOON, bytes };
        store.save_checkpoint(&lease, checkpoint).await.unwrap();
    }
    drop(store);
    for (seq, left) in [(11, Some(Seq(6))), (6, None)] {
        let content = column(&path, &format!("select content from checkpoint where seq = {seq}"));
        flip(&path, &content, content.len() / 2);
        let store = SqliteStore::open(&path).unwrap();
        let loaded = store.load_checkpoint(lease.run).await.unwrap();
        assert_eq!(loaded.map(|checkpoint| checkpoint.seq), left);
        let findings = store.check().await.unwrap();
        assert!(findings.iter().any(|finding| finding.problem.contains(&format!("at record {seq}"))), "{findings:?}");
        assert_eq!(archive(&store, lease.run).await.unwrap().len(), 11);
    }
}

/// Damage that SQLite can't see, since the rows are sound: what is missing, doubled or at odds is found.
#[tokio::test]
async fn a_check_finds_what_does_not_agree() {
    let cases = [
        ("delete from record where seq = 4", "records 4 to 4 are missing"),
        ("delete from record where seq = 11", "its last record is 10"),
        ("update record set id = (select id from record where seq = 1) where seq = 3", "2 records have the id"),
        ("update record set run = 77 where seq = 11", "belong to no run"),
        ("update run set head_seq = 99", "its row says 99"),
        ("delete from blob", "is missing"),
        ("delete from task", "is missing"),
        ("update effect set state = 'failed'", "not as the archive says"),
        ("delete from effect where step = 2", "not as the archive says"),
        ("insert into state values (1, 'k', 4, null)", "only in the archive or only in the table"),
        ("update record set format = 3 where seq = 5", "format 3"),
        ("update record set kind = 6 where seq = 2", "its kind is 6"),
    ];
    for (sql, problem) in cases {
        let (_folder, path) = place();
        let (run, _) = stored(&path, 2).await;
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        let findings = store.check().await.unwrap();
        assert!(findings.iter().any(|finding| finding.problem.contains(problem)), "{sql}: {findings:?}");
        assert!(findings.iter().all(|finding| finding.run.is_none_or(|found| found == run)));
    }
}

#[tokio::test]
async fn missing_records_are_an_error_and_no_shorter_archive() {
    for (sql, missing) in
        [("delete from record where seq = 4", 4), ("delete from record where seq > 9", 10), ("delete from record", 1)]
    {
        let (_folder, path) = place();
        let (run, _) = stored(&path, 2).await;
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        let error = archive(&store, run).await.unwrap_err();
        let expected = format!("record {missing} of {run} is missing");
        assert!(matches!(&error, StoreError::Corrupt(message) if message.contains(&expected)), "{error}");
    }
}

#[tokio::test]
async fn a_record_of_a_later_format_is_refused_by_name() {
    let (_folder, path) = place();
    let (run, records) = stored(&path, 1).await;
    Connection::open(&path).unwrap().execute("update record set format = 3 where seq = 4", []).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let newer =
        StoreError::Newer { found: format!("record 4 of {run} in format 3"), known: "formats up to 2".to_owned() };
    assert_eq!(archive(&store, run).await, Err(newer));
    assert_eq!(store.records(run, Seq(0), 3).await.unwrap(), records[..3], "those before it can be read");
}

const LOG_HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// A copy of a store of nine commits with its log, whose bytes were passed through `damage`. Also where the log's
/// transactions end.
async fn with_damaged_log(folder: &Path, damage: impl FnOnce(&mut Vec<u8>, &[usize])) -> (PathBuf, RunId, Vec<Record>) {
    let (path, copied) = (folder.join("store.db"), folder.join("copy.db"));
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 8).await;
    let records = archive(&store, lease.run).await.unwrap();
    copy(&path, &copied);
    let log = beside(&copied, "-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    let ends: Vec<usize> = (LOG_HEADER..bytes.len())
        .step_by(FRAME)
        .filter(|frame| bytes[frame + 4..frame + 8] != [0; 4])
        .map(|frame| frame + FRAME)
        .collect();
    assert_eq!(*ends.last().unwrap(), bytes.len());
    damage(&mut bytes, &ends);
    std::fs::write(log, bytes).unwrap();
    (copied, lease.run, records)
}

/// Makes sure that the log is refused with this in the message, untouched, and found by a looker.
async fn assert_log_refused(path: &Path, named: &[&str]) {
    let log = beside(path, "-wal");
    let before = (std::fs::read(path).unwrap(), std::fs::read(&log).unwrap());
    let looker = SqliteStore::open_read_only(path).unwrap();
    let findings = looker.check().await.unwrap();
    drop(looker);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let StoreError::Corrupt(problem) = SqliteStore::open(path).unwrap_err() else { panic!("it is damage") };
    for part in named {
        assert!(problem.contains(part), "{part}: {problem}");
        let finding = &findings[0];
        assert!(format!("{} {}", finding.problem, finding.remedy).contains(part), "{part}: {finding:?}");
    }
    assert_eq!((std::fs::read(path).unwrap(), std::fs::read(&log).unwrap()), before);
}

#[tokio::test]
async fn a_flipped_bit_in_the_middle_of_a_log_is_refused_and_its_remedy_works() {
    // Of the frame: page number, size after the commit, salt, checksum, page.
    for place in [3, 9, 17, 24 + 2000] {
        let folder = tempfile::tempdir().unwrap();
        let (mut end, mut frame) = (0, 0);
        let (path, run, records) = with_damaged_log(folder.path(), |log, ends| {
            end = ends[ends.len() - 4];
            frame = (end - LOG_HEADER) / FRAME + 1;
            log[end + place] ^= 0x10;
        })
        .await;
        let (place, cut) = (format!("at frame {frame}: 3 transactions"), format!("head -c {end} "));
        assert_log_refused(&path, &[&place, &cut, "from a copy"]).await;
        std::fs::File::options().write(true).open(beside(&path, "-wal")).unwrap().set_len(end as u64).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(archive(&store, run).await.unwrap(), records[..records.len() - 15]);
    }
}

#[tokio::test]
async fn a_damaged_header_of_a_log_is_refused() {
    for place in [0, 3, 9, 17, 25] {
        let folder = tempfile::tempdir().unwrap();
        let (path, ..) = with_damaged_log(folder.path(), |log, _| log[place] ^= 0x10).await;
        let StoreError::Corrupt(problem) = SqliteStore::open(&path).unwrap_err() else { panic!("it is damage") };
        assert!(problem.contains("at its header"), "{problem}");
    }
}

#[tokio::test]
async fn a_torn_last_transaction_is_found_dropped_and_then_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, run, records) =
        with_damaged_log(folder.path(), |log, ends| log[ends[ends.len() - 2] + 24..][..512].fill(0)).await;
    let findings = SqliteStore::open_read_only(&path).unwrap().check().await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].problem.contains("1 transaction ("), "{findings:?}");
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(archive(&store, run).await.unwrap(), records[..records.len() - 5]);
    let mut lease = store.claim_run(run, &samples::worker("a")).await.unwrap();
    add_step(&store, &mut lease, 90, Durability::Hard).await.unwrap();
    assert_eq!(SqliteStore::open_read_only(&path).unwrap().check().await, Ok(Vec::new()));
}
