//! Who may write to a run.

use loopforge_core::id::{LeaseId, RunId, Seq};
use loopforge_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

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
