//! Who may write to a run.
//!
//! A lease is live until its own end, and as long as its worker's heartbeat lasts, whichever is later. All times are the
//! server's, so a worker whose clock is wrong neither takes a run early nor keeps one long.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::future;
use loopforge_core::id::{LeaseId, RunId, Seq};
use loopforge_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::append::begin;
use super::error::Failed;
use super::text::{escape, unescape};
use crate::sqlite::body::{signed, unsigned};
use crate::{Lease, StoreError, StoredCheckpoint, Worker};

/// Runs that are taken back from dead workers at a time.
const SWEPT: i64 = 100;

pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// From when on a run that nobody has may be claimed, by its status. Not before now: claims look ahead only.
pub(crate) const READY: &str = "case \
    when run.status in ('queued', 'running') then clock.now \
    when run.status = 'waiting' then greatest(run.wake_at, case when run.wake_at is not null then clock.now end) \
    end";

/// The worker lives until the end of its newest lease at least.
const BEAT: &str = "\
    insert into worker (id, label, until) select $2::text, $3::text, clock.now + $4::int8 from clock \
    on conflict (id) do update set label = excluded.label, until = greatest(worker.until, excluded.until)";

/// Claims one run, whatever its status. `now`: the time, where it isn't the server's.
pub(crate) async fn claim(
    client: &ClientWrapper,
    run: RunId,
    worker: &Worker,
    id: LeaseId,
    now: Option<i64>,
) -> Result<Lease, Failed> {
    // The condition stands in the statement, so that there is no moment between looking and taking.
    let sql = format!(
        "with clock as (select coalesce($6::int8, now_us()) as now), beat as ({BEAT}) \
         update run set lease_epoch = lease_epoch + 1, lease_id = $5, lease_until = clock.now + $4, worker_id = $2, \
             worker_label = $3, ready_at = null, \
             workers_before = case when run.lease_id is null or run.worker_id = $2 then run.workers_before \
                 else array_append(run.workers_before, run.worker_id) end \
         from clock \
         where run.id = $1 and (run.lease_id is null or run.worker_id = $2 or (run.lease_until <= clock.now \
             and not exists (select from worker where worker.id = run.worker_id and worker.until > clock.now))) \
         returning run.lease_epoch, run.head_seq, run.lease_until, run.workers_before"
    );
    let statement = client.prepare_cached(&sql).await?;
    let (own, label) = (escape(&worker.id), escape(&worker.label));
    let params: [&(dyn ToSql + Sync); 6] = [&run.0, &own, &label, &micros(worker.lease_ttl), &id.0, &now];
    if let Some(row) = client.query_opt(&statement, &params).await? {
        return Ok(Lease {
            run,
            epoch: unsigned(row.get(0)),
            id,
            until: Timestamp(row.get(2)),
            ttl: worker.lease_ttl,
            head: Seq(unsigned(row.get(1))),
            before: before(row.get(3)),
        });
    }
    let statement = client
        .prepare_cached(
            "select run.worker_label, run.worker_id, greatest(run.lease_until, worker.until) \
             from run left join worker on worker.id = run.worker_id where run.id = $1",
        )
        .await?;
    let Some(row) = client.query_opt(&statement, &[&run.0]).await? else { return Err(StoreError::NoRun(run).into()) };
    match (row.get::<_, Option<String>>(0), row.get::<_, Option<String>>(1), row.get::<_, Option<i64>>(2)) {
        (Some(owner), Some(worker_id), Some(until)) => {
            Err(StoreError::Held { run, owner, worker_id, until: Timestamp(until) }.into())
        }
        // Given up in between.
        _ => Err(StoreError::Unavailable(format!("{run} changed hands at this moment; try again")).into()),
    }
}

/// What is claimed at once.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) worker: Worker,
    /// Drawn for the leases of this claim; as many as runs are wanted.
    pub(crate) ids: Vec<Uuid>,
    pub(crate) except: Vec<Uuid>,
    /// Nothing that became ready before is looked at.
    pub(crate) mark: i64,
    pub(crate) now: Option<i64>,
}

