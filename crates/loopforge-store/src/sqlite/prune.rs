//! What runs take up, and how it is given back.
//!
//! What is needed is found out by reading all records of the runs that stay, without holding anybody up. Under the lock
//! only what came since is looked at: records that were appended meanwhile, by their place after the head that each run
//! had then.

use std::collections::{HashMap, HashSet};

use loopforge_core::id::{ContentHash, RunId, Seq};
use loopforge_core::time::Timestamp;
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::body::{self, COLUMNS, signed, unsigned};
use super::error::Failed;
use super::lease::run_key;
use super::read;
use crate::{Pruned, RunSize, derive};

/// What a record takes up, as far as it depends on the record.
const RECORD_BYTES: &str = "length(body) + coalesce(length(name), 0) + coalesce(length(word), 0) \
                            + coalesce(length(note), 0) + 32";

/// Checkpoints of ended runs but for the newest of each.
const OLD_CHECKPOINTS: &str = "from checkpoint where run in (select key from run where status in ('succeeded', 'failed', 'cancelled')) \
                               and seq < (select max(seq) from checkpoint as other where other.run = checkpoint.run)";

pub(crate) fn size(connection: &Connection, run: RunId) -> Result<RunSize, Failed> {
    let key = run_key(connection, run)?;
    let sum =
        |sql: &str| Ok::<_, Failed>(unsigned(connection.prepare_cached(sql)?.query_row([key], |row| row.get(0))?));
    let records = sum(&format!("select coalesce(sum({RECORD_BYTES}), 0) from record where run = ?1"))?;
    let checkpoints = sum("select coalesce(sum(length(content)), 0) from checkpoint where run = ?1")?;
    let mut needed = HashSet::new();
    blobs_of(connection, key, run, 0, &mut |blob| {
        needed.insert(blob);
    })?;
    let mut stored = connection.prepare_cached("select length(content) from blob where hash = ?1")?;
    let mut blobs = 0;
    for blob in needed {
        let mut rows = stored.query([blob.0])?;
        // One that is missing takes up nothing.
        blobs += rows.next()?.map_or(Ok(0), |row| row.get(0).map(unsigned))?;
    }
    Ok(RunSize { records, blobs, checkpoints })
}

/// Visits the blobs to which a run's records after `after` refer.
fn blobs_of(
    connection: &Connection,
    key: i64,
    run: RunId,
    after: i64,
    visit: &mut impl FnMut(ContentHash),
) -> Result<(), Failed> {
    let sql = format!("select {COLUMNS} from record where run = ?1 and seq > ?2 order by seq");
    let mut select = connection.prepare_cached(&sql)?;
    let mut rows = select.query(params![key, after])?;
    while let Some(row) = rows.next()? {
        let record = body::read(row)?.map_err(|unreadable| unreadable.into_store_error(run))?;
        record.event.for_each_blob(&mut |blob| visit(blob.hash));
    }
    Ok(())
}

/// What is to be removed, as the store was when somebody looked.
#[derive(Debug)]
pub(crate) struct Plan {
    runs: Vec<RunId>,
    /// The heads of the runs that stay.
    heads: HashMap<RunId, Seq>,
    /// Blobs that nobody needed.
    blobs: HashSet<ContentHash>,
    expected: Pruned,
}

impl Plan {
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.runs.clone()
    }

    pub(crate) fn expected(&self) -> Pruned {
        self.expected
    }
}

/// Looks for what can be removed along with `runs`.
pub(crate) fn plan(connection: &Connection, runs: &[RunId], now: Timestamp) -> Result<Plan, Failed> {
    let mut plan = Plan { runs: Vec::new(), heads: HashMap::new(), blobs: HashSet::new(), expected: Pruned::default() };
    let mut keys = HashSet::new();
    for run in runs.iter().collect::<HashSet<_>>() {
        derive::check_removable(&read::run(connection, *run, now)?)?;
        let key = run_key(connection, *run)?;
        keys.insert(key);
        plan.runs.push(*run);
        plan.expected += removed(connection, key)?;
    }
    let mut select = connection.prepare("select hash from blob")?;
    let hashes = select.query_map([], |row| row.get(0).map(ContentHash))?;
    plan.blobs = hashes.collect::<Result<_, _>>()?;
    let mut tasks = HashSet::new();
    for (key, run, head, task) in all_runs(connection)? {
        if keys.contains(&key) {
            continue;
        }
        tasks.insert(task);
        blobs_of(connection, key, run, 0, &mut |blob| {
            plan.blobs.remove(&blob);
        })?;
        plan.heads.insert(run, head);
    }
    let mut stored = connection.prepare("select length(content) from blob where hash = ?1")?;
    for blob in &plan.blobs {
        plan.expected.blobs += 1;
        plan.expected.bytes += unsigned(stored.query_row([blob.0], |row| row.get(0))?);
    }
    let mut select = connection.prepare("select hash, length(content) from task")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if !tasks.contains(&ContentHash(row.get(0)?)) {
            plan.expected.tasks += 1;
            plan.expected.bytes += unsigned(row.get(1)?);
        }
    }
    let mut select = connection.prepare(&format!("select run, length(content) {OLD_CHECKPOINTS}"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        // Those of runs that go are counted with them.
        if !keys.contains(&row.get(0)?) {
            plan.expected.checkpoints += 1;
            plan.expected.bytes += unsigned(row.get(1)?);
        }
    }
    Ok(plan)
}

