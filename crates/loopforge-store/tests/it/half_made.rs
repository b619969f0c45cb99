//! A database whose maker was killed while it made it.

use std::path::Path;

use loopforge_store::Store;
use loopforge_store::sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;

/// Copies a database in the middle of a transaction that has reached the file: beside it lies a journal that must be rolled back,
/// as after a kill.
fn killed_in_a_rollback_transaction(from: &Path, to: &Path) {
    let connection = Connection::open(from).unwrap();
    let mode: String = connection.query_row("pragma journal_mode = delete", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
    connection
        .execute_batch(
            "pragma cache_size = 2; begin immediate; create table half_made (a blob);
             insert into half_made select zeroblob(3000) from
                 (with recursive n(i) as (select 1 union all select i + 1 from n where i < 200) select i from n);",
        )
        .unwrap();
    let journal = |path: &Path| path.with_file_name(format!("{}-journal", path.file_name().unwrap().display()));
    std::fs::copy(from, to).unwrap();
    assert!(std::fs::copy(journal(from), journal(to)).unwrap() > 0);
}

#[tokio::test]
async fn what_a_killed_maker_had_begun_is_taken_back() {
    let folder = TempDir::new().unwrap();
    let (whole, killed, looked_at) =
        (folder.path().join("whole.db"), folder.path().join("killed.db"), folder.path().join("looked_at.db"));
    drop(SqliteStore::open(&whole).unwrap());
    killed_in_a_rollback_transaction(&whole, &killed);
    killed_in_a_rollback_transaction(&whole, &looked_at);
    let plain = Connection::open_with_flags(&looked_at, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let refused = plain.query_row("select count(*) from sqlite_master", [], |_| Ok(())).unwrap_err();
    assert!(refused.to_string().contains("readonly"), "the test's database needs a rollback: {refused}");

    for store in [SqliteStore::open_read_only(&looked_at).unwrap(), SqliteStore::open(&killed).unwrap()] {
        assert_eq!(store.runs(10).await.unwrap(), []);
        assert_eq!(store.check().await.unwrap(), []);
    }
}
