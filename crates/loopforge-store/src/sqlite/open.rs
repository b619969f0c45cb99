//! Opening a database: whose is it, does this program know it, and what is missing in it?
//!
//! Nothing is changed before all that is known.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::error::store_error;
use super::log;
use crate::{Clock, StoreError};

/// Marks a database as ours in its header: "LFrg".
pub(crate) const APPLICATION_ID: i32 = 0x4c46_7267;

/// The oldest SQLite that may be used. Before it, a checkpoint that races a write can corrupt a WAL database with two
/// connections. Source: <https://www.sqlite.org/wal.html>, "The WAL-Reset Bug".
pub(crate) const OLDEST_SQLITE: i32 = 3_051_003;

/// Bytes in a page; the module's docs say why.
pub(crate) const PAGE_SIZE: u32 = 4096;

/// The changes to an empty database that make it what this program expects, oldest first. Never edited once released.
const MIGRATIONS: [Migration; 5] = [
    Migration { name: "archive", sql: include_str!("../../migrations/sqlite/0001_archive.sql") },
    Migration { name: "care", sql: include_str!("../../migrations/sqlite/0002_care.sql") },
    Migration { name: "models", sql: include_str!("../../migrations/sqlite/0003_models.sql") },
    Migration { name: "budgets", sql: include_str!("../../migrations/sqlite/0004_budgets.sql") },
    Migration { name: "plan", sql: include_str!("../../migrations/sqlite/0005_plan.sql") },
];

struct Migration {
    name: &'static str,
    sql: &'static str,
}

impl Migration {
    fn hash(&self) -> [u8; 32] {
        *blake3::hash(self.sql.as_bytes()).as_bytes()
    }
}

/// How a database is used.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long to wait for another process that is writing. 5 seconds.
    pub busy_timeout: Duration,
    /// Where the time of leases comes from. The machine's clock.
    pub clock: Clock,
    /// The largest size of the database in pages of 4 KiB; beyond it, it is full. None: as large as the disk.
    pub max_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(5), clock: Clock::system(), max_pages: None }
    }
}

/// The version of SQLite that this program carries.
#[must_use]
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// Opens the database at `path` for writing; makes it when there is none, and brings it up to date.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    require_sqlite()?;
    // Before anything else: from here on SQLite takes the log for what it makes of it.
    let dropped = log::require_whole(path)?;
    if std::fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        identify(&open_to_read(path, options)?, path)?;
    }
    if !super::error::writable(path) {
        return Err(StoreError::ReadOnly(format!("{} or its folder can't be written to", path.display())));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sqlite = |error| store_error(&error, path);
    let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    set_up(&connection, options).map_err(sqlite)?;
    migrate(&mut connection, path)?;
    if dropped {
        // The next write begins the log anew, and what was dropped is not found again. If a reader is in the way, later.
        connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).map_err(sqlite)?;
    }
    Ok(connection)
}

/// Opens a database again that was opened before: after an error, or when it is to be read.
pub(crate) fn reopen(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    set_up(&connection, options)?;
    Ok(connection)
}

/// Opens the database at `path` for reading, after looking whether it is ours.
pub(crate) fn open_read_only(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    require_sqlite()?;
    let connection = open_to_read(path, options)?;
    if identify(&connection, path)? == 0 {
        return Err(StoreError::NotAStore(format!("{} is empty", path.display())));
    }
    Ok(connection)
}

/// A connection that can't write. The database may be in use by others, or on a disk that can't be written to.
pub(crate) fn open_to_read(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let usual = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(options.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(64);
        // The first page: here a file that is no database, or one whose log can't be opened, is found out.
        connection.query_row("select count(*) from sqlite_master", [], |_| Ok(()))?;
        Ok(connection)
    });
    match usual {
        Ok(connection) => Ok(connection),
        // A process was killed while it made the database. What it had begun must be taken back before anything can be read.
        Err(error) if left_half_written(&error) && super::error::writable(path) => {
            open_after_crash(path, options).map_err(|error| store_error(&error, path))
        }
        // SQLite wants to make a log's index beside the file, and can't. If no log is left over, the file alone is the
        // whole database, and as nobody can write to it, it doesn't change either.
        Err(error) if path.is_file() && !super::error::writable(path) && !has_log(path) => {
            open_immutable(path).map_err(|_| store_error(&error, path))
        }
        Err(error) => Err(store_error(&error, path)),
    }
}

