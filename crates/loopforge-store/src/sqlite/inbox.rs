//! What people tell runs, as rows.

use loopforge_core::id::{RecordId, RunId};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::error::Failed;
use super::lease::run_key;
use crate::{Message, StoreError};

pub(crate) fn post(connection: &Connection, run: RunId, id: RecordId, content: &str) -> Result<(), Failed> {
    let run = run_key(connection, run)?;
    connection
        .prepare_cached("insert into inbox (run, id, content) values (?1, ?2, ?3) on conflict (id) do nothing")?
        .execute(params![run, id.0.as_bytes(), content])?;
    Ok(())
}

pub(crate) fn waiting(connection: &Connection, run: RunId) -> Result<Vec<Message>, Failed> {
    let run = run_key(connection, run)?;
    let mut select =
        connection.prepare_cached("select content from inbox where run = ?1 and not taken order by place")?;
    let rows = select.query_map([run], |row| row.get::<_, String>(0))?;
    let mut messages = Vec::new();
    for content in rows {
        messages.push(read(&content?)?);
    }
    Ok(messages)
}

/// Reads a message as it is stored.
pub(crate) fn read(content: &str) -> Result<Message, StoreError> {
    serde_json::from_str(content)
        .map_err(|error| StoreError::Corrupt(format!("a message to a run is damaged: {error}")))
}

pub(crate) fn taken(connection: &Connection, run: RunId, ids: &[RecordId]) -> Result<(), Failed> {
    let run = run_key(connection, run)?;
    let mut update = connection.prepare_cached("update inbox set taken = 1 where run = ?1 and id = ?2")?;
    for id in ids {
        update.execute(params![run, id.0.as_bytes()])?;
    }
    Ok(())
}

pub(crate) fn addressed(connection: &Connection) -> Result<Vec<RunId>, Failed> {
    let mut select = connection
        .prepare_cached("select distinct run.id from inbox join run on run.key = inbox.run where not inbox.taken")?;
    let rows = select.query_map([], |row| Ok(RunId(Uuid::from_bytes(row.get(0)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
