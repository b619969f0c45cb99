//! Adding to the archives of many runs in one transaction.
//!
//! Two round trips, whatever the number of appends: the first locks the runs whose lease and head are as the appends say and
//! reads what they depend on; the second writes all rows and commits. An append that is stale or refused changes no row.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::ClientWrapper;
use futures_util::future;
use loopforge_core::id::{LeaseId, RunId, Seq};
use loopforge_core::record::RunStatus;
use loopforge_core::time::Timestamp;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::address::{Address, Lock, Share};
use super::columns::{Records, Rest};
use super::effects::{self, Table};
use super::error::Failed;
use super::rows::{CheckpointRow, Rows};
use super::text::escape_some;
use crate::derive::{self, EffectNews};
use crate::sqlite::body::signed;
use crate::sqlite::content::Content;
use crate::{Append, Appended, Durability, Lease, StoreError};

/// What an append says of the run as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) lease: Lease,
    pub(crate) expected: Seq,
    pub(crate) status: RunStatus,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) steps: u64,
    pub(crate) hard: bool,
}

impl Item {
    /// Gets an append ready.
    pub(crate) fn new(lease: &Lease, append: Append) -> Result<Self, StoreError> {
        if let Some(checkpoint) = &append.checkpoint {
            derive::check_checkpoint(checkpoint, &append.records)?;
        }
        let mut rows = Rows::new(append.expected_head, append.records, &append.blobs)?;
        rows.checkpoint =
            append.checkpoint.map(|kept| CheckpointRow { at: kept.at.0, content: Content::of(&kept.bytes) });
        let head = Head {
            lease: lease.clone(),
            expected: append.expected_head,
            status: append.status,
            wake_at: append.wake_at,
            steps: append.steps,
            hard: append.durability == Durability::Hard,
        };
        Ok(Self { head, rows })
    }
}

/// An append on its way.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) head: Head,
    pub(crate) rows: Rows,
}

/// Begins a transaction.
pub(crate) const fn begin(hard: bool) -> &'static str {
    if hard { "begin" } else { "begin; set local synchronous_commit = off" }
}

/// Locks the runs that are as their writers think. A stale writer's run isn't waited for.
const LOCK: &str = "\
    select wanted.number, run.key \
    from unnest($1::int8[], $2::uuid[], $3::int8[], $4::uuid[], $5::int8[]) as wanted (number, id, epoch, lease, head) \
    join run on run.id = wanted.id \
    where run.lease_epoch = wanted.epoch and run.lease_id = wanted.lease and run.head_seq = wanted.head \
    order by run.key \
    for no key update of run";

const BLOBS_THERE: &str = "select hash from blob where hash = any($1::bytea[])";

/// The effects that news can touch: those of the actions, those that have the tokens, and those that hold the business keys.
fn effects_touched() -> String {
    let columns = effects::COLUMNS;
    format!(
        "with news as (\
             select run.key as run, asked.step, asked.action, asked.token, asked.business_key \
             from unnest($1::uuid[], $2::int8[], $3::int8[], $4::text[], $5::text[]) \
                 as asked (id, step, action, token, business_key) \
             join run on run.id = asked.id), \
         own as (\
             select distinct {columns} from effect join news \
             on effect.run = news.run and effect.step = news.step and effect.action = news.action) \
         select * from own \
         union select {columns} from effect join news on md5(effect.token) = md5(news.token) \
         union select {columns} from effect join news \
             on effect.run = news.run and md5(effect.business_key) = md5(news.business_key) and effect.holds_key \
         union select {columns} from effect join own \
             on effect.run = own.run and md5(effect.business_key) = md5(own.business_key) and effect.holds_key"
    )
}

/// Moves the runs on and adds their records, in one statement with the fence.
const WRITE: &str = "\
    with moved as (\
        update run set head_seq = new.last, status = new.status, wake_at = new.wake_at, steps = new.steps, \
            updated_at = clock.now, lease_until = clock.now + new.ttl, workers_before = '{}' \
        from unnest($1::int8[], $2::int8[], $3::uuid[], $4::int8[], $5::int8[], $6::text[], $7::int8[], $8::int8[], \
                $9::int8[]) as new (key, epoch, lease, head, last, status, wake_at, steps, ttl), \
            (select coalesce($10::int8, now_us()) as now) as clock \
        where run.key = new.key and run.lease_epoch = new.epoch and run.lease_id = new.lease \
            and run.head_seq = new.head \
        returning run.key) \
    insert into record (run, seq, id, at, step, action, item, took_us, format, kind, name, word, note, body) \
    select row.* \
    from unnest($11::int8[], $12::int8[], $13::uuid[], $14::int8[], $15::int8[], $16::int8[], $17::int8[], $18::int8[], \
            $19::int2[], $20::int2[], $21::text[], $22::text[], $23::text[], $24::bytea[]) \
        as row (run, seq, id, at, step, action, item, took_us, format, kind, name, word, note, body) \
    join moved on moved.key = row.run";

