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
    assert_eq!(highest, 38);
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

/// An operation that says when it is dropped.
struct Numbered(u32, std::sync::Arc<std::sync::Mutex<Vec<u32>>>);

impl super::writer::Work for Numbered {
    fn hard(&self) -> bool {
        false
    }

    fn run(&mut self, _: &rusqlite::Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    fn answer(self: Box<Self>, _: Result<(), crate::StoreError>) {}
}

impl Drop for Numbered {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[tokio::test]
async fn what_waits_is_taken_together_and_in_order_and_nothing_is_left_when_the_queue_closes() {
    let queue = super::queue::Queue::new();
    let dropped = std::sync::Arc::default();
    let operation = |number| Box::new(Numbered(number, std::sync::Arc::clone(&dropped)));
    for number in 1..=3 {
        assert_eq!(queue.push(operation(number), false).await, Ok(u64::from(number)));
    }
    drop(queue.take());
    assert_eq!(*dropped.lock().unwrap(), [1, 2, 3]);
    // Nobody waits for one of those that are here.
    queue.hurry(3);
    assert!(queue.is_empty());

    assert_eq!(queue.push(operation(4), true).await, Ok(4));
    queue.close();
    assert!(queue.push(operation(5), true).await.is_err());
    assert_eq!(queue.take().map(|batch| batch.len()), Some(1));
    assert!(queue.take().is_none());

    let queue = super::queue::Queue::new();
    assert_eq!(queue.push(operation(6), false).await, Ok(1));
    queue.abandon();
    assert_eq!(*dropped.lock().unwrap(), [1, 2, 3, 5, 4, 6]);
    assert!(queue.push(operation(7), false).await.is_err());
}

#[test]
fn a_writer_that_sleeps_is_woken_by_whoever_waits() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let queue = std::sync::Arc::new(super::queue::Queue::new());
    let writer = std::thread::spawn({
        let queue = std::sync::Arc::clone(&queue);
        move || {
            let mut taken = 0;
            while let Some(batch) = queue.take() {
                taken += batch.len();
            }
            taken
        }
    });
    let dropped = std::sync::Arc::default();
    for number in 0..1_000 {
        let operation = Box::new(Numbered(number, std::sync::Arc::clone(&dropped)));
        let place = runtime.block_on(queue.push(operation, number % 3 == 0)).unwrap();
        if number % 3 == 1 {
            queue.hurry(place);
        }
    }
    queue.close();
    assert_eq!(writer.join().unwrap(), 1_000);
    assert_eq!(*dropped.lock().unwrap(), (0..1_000).collect::<Vec<_>>());
}
