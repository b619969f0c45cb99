//! New runs.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::ClientWrapper;
use loopforge_core::id::{LeaseId, RunId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::address::{Address, Lock, Share};
use super::append::{Asked, begin, blobs_there, check_needed};
use super::columns::{Records, Rest};
use super::effects::Table;
use super::error::Failed;
use super::rows::Rows;
use super::text::escape;
use super::{first_status, lease};
use crate::sqlite::content::Content;
use crate::{Lease, NewRun, StoreError, Worker};

/// A run on its way.
#[derive(Debug)]
pub(crate) struct New {
    /// Without its task, records and blobs.
    pub(crate) run: NewRun,
    pub(crate) task: Content,
    pub(crate) rows: Rows,
    /// Who gets it at once.
    pub(crate) lease: Option<(Worker, LeaseId)>,
    /// Whether this is not the first try: then the run that is there may be this one.
    pub(crate) tried: AtomicBool,
}

/// Stores a run with its first records, and claims it for its worker. A transaction of several round trips: a run is made once.
pub(crate) async fn create(
    client: &ClientWrapper,
    new: &New,
    address: &Address,
    now: Option<i64>,
) -> Result<Option<Lease>, Failed> {
    let again = new.tried.swap(true, Ordering::Relaxed);
    let lock = address.lock(Lock::Blobs, Share::WithOthers);
    client.batch_execute(&format!("{}; select {lock}", begin(true))).await?;
    let lease = write(client, new, again, now).await?;
    client.batch_execute("commit").await?;
    Ok(lease)
}

async fn write(client: &ClientWrapper, new: &New, again: bool, now: Option<i64>) -> Result<Option<Lease>, Failed> {
    let there: HashSet<Vec<u8>> = blobs_there(client, &new.rows).await?;
    check_needed(&new.rows, &there)?;
    let run = &new.run;
    let insert = client
        .prepare_cached(
            "insert into task (hash, size, codec, content) values ($1, $2, $3, $4) on conflict (hash) do nothing",
        )
        .await?;
    let (hash, codec) = (new.task.hash.as_slice(), i16::from(new.task.compressed));
    client.execute(&insert, &[&hash, &new.task.size, &codec, &new.task.bytes]).await?;
    let insert = client
        .prepare_cached(
            "insert into run (id, name, task, workspace, base, status, head_seq, steps, created_at, updated_at, ready_at) \
             values ($1, $2, $3, $4, $5, $6, $7, 0, $8, $8, case when $6 = 'queued' then coalesce($9::int8, now_us()) end) \
             on conflict (id) do nothing returning key",
        )
        .await?;
    let (name, workspace, base) = (escape(&run.name), escape(&run.workspace), escape(&run.base));
    let status = first_status(new.lease.is_some()).name();
    let params: [&(dyn ToSql + Sync); 9] =
        [&run.id.0, &name, &hash, &workspace, &base, &status, &new.rows.last(), &run.at.0, &now];
    let Some(row) = client.query_opt(&insert, &params).await? else {
        if !again || !is_mine(client, run.id, &new.rows).await? {
            return Err(StoreError::Exists(run.id).into());
        }
        // An earlier try went through, and its acknowledgement was lost.
        return match &new.lease {
            Some((worker, id)) => Ok(Some(lease::claim(client, run.id, worker, *id, now).await?)),
            None => Ok(None),
        };
    };
    let key: i64 = row.get(0);
    insert_rows(client, run.id, key, &new.rows).await?;
    match &new.lease {
        Some((worker, id)) => Ok(Some(lease::claim(client, run.id, worker, *id, now).await?)),
        None => Ok(None),
    }
}

/// Adds records, with all that goes with them, to a run that nobody else can see yet.
pub(crate) async fn insert_rows(client: &ClientWrapper, run: RunId, key: i64, rows: &Rows) -> Result<(), Failed> {
    let touched = Asked::of(std::iter::once((run, rows))).query(client).await?;
    let mut effects = Table::read(&touched);
    effects.apply(key, &rows.effects)?;
    Records::of(rows.records.iter().map(|row| (key, row))).insert(client).await?;
    let rest = Rest::of(std::iter::once((key, rows)), &effects);
    let prepared = rest.prepare(client).await?;
    rest.write(client, &prepared).await
}

/// Whether the run that is there begins with just these records.
async fn is_mine(client: &ClientWrapper, run: RunId, rows: &Rows) -> Result<bool, Failed> {
    let statement = client
        .prepare_cached("select record.id from record join run on run.key = record.run where run.id = $1 and seq = 1")
        .await?;
    let found = client.query_opt(&statement, &[&run.0]).await?;
    let first = rows.records.first().map(|row| Uuid::from_bytes(row.id));
    Ok(found.map(|row| row.get::<_, Uuid>(0)) == first)
}