/// Claims runs that are due, those that have waited longest first. Returns since when the youngest of them was ready, too.
pub(crate) async fn claim_due(client: &ClientWrapper, due: &Due) -> Result<(Vec<Lease>, i64), Failed> {
    // `skip locked`: what another worker is about to claim isn't waited for.
    let sql = "with clock as materialized (select coalesce($1::int8, now_us()) as now), \
         due as materialized (\
             select key, ready_at from run \
             where ready_at <= (select now from clock) and ready_at > $6 and id <> all($7::uuid[]) \
             order by ready_at, key limit $8 for no key update skip locked), \
         numbered as (select key, ready_at, row_number() over (order by ready_at, key) as number from due), \
         beat as (\
             insert into worker (id, label, until) select $2::text, $3::text, clock.now + $4::int8 from clock \
             where exists (select from due) \
             on conflict (id) do update set label = excluded.label, until = greatest(worker.until, excluded.until)) \
         update run set lease_epoch = lease_epoch + 1, lease_id = ($5::uuid[])[numbered.number], \
             lease_until = clock.now + $4, worker_id = $2, worker_label = $3, ready_at = null \
         from numbered, clock where run.key = numbered.key \
         returning run.id, run.lease_epoch, run.lease_id, run.lease_until, run.head_seq, run.workers_before, \
             numbered.ready_at";
    let statement = client.prepare_cached(sql).await?;
    let (own, label) = (escape(&due.worker.id), escape(&due.worker.label));
    let limit = signed(due.ids.len() as u64);
    let params: [&(dyn ToSql + Sync); 8] =
        [&due.now, &own, &label, &micros(due.worker.lease_ttl), &due.ids, &due.mark, &due.except, &limit];
    let mut rows = client.query(&statement, &params).await?;
    rows.sort_by_key(|row| row.get::<_, i64>(6));
    let youngest = rows.last().map_or(due.mark, |row| row.get(6));
    Ok((rows.iter().map(|row| lease_of(row, due.worker.lease_ttl)).collect(), youngest))
}

fn lease_of(row: &Row, ttl: Duration) -> Lease {
    Lease {
        run: RunId(row.get(0)),
        epoch: unsigned(row.get(1)),
        id: LeaseId(row.get(2)),
        until: Timestamp(row.get(3)),
        ttl,
        head: Seq(unsigned(row.get(4))),
        before: before(row.get(5)),
    }
}

fn before(stored: Vec<String>) -> Vec<String> {
    stored.into_iter().map(unescape).collect()
}

/// The leases of these ids that were given out after all, by a claim whose answer was lost.
pub(crate) async fn given_out(client: &ClientWrapper, worker: &Worker, ids: &[Uuid]) -> Result<Vec<Lease>, Failed> {
    let statement = client
        .prepare_cached(
            "select id, lease_epoch, lease_id, lease_until, head_seq, workers_before from run \
             where worker_id = $1 and lease_id = any($2::uuid[])",
        )
        .await?;
    let own = escape(&worker.id);
    let rows = client.query(&statement, &[&own, &ids]).await?;
    Ok(rows.iter().map(|row| lease_of(row, worker.lease_ttl)).collect())
}

/// Makes the runs of workers that are dead ready for others, and forgets workers that have been gone for a day.
pub(crate) async fn sweep(client: &ClientWrapper, now: Option<i64>) -> Result<u64, Failed> {
    let sql = format!(
        "with clock as materialized (select coalesce($1::int8, now_us()) as now), \
         gone as materialized (\
             select run.key from worker join run on run.worker_id = worker.id \
             where worker.until <= (select now from clock) and run.lease_id is not null \
                 and run.lease_until <= (select now from clock) \
             limit $2 for no key update of run skip locked) \
         update run set lease_id = null, lease_until = null, worker_id = null, worker_label = null, ready_at = {READY}, \
             workers_before = array_append(run.workers_before, run.worker_id) \
         from gone, clock where run.key = gone.key"
    );
    let statement = client.prepare_cached(&sql).await?;
    let swept = client.execute(&statement, &[&now, &SWEPT]).await?;
    let statement = client
        .prepare_cached(
            "delete from worker where until <= coalesce($1::int8, now_us()) - 86400000000 \
                 and not exists (select from run where run.worker_id = worker.id and run.lease_id is not null)",
        )
        .await?;
    client.execute(&statement, &[&now]).await?;
    Ok(swept)
}

/// The worker's heartbeat.
pub(crate) async fn beat(client: &ClientWrapper, worker: &Worker, now: Option<i64>) -> Result<Timestamp, Failed> {
    let statement = client
        .prepare_cached(
            "insert into worker (id, label, until) select $1::text, $2::text, coalesce($4::int8, now_us()) + $3::int8 \
             on conflict (id) do update set label = excluded.label, until = greatest(worker.until, excluded.until) \
             returning until",
        )
        .await?;
    let (own, label, ttl) = (escape(&worker.id), escape(&worker.label), micros(worker.lease_ttl));
    let params: [&(dyn ToSql + Sync); 4] = [&own, &label, &ttl, &now];
    let (_, row, ()) = future::try_join3(
        client.batch_execute(begin(false)),
        client.query_one(&statement, &params),
        client.batch_execute("commit"),
    )
    .await?;
    Ok(Timestamp(row.get(0)))
}

/// When the next run is due, if nothing happens until then.
pub(crate) async fn next_due(client: &ClientWrapper) -> Result<Option<Timestamp>, Failed> {
    let statement = client
        .prepare_cached(
            "select least(\
                 (select min(ready_at) from run where ready_at is not null), \
                 (select min(greatest(run.lease_until, worker.until)) \
                  from run left join worker on worker.id = run.worker_id \
                  where run.lease_id is not null and (run.status in ('queued', 'running') \
                      or (run.status = 'waiting' and run.wake_at is not null))))",
        )
        .await?;
    let row = client.query_one(&statement, &[]).await?;
    Ok(row.get::<_, Option<i64>>(0).map(Timestamp))
}

