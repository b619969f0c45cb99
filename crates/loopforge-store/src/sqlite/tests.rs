//! What can only be seen from inside.
#![expect(clippy::unwrap_used, reason = "tests")]

use rusqlite::Connection;

use super::body::KINDS;
use super::{Options, open};

/// The numbers of kinds stand in the program and in the database, and never change.
#[test]
fn kinds_have_the_numbers_that_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let connection: Connection = open::open(&folder.path().join("store.db"), &Options::default()).unwrap();
    let mut select = connection.prepare("select name from kind order by number").unwrap();
    let names: Vec<String> = select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(names, KINDS);
    let highest: i64 = connection.query_row("select max(number) from kind", [], |row| row.get(0)).unwrap();
    assert_eq!(highest, 26);
}
