//! What runs take up, and how it is given back.
//!
//! What is needed is found out by reading all records of the runs that stay, without holding anybody up. Under a lock that
//! keeps appends waiting only what came since is looked at: records after the head that each run had then.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::ClientWrapper;
use loopforge_core::id::{ContentHash, RunId};
use tokio_postgres::types::ToSql;

use super::address::{Address, Lock, Share};
use super::append::begin;
use super::error::Failed;
use super::read;
use super::rows::{self, columns};
use crate::sqlite::body::unsigned;
use crate::{Pruned, RunSize, StoreError, derive};

/// What a record takes up, as far as it depends on the record.
const RECORD_BYTES: &str = "octet_length(body) + coalesce(octet_length(name), 0) + coalesce(octet_length(word), 0) \
                            + coalesce(octet_length(note), 0) + 32";

/// Checkpoints of ended runs but for the newest of each.
const OLD_CHECKPOINTS: &str = "from checkpoint where run in (select key from run where status in ('succeeded', 'failed', 'cancelled')) \
                               and seq < (select max(seq) from checkpoint as other where other.run = checkpoint.run)";

/// Records that are read at once.
const PAGE: i64 = 500;

async fn query(
    client: &ClientWrapper,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<tokio_postgres::Row>, Failed> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

/// Two sums of one statement.
async fn sums(client: &ClientWrapper, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<(u64, u64), Failed> {
    let rows = query(client, sql, params).await?;
    Ok(rows.first().map_or((0, 0), |row| (unsigned(row.get(0)), unsigned(row.get(1)))))
}

async fn key_of(client: &ClientWrapper, run: RunId) -> Result<i64, Failed> {
    let found = query(client, "select key from run where id = $1", &[&run.0]).await?;
    Ok(found.first().ok_or(StoreError::NoRun(run))?.get(0))
}

pub(crate) async fn size(client: &ClientWrapper, run: RunId) -> Result<RunSize, Failed> {
    let key = key_of(client, run).await?;
    let mut needed = HashSet::new();
    blobs_of(client, key, run, 0, &mut |blob| {
        needed.insert(blob);
    })
    .await?;
    let own = removed(client, key).await?;
    let blobs = sums(client, BLOB_BYTES, &[&hashes(&needed)]).await?.1;
    Ok(RunSize { records: own.record_bytes, blobs, checkpoints: own.checkpoint_bytes })
}

/// How many of these blobs there are, and how much they take up.
const BLOB_BYTES: &str =
    "select count(*), coalesce(sum(octet_length(content)), 0)::int8 from blob where hash = any($1::bytea[])";

fn hashes(blobs: &HashSet<ContentHash>) -> Vec<Vec<u8>> {
    blobs.iter().map(|hash| hash.0.to_vec()).collect()
}

/// Visits the blobs to which a run's records after `after` refer.
async fn blobs_of(
    client: &ClientWrapper,
    key: i64,
    run: RunId,
    after: i64,
    visit: &mut (dyn FnMut(ContentHash) + Send),
) -> Result<(), Failed> {
    let sql = format!("select {} from record where run = $1 and seq > $2 order by seq limit $3", columns("record"));
    let mut last = after;
    loop {
        let page = query(client, &sql, &[&key, &last, &PAGE]).await?;
        for row in &page {
            last = row.get(0);
            rows::record(row, 0, run)?.event.for_each_blob(&mut |blob| visit(blob.hash));
        }
        if (page.len() as i64) < PAGE {
            return Ok(());
        }
    }
}

/// What is to be removed, as the store was when somebody looked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) runs: Vec<RunId>,
    /// The last records of the runs that stay.
    heads: HashMap<RunId, i64>,
    /// Blobs that nobody needed.
    blobs: HashSet<ContentHash>,
    pub(crate) expected: Pruned,
}

/// Looks for what can be removed along with `runs`.
pub(crate) async fn plan(client: &ClientWrapper, runs: &[RunId], now: Option<i64>) -> Result<Plan, Failed> {
    client.batch_execute("begin isolation level repeatable read read only; set local statement_timeout = 0").await?;
    let plan = plan_inside(client, runs, now).await;
    client.batch_execute("commit").await?;
    plan
}

async fn plan_inside(client: &ClientWrapper, runs: &[RunId], now: Option<i64>) -> Result<Plan, Failed> {
    let mut plan = Plan { runs: Vec::new(), heads: HashMap::new(), blobs: HashSet::new(), expected: Pruned::default() };
    let mut keys = HashSet::new();
    for run in runs.iter().collect::<HashSet<_>>() {
        derive::check_removable(&read::run(client, *run, now).await?)?;
        let key = key_of(client, *run).await?;
        keys.insert(key);
        plan.runs.push(*run);
        plan.expected += removed(client, key).await?.pruned();
    }
    for row in query(client, "select hash from blob", &[]).await? {
        plan.blobs.insert(hash(row.get(0))?);
    }
    let mut tasks = HashSet::new();
    for row in query(client, "select key, id, head_seq, task from run", &[]).await? {
        let (key, run, head): (i64, _, i64) = (row.get(0), RunId(row.get(1)), row.get(2));
        if keys.contains(&key) {
            continue;
        }
        tasks.insert(row.get::<_, Vec<u8>>(3));
        let blobs = &mut plan.blobs;
        blobs_of(client, key, run, 0, &mut |blob| {
            blobs.remove(&blob);
        })
        .await?;
        plan.heads.insert(run, head);
    }
    let (blobs, bytes) = sums(client, BLOB_BYTES, &[&hashes(&plan.blobs)]).await?;
    plan.expected.blobs += blobs;
    plan.expected.bytes += bytes;
    for row in query(client, "select hash, octet_length(content)::int8 from task", &[]).await? {
        if !tasks.contains(row.get::<_, &[u8]>(0)) {
            plan.expected.tasks += 1;
            plan.expected.bytes += unsigned(row.get(1));
        }
    }
    let sql = format!("select run, octet_length(content)::int8 {OLD_CHECKPOINTS}");
    for row in query(client, &sql, &[]).await? {
        // Those of runs that go are counted with them.
        if !keys.contains(&row.get(0)) {
            plan.expected.checkpoints += 1;
            plan.expected.bytes += unsigned(row.get(1));
        }
    }
    Ok(plan)
}

fn hash(bytes: &[u8]) -> Result<ContentHash, Failed> {
    let hash = bytes.try_into().map_err(|_| StoreError::Corrupt("the hash of a blob has a wrong length".to_owned()))?;
    Ok(ContentHash(hash))
}

/// What a run is made of, but for blobs and its task.
struct Own {
    records: u64,
    record_bytes: u64,
    checkpoints: u64,
    checkpoint_bytes: u64,
}

impl Own {
    fn pruned(&self) -> Pruned {
        Pruned {
            runs: 1,
            records: self.records,
            checkpoints: self.checkpoints,
            bytes: self.record_bytes + self.checkpoint_bytes,
            ..Pruned::default()
        }
    }
}

async fn removed(client: &ClientWrapper, key: i64) -> Result<Own, Failed> {
    let sql = format!("select count(*), coalesce(sum({RECORD_BYTES}), 0)::int8 from record where run = $1");
    let (records, record_bytes) = sums(client, &sql, &[&key]).await?;
    let sql = "select count(*), coalesce(sum(octet_length(content)), 0)::int8 from checkpoint where run = $1";
    let (checkpoints, checkpoint_bytes) = sums(client, sql, &[&key]).await?;
    Ok(Own { records, record_bytes, checkpoints, checkpoint_bytes })
}

/// Removes one run, if it can still be removed.
pub(crate) async fn remove(client: &ClientWrapper, run: RunId, now: Option<i64>) -> Result<Pruned, Failed> {
    client.batch_execute(begin(false)).await?;
    // Nobody takes it up meanwhile.
    query(client, "select from run where id = $1 for update", &[&run.0]).await?;
    derive::check_removable(&read::run(client, run, now).await?)?;
    let key = key_of(client, run).await?;
    let pruned = removed(client, key).await?.pruned();
    for table in ["record", "state", "effect", "checkpoint", "reservation", "inbox"] {
        query(client, &format!("delete from {table} where run = $1"), &[&key]).await?;
    }
    query(client, "delete from run where key = $1", &[&key]).await?;
    client.batch_execute("commit").await?;
    Ok(pruned)
}

/// Removes what nobody needs, as `plan` found and as it still is.
pub(crate) async fn sweep(client: &ClientWrapper, plan: &Plan, address: &Address) -> Result<Pruned, Failed> {
    let lock = address.lock(Lock::Blobs, Share::Alone);
    client.batch_execute(&format!("{}; select {lock}", begin(false))).await?;
    let mut blobs = plan.blobs.clone();
    for row in query(client, "select key, id, head_seq from run", &[]).await? {
        let (key, run, head): (i64, _, i64) = (row.get(0), RunId(row.get(1)), row.get(2));
        let looked_at = plan.heads.get(&run).copied().unwrap_or_default();
        if head > looked_at {
            blobs_of(client, key, run, looked_at, &mut |blob| {
                blobs.remove(&blob);
            })
            .await?;
        }
    }
    let mut pruned = Pruned::default();
    let sql = "with gone as (delete from blob where hash = any($1::bytea[]) returning octet_length(content) as size) \
               select count(*), coalesce(sum(size), 0)::int8 from gone";
    let (count, bytes) = sums(client, sql, &[&hashes(&blobs)]).await?;
    (pruned.blobs, pruned.bytes) = (count, bytes);
    let sql = "with gone as (delete from task where not exists (select from run where run.task = task.hash) \
                   returning octet_length(content) as size) \
               select count(*), coalesce(sum(size), 0)::int8 from gone";
    let (count, bytes) = sums(client, sql, &[]).await?;
    pruned.tasks = count;
    pruned.bytes += bytes;
    let sql = format!(
        "with gone as (delete {OLD_CHECKPOINTS} returning octet_length(content) as size) \
         select count(*), coalesce(sum(size), 0)::int8 from gone"
    );
    let (count, bytes) = sums(client, &sql, &[]).await?;
    pruned.checkpoints = count;
    pruned.bytes += bytes;
    client.batch_execute("commit").await?;
    Ok(pruned)
}
