//! Who may write to a run.

use loopforge_core::id::{LeaseId, RunId, Seq};
use loopforge_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::body::{signed, unsigned};
use super::error::Failed;
use crate::{Lease, StoreError, Worker};

/// The short name of a run inside this database.
pub(crate) fn run_key(connection: &Connection, run: RunId) -> Result<i64, Failed> {
    let key = connection
        .prepare_cached("select key from run where id = ?1")?
        .query_row([run.0.as_bytes()], |row| row.get(0))
        .optional()?;
    key.ok_or(Failed::Refused(StoreError::NoRun(run)))
}

pub(crate) fn claim(
    connection: &Connection,
    run: RunId,
    worker: &Worker,
    id: LeaseId,
    now: Timestamp,
) -> Result<Lease, Failed> {
    let until = now.after(worker.lease_ttl);
    // The condition stands in the statement, so that there is no moment between looking and taking.
    let taken = connection
        .prepare_cached(
            "update run set lease_epoch = lease_epoch + 1, lease_id = ?2, lease_until = ?3, worker_id = ?4, worker_label = ?5, \
                 workers_before = case \
                     when lease_id is null or worker_id = ?4 then workers_before \
                     else coalesce(workers_before || ' ', '') || worker_id end \
             where id = ?1 and (lease_id is null or lease_until <= ?6 or worker_id = ?4) \
             returning lease_epoch, head_seq, workers_before",
        )?
        .query_row(params![run.0.as_bytes(), id.0.as_bytes(), until.0, worker.id, worker.label, now.0], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?))
        })
        .optional()?;
    if let Some((epoch, head, before)) = taken {
        let (epoch, head) = (unsigned(epoch), Seq(unsigned(head)));
        let before = before.unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect();
        return Ok(Lease { run, epoch, id, until, ttl: worker.lease_ttl, head, before });
    }
    let held = connection
        .prepare_cached("select worker_label, worker_id, lease_until from run where id = ?1")?
        .query_row([run.0.as_bytes()], |row| {
            Ok(StoreError::Held { run, owner: row.get(0)?, worker_id: row.get(1)?, until: Timestamp(row.get(2)?) })
        })
        .optional()?;
    Err(Failed::Refused(held.unwrap_or(StoreError::NoRun(run))))
}

/// What makes a run due, but for leases: `?1` is the time.
const READY: &str = "(status in ('queued', 'running') or (status = 'waiting' and wake_at <= ?1))";

/// Runs that are due, those that have waited longest first.
pub(crate) fn due(
    connection: &Connection,
    limit: usize,
    except: &[RunId],
    now: Timestamp,
) -> Result<Vec<RunId>, Failed> {
    let mut select = connection.prepare_cached(&format!(
        "select id from run where (lease_id is null or lease_until <= ?1) and {READY} \
         order by coalesce(wake_at, updated_at), key"
    ))?;
    let mut rows = select.query([now.0])?;
    let mut runs = Vec::new();
    while runs.len() < limit
        && let Some(row) = rows.next()?
    {
        let run = RunId(Uuid::from_bytes(row.get(0)?));
        if !except.contains(&run) {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Claims a run unless it isn't due any more.
pub(crate) fn claim_if_due(
    connection: &Connection,
    run: RunId,
    worker: &Worker,
    id: LeaseId,
    now: Timestamp,
) -> Result<Option<Lease>, Failed> {
    let still = connection
        .prepare_cached(&format!(
            "select 1 from run where id = ?2 and (lease_id is null or lease_until <= ?1) and {READY}"
        ))?
        .exists(params![now.0, run.0.as_bytes()])?;
    if still { claim(connection, run, worker, id, now).map(Some) } else { Ok(None) }
}

/// Extends all leases of a worker.
pub(crate) fn beat(connection: &Connection, worker_id: &str, until: Timestamp) -> Result<(), Failed> {
    connection
        .prepare_cached(
            "update run set lease_until = max(lease_until, ?2) where worker_id = ?1 and lease_id is not null",
        )?
        .execute(params![worker_id, until.0])?;
    Ok(())
}

/// When the next run is due, if nothing happens until then.
pub(crate) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, Failed> {
    let due: Option<i64> = connection
        .prepare_cached(
            "select min(case when lease_id is not null then lease_until \
                 when status = 'waiting' then wake_at else updated_at end) \
             from run where status in ('queued', 'running') or (status = 'waiting' and wake_at is not null)",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(due.map(Timestamp))
}

pub(crate) fn renew(connection: &Connection, lease: &Lease, until: Timestamp) -> Result<(), Failed> {
    let renewed = connection
        .prepare_cached("update run set lease_until = ?4 where id = ?1 and lease_epoch = ?2 and lease_id = ?3")?
        .execute(params![lease.run.0.as_bytes(), signed(lease.epoch), lease.id.0.as_bytes(), until.0])?;
    if renewed == 0 {
        run_key(connection, lease.run)?;
        return Err(Failed::Refused(StoreError::LeaseLost(lease.run)));
    }
    Ok(())
}

pub(crate) fn release(connection: &Connection, lease: &Lease) -> Result<(), Failed> {
    connection
        .prepare_cached(
            "update run set lease_id = null, lease_until = null, worker_id = null, worker_label = null \
             where id = ?1 and lease_epoch = ?2 and lease_id = ?3",
        )?
        .execute(params![lease.run.0.as_bytes(), signed(lease.epoch), lease.id.0.as_bytes()])?;
    Ok(())
}

pub(crate) fn void(connection: &Connection, run: RunId, worker_id: &str) -> Result<(), Failed> {
    connection
        .prepare_cached(
            "update run set lease_id = null, lease_until = null, worker_id = null, worker_label = null \
             where id = ?1 and worker_id = ?2",
        )?
        .execute(params![run.0.as_bytes(), worker_id])?;
    Ok(())
}

/// The key of the run, if `lease` is its newest.
pub(crate) fn held(connection: &Connection, lease: &Lease) -> Result<(i64, Seq), Failed> {
    let found = connection
        .prepare_cached("select key, head_seq from run where id = ?1 and lease_epoch = ?2 and lease_id = ?3")?
        .query_row(params![lease.run.0.as_bytes(), signed(lease.epoch), lease.id.0.as_bytes()], |row| {
            Ok((row.get(0)?, Seq(unsigned(row.get(1)?))))
        })
        .optional()?;
    match found {
        Some(found) => Ok(found),
        None => {
            run_key(connection, lease.run)?;
            Err(Failed::Refused(StoreError::LeaseLost(lease.run)))
        }
    }
}