pub(crate) async fn renew(
    client: &ClientWrapper,
    lease: &Lease,
    ttl: Duration,
    now: Option<i64>,
) -> Result<Timestamp, Failed> {
    let statement = client
        .prepare_cached(
            "update run set lease_until = coalesce($5::int8, now_us()) + $4::int8 \
             where id = $1 and lease_epoch = $2 and lease_id = $3 returning lease_until",
        )
        .await?;
    let params: [&(dyn ToSql + Sync); 5] = [&lease.run.0, &signed(lease.epoch), &lease.id.0, &micros(ttl), &now];
    let (_, row, ()) = future::try_join3(
        client.batch_execute(begin(false)),
        client.query_opt(&statement, &params),
        client.batch_execute("commit"),
    )
    .await?;
    match row {
        Some(row) => Ok(Timestamp(row.get(0))),
        None => Err(lost(client, lease.run).await?.into()),
    }
}

/// Why a lease isn't the newest.
async fn lost(client: &ClientWrapper, run: RunId) -> Result<StoreError, Failed> {
    let statement = client.prepare_cached("select from run where id = $1").await?;
    let there = client.query_opt(&statement, &[&run.0]).await?.is_some();
    Ok(if there { StoreError::LeaseLost(run) } else { StoreError::NoRun(run) })
}

pub(crate) async fn release(client: &ClientWrapper, lease: &Lease, now: Option<i64>) -> Result<(), Failed> {
    let sql = format!(
        "with clock as (select coalesce($4::int8, now_us()) as now) \
         update run set lease_id = null, lease_until = null, worker_id = null, worker_label = null, ready_at = {READY} \
         from clock where run.id = $1 and run.lease_epoch = $2 and run.lease_id = $3"
    );
    let statement = client.prepare_cached(&sql).await?;
    let params: [&(dyn ToSql + Sync); 4] = [&lease.run.0, &signed(lease.epoch), &lease.id.0, &now];
    future::try_join3(
        client.batch_execute(begin(false)),
        client.execute(&statement, &params),
        client.batch_execute("commit"),
    )
    .await?;
    Ok(())
}

pub(crate) async fn void(client: &ClientWrapper, run: RunId, worker_id: &str, now: Option<i64>) -> Result<(), Failed> {
    let sql = format!(
        "with clock as (select coalesce($3::int8, now_us()) as now) \
         update run set lease_id = null, lease_until = null, worker_id = null, worker_label = null, ready_at = {READY} \
         from clock where run.id = $1 and run.worker_id = $2 and run.lease_id is not null"
    );
    let statement = client.prepare_cached(&sql).await?;
    client.execute(&statement, &[&run.0, &escape(worker_id), &now]).await?;
    Ok(())
}

/// Keeps a checkpoint, and the one before it.
pub(crate) async fn save_checkpoint(
    client: &ClientWrapper,
    lease: &Lease,
    checkpoint: &StoredCheckpoint,
    content: &crate::sqlite::content::Content,
) -> Result<(), Failed> {
    let statement = client
        .prepare_cached(
            "with held as materialized (\
                 select key, head_seq from run where id = $1 and lease_epoch = $2 and lease_id = $3 for share), \
             kept as (\
                 insert into checkpoint (run, seq, at, hash, size, codec, content) \
                 select key, $4, $5, $6, $7, $8, $9 from held where head_seq >= $4 \
                 on conflict (run, seq) do update set at = excluded.at, hash = excluded.hash, size = excluded.size, \
                     codec = excluded.codec, content = excluded.content), \
             gone as (\
                 delete from checkpoint using held where run = held.key and held.head_seq >= $4 and seq < \
                     (select max(seq) from checkpoint as other where other.run = held.key and other.seq <> $4)) \
             select head_seq from held",
        )
        .await?;
    let (seq, hash) = (signed(checkpoint.seq.0), content.hash.as_slice());
    let codec = i16::from(content.compressed);
    let (epoch, at) = (signed(lease.epoch), checkpoint.at.0);
    let params: [&(dyn ToSql + Sync); 9] =
        [&lease.run.0, &epoch, &lease.id.0, &seq, &at, &hash, &content.size, &codec, &content.bytes];
    let (_, row, ()) = future::try_join3(
        client.batch_execute(begin(false)),
        client.query_opt(&statement, &params),
        client.batch_execute("commit"),
    )
    .await?;
    match row.map(|row| row.get::<_, i64>(0)) {
        Some(head) if head >= seq => Ok(()),
        Some(_) => {
            let problem = format!("there is no record {} to keep a checkpoint of", checkpoint.seq);
            Err(StoreError::Invalid(problem).into())
        }
        None => Err(lost(client, lease.run).await?.into()),
    }
}
