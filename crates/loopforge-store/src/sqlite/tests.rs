//! What can only be seen from inside.
#![expect(clippy::unwrap_used, reason = "tests")]

use rusqlite::Connection;

use super::body::KINDS;
use super::{Options, log, open};

/// The numbers of kinds stand in the program and in the database, and never change.
#[test]
fn kinds_have_the_numbers_that_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let connection: Connection = open::open(&folder.path().join("store.db"), &Options::default()).unwrap();
    let mut select = connection.prepare("select name from kind order by number").unwrap();
    let names: Vec<String> = select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(names, KINDS);
    let highest: i64 = connection.query_row("select max(number) from kind", [], |row| row.get(0)).unwrap();
    assert_eq!(highest, 30);
}

/// A look at a log while it is written, and begun anew, by somebody else.
#[test]
fn a_log_that_is_being_written_is_not_taken_for_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let connection = open::open(&path, &Options::default()).unwrap();
    connection.execute_batch("create table filler (bytes blob)").unwrap();
    let looker = std::thread::spawn(move || (0..100).find_map(|_| log::check(&path)));
    let mut commits = 0;
    while !looker.is_finished() && commits < 2_000 {
        connection.execute_batch("insert into filler values (randomblob(20000))").unwrap();
        commits += 1;
        if commits % 100 == 0 {
            connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
        }
    }
    assert_eq!(looker.join().unwrap(), None);
}