/// A commit flushes only when it writes, so it writes something.
const TOUCH: &str = "update run set updated_at = updated_at where key = any($1::int8[])";

/// Appends all of `items`, which are of different runs, and says what became of each. `now`: the time, where it isn't the
/// server's.
pub(crate) async fn append(
    client: &ClientWrapper,
    items: &[Item],
    address: &Address,
    now: Option<i64>,
) -> Result<Vec<Result<Appended, StoreError>>, Failed> {
    let hard = items.iter().any(|item| item.head.hard);
    let result = async {
        let begin = format!("{}; select {}", begin(hard), address.lock(Lock::Blobs, Share::WithOthers));
        let found = look(client, items, &begin).await?;
        decide_and_write(client, items, found, now).await
    };
    let result: Result<_, Failed> = result.await;
    if let Err(failed) = &result
        && !failed.spoils()
    {
        client.batch_execute("rollback").await?;
    }
    result
}

/// What the first round trip brings.
struct Found {
    /// The keys of the runs that are locked, by the number of their item.
    locked: HashMap<i64, i64>,
    blobs: HashSet<Vec<u8>>,
    effects: Table,
}

async fn look(client: &ClientWrapper, items: &[Item], begin: &str) -> Result<Found, Failed> {
    let lock = client.prepare_cached(LOCK).await?;
    let mut wanted = Wanted::default();
    for (number, item) in (0..).zip(items) {
        wanted.numbers.push(number);
        wanted.ids.push(item.head.lease.run.0);
        wanted.epochs.push(signed(item.head.lease.epoch));
        wanted.leases.push(item.head.lease.id.0);
        wanted.heads.push(signed(item.head.expected.0));
    }
    let lock_params: [&(dyn ToSql + Sync); 5] =
        [&wanted.numbers, &wanted.ids, &wanted.epochs, &wanted.leases, &wanted.heads];
    let needed: Vec<Vec<u8>> = items.iter().flat_map(|item| &item.rows.needed).map(|hash| hash.0.to_vec()).collect();
    let asked = Asked::of(items.iter().map(|item| (item.head.lease.run, &item.rows)));
    // Sent in this order, without waiting in between.
    let (_, locked, blobs, effects) = future::try_join4(
        async { Ok(client.batch_execute(begin).await?) },
        query(client, &lock, &lock_params),
        async {
            if needed.is_empty() {
                return Ok(Vec::new());
            }
            let statement = client.prepare_cached(BLOBS_THERE).await?;
            query(client, &statement, &[&needed]).await
        },
        asked.query(client),
    )
    .await?;
    Ok(Found {
        locked: locked.iter().map(|row| (row.get(0), row.get(1))).collect(),
        blobs: blobs.iter().map(|row| row.get(0)).collect(),
        effects: Table::read(&effects),
    })
}

#[derive(Default)]
struct Wanted {
    numbers: Vec<i64>,
    ids: Vec<Uuid>,
    epochs: Vec<i64>,
    leases: Vec<Uuid>,
    heads: Vec<i64>,
}

/// The effects that are asked for.
#[derive(Default)]
pub(crate) struct Asked {
    ids: Vec<Uuid>,
    steps: Vec<i64>,
    actions: Vec<i64>,
    tokens: Vec<Option<String>>,
    keys: Vec<Option<String>>,
}

impl Asked {
    pub(crate) fn of<'a>(appends: impl Iterator<Item = (RunId, &'a Rows)>) -> Self {
        let mut asked = Self::default();
        for (run, rows) in appends {
            for one in &rows.effects {
                let (token, key) = match &one.news {
                    EffectNews::Started { token, business_key, .. } => {
                        (escape_some(Some(&token.0)), escape_some(business_key.as_deref()))
                    }
                    _ => (None, None),
                };
                asked.ids.push(run.0);
                asked.steps.push(one.step);
                asked.actions.push(one.action);
                asked.tokens.push(token);
                asked.keys.push(key);
            }
        }
        asked
    }

    pub(crate) async fn query(&self, client: &ClientWrapper) -> Result<Vec<Row>, Failed> {
        if self.ids.is_empty() {
            return Ok(Vec::new());
        }
        let statement = client.prepare_cached(&effects_touched()).await?;
        query(client, &statement, &[&self.ids, &self.steps, &self.actions, &self.tokens, &self.keys]).await
    }
}

