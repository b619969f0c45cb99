//! The one thread that writes.
//!
//! It takes whatever operations are waiting (see [`super::queue`]), runs them in one transaction, and answers each after
//! the commit: one flush of the disk serves many appends.
//!
//! It also keeps the write-ahead log short. SQLite would do that within a commit; here it happens after the answers, so
//! that no append waits for it.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use tokio::sync::oneshot;

use super::error::{Failed, store_error};
use super::identity::Identity;
use super::open::{self, Options};
use super::queue::Queue;
use crate::StoreError;

/// Pages in the write-ahead log from which on it is written back to the database when nothing waits.
const WAL_IDLE_PAGES: u32 = 2_000;
/// Pages from which on it is written back although there is work.
const WAL_BUSY_PAGES: u32 = 8_000;
/// Pages from which on a long read must be in the way: it is waited for a little, and said aloud.
const WAL_LARGE_PAGES: u32 = 16_000;
/// How long readers are waited for then.
const WAL_PATIENCE: Duration = Duration::from_millis(100);

/// A handle on the writing thread. When the last one is dropped, the thread finishes what is waiting and closes the
/// database.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Arc<Queue>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread with a connection that is ready to write.
    pub(crate) fn start(path: PathBuf, options: Options, connection: Connection) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new());
        let opened = Identity::of(&path)?;
        let mut state = State {
            path,
            opened,
            options,
            connection: None,
            full_sync: None,
            wal_pages: Arc::default(),
            wal_seen: 0,
            wal_next_try: 0,
        };
        let serving = Serving(Arc::clone(&queue));
        let thread = thread::Builder::new().name("loopforge-store".to_owned()).spawn(move || {
            state.adopt(connection);
            state.work(&serving.0);
        })?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Puts `operation` behind those that wait already. It is run in a transaction, and answered after the commit; a
    /// `hard` one after a flush of the disk. Without `hurry` it may wait for others, until [`Answer::hurry`] is called.
    ///
    /// The operation may be run more than once, each time after all that it wrote was taken back.
    pub(crate) async fn submit<T: Send + 'static>(
        &self,
        hard: bool,
        hurry: bool,
        operation: impl FnMut(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<Answer<T>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let number = self.queue.push(Box::new(Operation { hard, operation, result: None, reply }), hurry).await?;
        Ok(Answer { answer, queue: Arc::clone(&self.queue), number })
    }
}

/// The answer to an operation, once it is committed.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    answer: oneshot::Receiver<Result<T, StoreError>>,
    queue: Arc<Queue>,
    number: u64,
}

impl<T> Answer<T> {
    /// What says that somebody waits for it.
    pub(crate) fn hurry(&self) -> impl FnOnce() + Send + 'static + use<T> {
        let (queue, number) = (Arc::clone(&self.queue), self.number);
        move || queue.hurry(number)
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|answer| answer.map_err(|_| stopped())?)
    }
}

/// The queue in the hands of its thread. However the thread ends, nobody waits for it any more.
struct Serving(Arc<Queue>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

pub(crate) fn stopped() -> StoreError {
    StoreError::Unavailable("the store's writer has stopped; open the store again".to_owned())
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer ended in a panic");
        }
    }
}

/// An operation that waits for the writer.
pub(crate) trait Work: Send {
    /// Whether it must survive a loss of power.
    fn hard(&self) -> bool;
    /// Runs it, inside a transaction, and keeps its answer. An error means that the transaction is lost.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    /// Sends the answer, or the reason why there was no commit.
    fn answer(self: Box<Self>, commit: Result<(), StoreError>);
}