fn left_half_written(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|failure| failure.extended_code == rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}

/// Opens a database beside which a rollback journal was left. Taking it back is all that is written.
fn open_after_crash(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.query_row("select count(*) from sqlite_master", [], |_| Ok(()))?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = "file:".to_owned();
    // Only these have a meaning in SQLite's file names.
    for character in path.to_string_lossy().chars() {
        match character {
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            '%' => uri.push_str("%25"),
            other => uri.push(other),
        }
    }
    uri.push_str("?immutable=1");
    let connection = Connection::open_with_flags(uri, flags)?;
    connection.query_row("select count(*) from sqlite_master", [], |_| Ok(()))?;
    Ok(connection)
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(PathBuf::from(log)).is_ok_and(|log| log.len() > 0)
}

fn require_sqlite() -> Result<(), StoreError> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(StoreError::Unavailable(format!(
            "this program was built with SQLite {}, which can damage databases; build it with 3.51.3 or later",
            rusqlite::version()
        )));
    }
    Ok(())
}

/// Says how many migrations the database has; 0 when it is empty.
fn identify(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let sqlite = |error| store_error(&error, path);
    let tables: i64 = connection
        .query_row("select count(*) from sqlite_master where type = 'table'", [], |row| row.get(0))
        .map_err(sqlite)?;
    let application: i32 = connection.query_row("pragma application_id", [], |row| row.get(0)).map_err(sqlite)?;
    if tables == 0 && (application == 0 || application == APPLICATION_ID) {
        return Ok(0);
    }
    if application != APPLICATION_ID {
        return Err(StoreError::NotAStore(format!("{} is a database of another program", path.display())));
    }
    applied(connection, path)
}

/// Compares the migrations that a database has with those that this program knows.
fn applied(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let mut there: Vec<(i64, String, Vec<u8>)> = Vec::new();
    let result =
        connection.prepare("select number, name, hash from migration order by number").and_then(|mut select| {
            let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            for row in rows {
                there.push(row?);
            }
            Ok(())
        });
    result.map_err(|error| store_error(&error, path))?;
    for (position, (number, name, hash)) in there.iter().enumerate() {
        match MIGRATIONS.get(position) {
            None => {
                return Err(StoreError::Newer {
                    found: format!("version {number} ({name})"),
                    known: format!("versions up to {}", MIGRATIONS.len()),
                });
            }
            Some(known) if known.hash() != hash.as_slice() => {
                return Err(StoreError::Corrupt(format!(
                    "{}: its tables were made by another version {number} ({name}) than this program has; \
                     use the program that made it",
                    path.display()
                )));
            }
            Some(_) => {}
        }
    }
    Ok(there.len())
}

fn set_up(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    connection.busy_timeout(options.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "page_size", PAGE_SIZE)?;
    use_wal(connection, options)?;
    // A commit never stops for a checkpoint: see `writer`. A log that grew is cut back to 16 MiB when it begins anew.
    connection.execute_batch(
        "pragma wal_autocheckpoint = 0; pragma journal_size_limit = 16777216; \
         pragma foreign_keys = off; pragma temp_store = memory; pragma cell_size_check = on;",
    )?;
    if let Some(pages) = options.max_pages {
        connection.query_row(&format!("pragma max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    Ok(())
}

/// Switches to a write-ahead log. SQLite doesn't wait here when another process does the same at this moment; we do.
fn use_wal(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    let step = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    loop {
        match connection.query_row("pragma journal_mode = wal", [], |row| row.get::<_, String>(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && waited < options.busy_timeout =>
            {
                std::thread::sleep(step);
                waited += step;
            }
            result => return result.map(|_| ()),
        }
    }
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let sqlite = |error| store_error(&error, path);
    if identify(connection, path)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
    // Once more, under the lock: another process may have been quicker.
    let there = identify(&transaction, path)?;
    for (number, migration) in (1_i64..).zip(&MIGRATIONS).skip(there) {
        transaction.execute_batch(migration.sql).map_err(sqlite)?;
        transaction
            .execute(
                "insert into migration (number, name, hash) values (?1, ?2, ?3)",
                params![number, migration.name, migration.hash()],
            )
            .map_err(sqlite)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sqlite)?;
    transaction.commit().map_err(sqlite)
}