async fn query(
    client: &ClientWrapper,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Failed> {
    Ok(client.query(statement, params).await?)
}

/// Makes sure that blobs which don't come along are there.
pub(crate) fn check_needed(rows: &Rows, there: &HashSet<Vec<u8>>) -> Result<(), StoreError> {
    match rows.needed.iter().find(|hash| !there.contains(hash.0.as_slice())) {
        Some(hash) => Err(derive::missing_blob(hash)),
        None => Ok(()),
    }
}

/// Which of these blobs are there.
pub(crate) async fn blobs_there(client: &ClientWrapper, rows: &Rows) -> Result<HashSet<Vec<u8>>, Failed> {
    if rows.needed.is_empty() {
        return Ok(HashSet::new());
    }
    let needed: Vec<Vec<u8>> = rows.needed.iter().map(|hash| hash.0.to_vec()).collect();
    let statement = client.prepare_cached(BLOBS_THERE).await?;
    Ok(query(client, &statement, &[&needed]).await?.iter().map(|row| row.get(0)).collect())
}

async fn decide_and_write(
    client: &ClientWrapper,
    items: &[Item],
    mut found: Found,
    now: Option<i64>,
) -> Result<Vec<Result<Appended, StoreError>>, Failed> {
    let mut results = Vec::with_capacity(items.len());
    let (mut good, mut touched) = (Vec::new(), Vec::new());
    for (number, item) in (0..).zip(items) {
        let Some(key) = found.locked.get(&number).copied() else {
            results.push(stale(client, item, &mut touched).await?);
            continue;
        };
        let checked =
            check_needed(&item.rows, &found.blobs).and_then(|()| found.effects.apply(key, &item.rows.effects));
        if checked.is_ok() {
            good.push((key, item));
        }
        results.push(checked.map(|()| Appended::Written));
    }
    if good.is_empty() && touched.is_empty() {
        client.batch_execute("rollback").await?;
        return Ok(results);
    }
    let write = client.prepare_cached(WRITE).await?;
    let touch = client.prepare_cached(TOUCH).await?;
    let heads = Heads::of(&good);
    let records = Records::of(good.iter().flat_map(|(key, item)| item.rows.records.iter().map(|row| (*key, row))));
    let mut write_params = heads.params();
    write_params.push(&now);
    write_params.extend(records.params());
    let rest = Rest::of(good.iter().map(|(key, item)| (*key, &item.rows)), &found.effects);
    let prepared = rest.prepare(client).await?;
    // Sent in this order, without waiting in between. When one fails, so does the commit.
    let written = future::try_join4(
        async { Ok::<_, Failed>(client.execute(&write, &write_params).await?) },
        rest.write(client, &prepared),
        async {
            if !touched.is_empty() {
                client.execute(&touch, &[&touched]).await?;
            }
            Ok(())
        },
        async { Ok(client.batch_execute("commit").await?) },
    );
    let (inserted, ..) = written.await?;
    debug_assert_eq!(inserted as usize, records.seqs.len(), "the rows were locked");
    Ok(results)
}

/// What to say to a writer whose lease or head isn't the newest: perhaps an earlier try of it went through.
async fn stale(
    client: &ClientWrapper,
    item: &Item,
    touched: &mut Vec<i64>,
) -> Result<Result<Appended, StoreError>, Failed> {
    let run = item.head.lease.run;
    let statement = client
        .prepare_cached(
            "select key, (select count(*) from record join unnest($2::int8[], $3::uuid[]) as mine (seq, id) \
                 on record.seq = mine.seq and record.id = mine.id where record.run = run.key) \
             from run where id = $1",
        )
        .await?;
    let seqs: Vec<i64> = item.rows.records.iter().map(|row| row.seq).collect();
    let ids: Vec<Uuid> = item.rows.records.iter().map(|row| Uuid::from_bytes(row.id)).collect();
    let Some(row) = client.query_opt(&statement, &[&run.0, &seqs, &ids]).await? else {
        return Ok(Err(StoreError::NoRun(run)));
    };
    let (key, mine): (i64, i64) = (row.get(0), row.get(1));
    if mine != signed(seqs.len() as u64) {
        return Ok(Ok(Appended::Fenced));
    }
    if item.head.hard {
        // The earlier commit may not have reached the disk or the replica yet. One that follows it can't be safe before it.
        touched.push(key);
    }
    Ok(Ok(Appended::AlreadyMine))
}

#[derive(Default)]
struct Heads {
    keys: Vec<i64>,
    epochs: Vec<i64>,
    leases: Vec<Uuid>,
    heads: Vec<i64>,
    lasts: Vec<i64>,
    statuses: Vec<&'static str>,
    wakes: Vec<Option<i64>>,
    steps: Vec<i64>,
    ttls: Vec<i64>,
}

impl Heads {
    fn of(items: &[(i64, &Item)]) -> Self {
        let mut heads = Self::default();
        for (key, Item { head, rows }) in items {
            let LeaseId(lease) = head.lease.id;
            heads.keys.push(*key);
            heads.epochs.push(signed(head.lease.epoch));
            heads.leases.push(lease);
            heads.heads.push(signed(head.expected.0));
            heads.lasts.push(rows.last());
            heads.statuses.push(head.status.name());
            heads.wakes.push(head.wake_at.map(|at| at.0));
            heads.steps.push(signed(head.steps));
            heads.ttls.push(super::lease::micros(head.lease.ttl));
        }
        heads
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.keys,
            &self.epochs,
            &self.leases,
            &self.heads,
            &self.lasts,
            &self.statuses,
            &self.wakes,
            &self.steps,
            &self.ttls,
        ]
    }
}