fn all_runs(connection: &Connection) -> Result<Vec<(i64, RunId, Seq, ContentHash)>, Failed> {
    let mut select = connection.prepare_cached("select key, id, head_seq, task from run")?;
    let run = |row: &Row<'_>| {
        let id = RunId(Uuid::from_bytes(row.get(1)?));
        Ok((row.get(0)?, id, Seq(unsigned(row.get(2)?)), ContentHash(row.get(3)?)))
    };
    Ok(select.query_map([], run)?.collect::<Result<_, _>>()?)
}

/// What a run is made of, but for blobs and its task.
fn removed(connection: &Connection, key: i64) -> Result<Pruned, Failed> {
    let count = |sql: &str| {
        let counts = |row: &Row<'_>| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?)));
        Ok::<_, Failed>(connection.prepare_cached(sql)?.query_row([key], counts)?)
    };
    let (records, record_bytes) =
        count(&format!("select count(*), coalesce(sum({RECORD_BYTES}), 0) from record where run = ?1"))?;
    let (checkpoints, checkpoint_bytes) =
        count("select count(*), coalesce(sum(length(content)), 0) from checkpoint where run = ?1")?;
    Ok(Pruned { runs: 1, records, checkpoints, bytes: record_bytes + checkpoint_bytes, ..Pruned::default() })
}

/// Removes one run, if it can still be removed.
pub(crate) fn remove(connection: &Connection, run: RunId, now: Timestamp) -> Result<Pruned, Failed> {
    derive::check_removable(&read::run(connection, run, now)?)?;
    let key = run_key(connection, run)?;
    let pruned = removed(connection, key)?;
    for table in ["record", "state", "effect", "checkpoint", "reservation", "inbox"] {
        connection.prepare_cached(&format!("delete from {table} where run = ?1"))?.execute([key])?;
    }
    connection.prepare_cached("delete from run where key = ?1")?.execute([key])?;
    Ok(pruned)
}

/// Removes what nobody needs, as `plan` found and as it still is.
pub(crate) fn sweep(connection: &Connection, plan: &Plan) -> Result<Pruned, Failed> {
    let mut blobs = plan.blobs.clone();
    for (key, run, _, _) in all_runs(connection)? {
        let looked_at = plan.heads.get(&run).copied().unwrap_or_default();
        blobs_of(connection, key, run, signed(looked_at.0), &mut |blob| {
            blobs.remove(&blob);
        })?;
    }
    let mut pruned = Pruned::default();
    let mut delete = connection.prepare_cached("delete from blob where hash = ?1 returning length(content)")?;
    for blob in blobs {
        let mut rows = delete.query([blob.0])?;
        while let Some(row) = rows.next()? {
            pruned.blobs += 1;
            pruned.bytes += unsigned(row.get(0)?);
        }
    }
    let mut delete = connection
        .prepare_cached("delete from task where hash not in (select task from run) returning length(content)")?;
    let mut rows = delete.query([])?;
    while let Some(row) = rows.next()? {
        pruned.tasks += 1;
        pruned.bytes += unsigned(row.get(0)?);
    }
    let (checkpoints, bytes): (i64, i64) = connection
        .prepare_cached(&format!("select count(*), coalesce(sum(length(content)), 0) {OLD_CHECKPOINTS}"))?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    connection.prepare_cached(&format!("delete {OLD_CHECKPOINTS}"))?.execute([])?;
    pruned.checkpoints += unsigned(checkpoints);
    pruned.bytes += unsigned(bytes);
    Ok(pruned)
}
