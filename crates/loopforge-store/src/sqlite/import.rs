//! Taking a run over from another store.

use loopforge_core::id::Seq;
use rusqlite::{Connection, params};

use super::append::Batch;
use super::body::signed;
use super::content::Content;
use super::error::Failed;
use crate::{Pages, RunInfo, StoreError, derive};

/// Stores a run with all its pages, or nothing of it.
pub(crate) fn import(
    connection: &Connection,
    run: &RunInfo,
    text: &[u8],
    task: &Content,
    pages: &dyn Pages,
) -> Result<(), Failed> {
    let exists = connection.prepare_cached("select 1 from run where id = ?1")?.exists([run.id.0.as_bytes()])?;
    if exists {
        return Err(Failed::Refused(StoreError::Exists(run.id)));
    }
    connection.prepare_cached("savepoint import")?.execute([])?;
    let result = import_inside(connection, run, text, task, pages);
    if matches!(result, Err(Failed::Refused(_))) {
        connection.prepare_cached("rollback to import")?.execute([])?;
    }
    if !matches!(result, Err(Failed::Sql(_))) {
        connection.prepare_cached("release import")?.execute([])?;
    }
    result
}

fn import_inside(
    connection: &Connection,
    run: &RunInfo,
    text: &[u8],
    task: &Content,
    pages: &dyn Pages,
) -> Result<(), Failed> {
    connection
        .prepare_cached(
            "insert into task (hash, size, codec, content) values (?1, ?2, ?3, ?4) on conflict (hash) do nothing",
        )?
        .execute(params![task.hash, task.size, task.compressed, task.bytes])?;
    let key = connection
        .prepare_cached(
            "insert into run (id, name, task, workspace, base, status, head_seq, steps, created_at, updated_at, wake_at) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .insert(params![
            run.id.0.as_bytes(),
            run.name,
            run.task.0,
            run.workspace,
            run.base,
            run.status.name(),
            signed(run.head.0),
            signed(run.steps),
            run.created_at.0,
            run.updated_at.0,
            run.wake_at.map(|at| at.0),
        ])?;
    let (mut head, mut last_task, mut number) = (Seq(0), None, 0);
    while let Some(page) = pages.page(number)? {
        number += 1;
        if page.records.is_empty() {
            return Err(Failed::Refused(StoreError::Invalid(format!("page {number} has no records"))));
        }
        if last_task.is_none() {
            last_task = Some(derive::first_task(&page.records)?);
        }
        last_task = page.records.iter().rev().find_map(|record| derive::changed_task(&record.event)).or(last_task);
        let records = page.records.len() as u64;
        let batch = Batch::new(head, page.records, &page.blobs)?;
        batch.check_needed(connection)?;
        batch.write(connection, key)?;
        head = Seq(head.0 + records);
    }
    let Some(last_task) = last_task else {
        return Err(Failed::Refused(StoreError::Invalid("there are no records to import".to_owned())));
    };
    Ok(derive::check_imported(run, head, last_task, text)?)
}
