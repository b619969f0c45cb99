//! Connections that only read, off the threads that run tasks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::error::Failed;
use super::open::{self, Options};
use crate::StoreError;

/// Connections that are kept open for the next reads. More may be open at a time.
const KEPT: usize = 4;

/// Connections for reading. A clone is the same pool.
#[derive(Debug, Clone)]
pub(crate) struct Readers(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    path: PathBuf,
    options: Options,
    // A std mutex, since it is held only to take one out or put one back.
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, options: Options) -> Self {
        Self(Arc::new(Pool { path, options, idle: Mutex::default() }))
    }

    /// Runs `read` on a thread for blocking work. It sees one state of the database from its first to its last query.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, StoreError> {
        let pool = Arc::clone(&self.0);
        let work = tokio::task::spawn_blocking(move || pool.read(read));
        work.await.map_err(|error| StoreError::Unavailable(format!("a read of the store did not end: {error}")))?
    }
}

impl Pool {
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Failed>) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::open_to_read(&self.path, &self.options)?,
        };
        let result = snapshot(&connection, read);
        // One that met an error is not trusted again.
        if !matches!(result, Err(Failed::Sql(_))) && connection.is_autocommit() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < KEPT {
                idle.push(connection);
            }
        }
        result.map_err(|failed| failed.into_store_error(&self.path))
    }
}

fn snapshot<T>(connection: &Connection, read: impl FnOnce(&Connection) -> Result<T, Failed>) -> Result<T, Failed> {
    let transaction = connection.unchecked_transaction()?;
    let value = read(&transaction)?;
    transaction.finish()?;
    Ok(value)
}