struct Operation<T, F> {
    hard: bool,
    operation: F,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, Failed> + Send> Work for Operation<T, F> {
    fn hard(&self) -> bool {
        self.hard
    }

    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.result = Some(match (self.operation)(connection) {
            Ok(value) => Ok(value),
            Err(Failed::Refused(error)) => Err(error),
            Err(Failed::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, commit: Result<(), StoreError>) {
        let answer = match (commit, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Unavailable("the operation did not run".to_owned())),
            (Err(error), _) => Err(error),
        };
        // Nobody listens when the caller gave up; what was written stays.
        let _ = self.reply.send(answer);
    }
}

struct State {
    path: PathBuf,
    /// The file that was at `path` when the store was opened.
    opened: Identity,
    options: Options,
    /// None after an error that may have left it in doubt: it is opened anew for the next operation.
    connection: Option<Connection>,
    /// What `synchronous` is set to: it can't be changed inside a transaction, and setting it costs a statement.
    full_sync: Option<bool>,
    /// Pages in the write-ahead log, as the last commit told.
    wal_pages: Arc<AtomicU32>,
    /// The same when it was last looked at.
    wal_seen: u32,
    /// From how many pages on the next checkpoint is tried.
    wal_next_try: u32,
}

impl State {
    fn work(&mut self, queue: &Queue) {
        while let Some(batch) = queue.take() {
            self.commit(batch);
            self.shorten_wal(queue.is_empty());
        }
        if let Some(connection) = self.connection.take()
            && let Err((_, error)) = connection.close()
        {
            tracing::warn!(%error, path = %self.path.display(), "the database did not close cleanly; nothing is lost");
        }
    }

    fn commit(&mut self, mut batch: Vec<Box<dyn Work>>) {
        if let Err(error) = self.opened.require_at(&self.path) {
            batch.into_iter().for_each(|work| work.answer(Err(error.clone())));
            return;
        }
        let Err(error) = self.transaction(&mut batch) else {
            batch.into_iter().for_each(|work| work.answer(Ok(())));
            return;
        };
        let error = store_error(&error, &self.path);
        // Alone, each gets its own verdict: one that is too large for the disk must not fail the small ones with it. A
        // lock or a read-only disk is the same for all.
        let for_all = matches!(error, StoreError::Unavailable(_) | StoreError::ReadOnly(_));
        if batch.len() == 1 || for_all {
            batch.into_iter().for_each(|work| work.answer(Err(error.clone())));
            return;
        }
        for work in batch {
            self.commit(vec![work]);
        }
    }

    fn transaction(&mut self, batch: &mut [Box<dyn Work>]) -> rusqlite::Result<()> {
        let hard = batch.iter().any(|work| work.hard());
        let result = self.try_transaction(batch, hard);
        if let Err(error) = &result {
            self.recover(error);
        }
        result
    }

    fn try_transaction(&mut self, batch: &mut [Box<dyn Work>], hard: bool) -> rusqlite::Result<()> {
        if self.connection.is_none() {
            let connection = open::reopen(&self.path, &self.options)?;
            self.adopt(connection);
        }
        let Some(connection) = &self.connection else { return Err(rusqlite::Error::InvalidQuery) };
        if self.full_sync != Some(hard) {
            connection.execute_batch(if hard { "pragma synchronous = full" } else { "pragma synchronous = normal" })?;
            self.full_sync = Some(hard);
        }
        connection.prepare_cached("begin immediate")?.execute([])?;
        for work in batch {
            work.run(connection)?;
        }
        connection.prepare_cached("commit")?.execute([])?;
        Ok(())
    }

    /// Gets the connection ready for the next transaction, or drops it.
    fn recover(&mut self, error: &rusqlite::Error) {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull};
        let Some(connection) = &self.connection else { return };
        let clean = connection.is_autocommit() || connection.execute_batch("rollback").is_ok();
        // After an I/O error SQLite's own view of the file is in doubt, and a disk that came back may want a new
        // handle.
        let harmless = matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | DiskFull));
        if !clean || !harmless {
            self.connection = None;
            self.full_sync = None;
        }
    }

    fn adopt(&mut self, mut connection: Connection) {
        let size = Arc::clone(&self.wal_pages);
        // This takes the place of SQLite's own automatic checkpoint.
        let hooked = connection.wal_hook(Some(move |_: &mut Wal, pages| {
            size.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }));
        if let Err(error) = hooked {
            tracing::warn!(%error, "the size of the write-ahead log can't be watched");
        }
        self.connection = Some(connection);
        self.full_sync = None;
    }

    fn shorten_wal(&mut self, idle: bool) {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        if pages < self.wal_seen {
            // The log began at its front again.
            self.wal_next_try = 0;
        }
        self.wal_seen = pages;
        if pages < if idle { WAL_IDLE_PAGES } else { WAL_BUSY_PAGES } || pages < self.wal_next_try {
            return;
        }
        let Some(connection) = &self.connection else { return };
        let large = pages >= WAL_LARGE_PAGES;
        let result = checkpoint(connection, large, self.options.busy_timeout);
        // While a reader needs the log, it can't begin at its front, and trying after each commit would cost a flush
        // each.
        self.wal_next_try = pages + WAL_IDLE_PAGES;
        if large && !matches!(result, Ok(true)) {
            tracing::warn!(
                path = %self.path.display(),
                pages,
                "the write-ahead log is large, and a reader keeps it from being written back: \
                 end long-running queries on the database"
            );
        }
    }
}

/// Writes the log back to the database; says whether all of it was. `insist`: waits for readers a little, and cuts the
/// file off.
fn checkpoint(connection: &Connection, insist: bool, usual_patience: Duration) -> rusqlite::Result<bool> {
    if !insist {
        let (in_log, done) = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)?;
        return Ok(done >= in_log);
    }
    connection.busy_timeout(WAL_PATIENCE)?;
    let result = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
    connection.busy_timeout(usual_patience)?;
    result.map(|(in_log, done)| done >= in_log)
}
