//! Queries. Each is one statement, and so sees one state of the database.

use std::collections::BTreeMap;

use deadpool_postgres::ClientWrapper;
use loopforge_core::expression::StateValue;
use loopforge_core::id::{ActionNo, ContentHash, RunId, Seq, StepNo};
use loopforge_core::record::{ActionId, Event, Record, RunStatus};
use loopforge_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::effects;
use super::error::Failed;
use super::rows::{self, columns};
use super::text::{escape, unescape};
use crate::memory::fold_versions;
use crate::sqlite::body::{signed, unsigned};
use crate::sqlite::content;
use crate::{EffectInfo, EffectState, Owner, RunInfo, StateVersion, StoreError, StoredCheckpoint};

async fn query(client: &ClientWrapper, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failed> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

pub(crate) async fn records(
    client: &ClientWrapper,
    run: RunId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Record>, Failed> {
    // Its head comes along with each, so that a hole at the end is seen too.
    let sql = format!(
        "select run.head_seq, record.seq is not null, {} from run left join lateral \
             (select * from record where record.run = run.key and seq > $2 order by seq limit $3) as record on true \
         where run.id = $1 order by record.seq",
        columns("record")
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = query(client, &sql, &[&run.0, &signed(after.0), &limit]).await?;
    let missing = |seq: Seq| StoreError::Corrupt(format!("record {seq} of {run} is missing; restore a backup"));
    let mut last = after;
    let mut records = Vec::with_capacity(found.len());
    for row in found.iter().filter(|row| row.get::<_, bool>(1)) {
        let record = rows::record(row, 2, run)?;
        if record.seq != last.next() {
            return Err(missing(last.next()).into());
        }
        last = record.seq;
        records.push(record);
    }
    let head = found.first().map_or(0, |row| unsigned(row.get(0)));
    if (records.len() as i64) < limit && last.0 < head {
        return Err(missing(last.next()).into());
    }
    Ok(records)
}

pub(crate) async fn step_records(client: &ClientWrapper, run: RunId, step: StepNo) -> Result<Vec<Record>, Failed> {
    let sql = format!(
        "select {} from record join run on run.key = record.run where run.id = $1 and record.step = $2 \
         order by record.seq",
        columns("record")
    );
    let found = query(client, &sql, &[&run.0, &signed(step.0)]).await?;
    Ok(found.iter().map(|row| rows::record(row, 0, run)).collect::<Result<_, _>>()?)
}

const RUN: &str = "select run.id, name, task, workspace, base, status, head_seq, steps, created_at, updated_at, wake_at, \
                       case when lease_id is not null then greatest(lease_until, worker.until) end, worker_label, \
                       worker_id, coalesce($1::int8, now_us()) \
                   from run left join worker on worker.id = run.worker_id";

pub(crate) async fn run(client: &ClientWrapper, run: RunId, now: Option<i64>) -> Result<RunInfo, Failed> {
    let found = query(client, &format!("{RUN} where run.id = $2"), &[&now, &run.0]).await?;
    Ok(run_info(found.first().ok_or(StoreError::NoRun(run))?)?)
}

pub(crate) async fn runs(client: &ClientWrapper, limit: usize, now: Option<i64>) -> Result<Vec<RunInfo>, Failed> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = format!("{RUN} order by created_at desc, run.id desc limit $2");
    let found = query(client, &sql, &[&now, &limit]).await?;
    Ok(found.iter().map(run_info).collect::<Result<_, _>>()?)
}

fn run_info(row: &Row) -> Result<RunInfo, StoreError> {
    let id = RunId(row.get(0));
    let status: &str = row.get(5);
    let status = status_of(status)
        .ok_or_else(|| StoreError::Corrupt(format!("{id} has the status `{status}`, which there isn't")))?;
    let task: &[u8] = row.get(2);
    let task: [u8; 32] =
        task.try_into().map_err(|_| StoreError::Corrupt(format!("the hash of the task of {id} has a wrong length")))?;
    let now = Timestamp(row.get(14));
    let until = row.get::<_, Option<i64>>(11).map(Timestamp).filter(|until| *until > now);
    let text = |column: usize| row.get::<_, Option<String>>(column).map(unescape).unwrap_or_default();
    Ok(RunInfo {
        id,
        name: text(1),
        task: ContentHash(task),
        workspace: text(3),
        base: text(4),
        status,
        head: Seq(unsigned(row.get(6))),
        steps: unsigned(row.get(7)),
        created_at: Timestamp(row.get(8)),
        updated_at: Timestamp(row.get(9)),
        wake_at: row.get::<_, Option<i64>>(10).map(Timestamp),
        owner: until.map(|until| Owner { id: text(13), label: text(12), until }),
    })
}

fn status_of(name: &str) -> Option<RunStatus> {
    use RunStatus::{Cancelled, Failed, Paused, Queued, Running, Succeeded, Waiting};
    [Queued, Running, Waiting, Paused, Succeeded, Failed, Cancelled].into_iter().find(|status| status.name() == name)
}

pub(crate) async fn task(client: &ClientWrapper, task: ContentHash) -> Result<Vec<u8>, Failed> {
    named_content(client, "select size, codec, content from task where hash = $1", task, "task").await
}

pub(crate) async fn blob(client: &ClientWrapper, blob: ContentHash) -> Result<Vec<u8>, Failed> {
    named_content(client, "select size, codec, content from blob where hash = $1", blob, "blob").await
}

async fn named_content(client: &ClientWrapper, sql: &str, hash: ContentHash, what: &str) -> Result<Vec<u8>, Failed> {
    let found = query(client, sql, &[&hash.0.as_slice()]).await?;
    let corrupt = |problem: &str| StoreError::Corrupt(format!("{what} {hash} {problem}; restore a backup"));
    let row = found.first().ok_or_else(|| corrupt("is missing"))?;
    Ok(content::read(&hash.0, row.get(0), row.get::<_, i16>(1) == 1, row.get(2)).map_err(corrupt)?)
}

pub(crate) async fn checkpoint(client: &ClientWrapper, run: RunId) -> Result<Option<StoredCheckpoint>, Failed> {
    let sql = "select seq, at, hash, size, codec, content from run left join checkpoint on checkpoint.run = run.key \
               where run.id = $1 order by seq desc nulls last";
    let found = query(client, sql, &[&run.0]).await?;
    if found.is_empty() {
        return Err(StoreError::NoRun(run).into());
    }
    for row in &found {
        let Some(seq) = row.get::<_, Option<i64>>(0) else { continue };
        let hash: &[u8] = row.get(2);
        match content::read(hash, row.get(3), row.get::<_, i16>(4) == 1, row.get(5)) {
            Ok(bytes) => {
                return Ok(Some(StoredCheckpoint { seq: Seq(unsigned(seq)), at: Timestamp(row.get(1)), bytes }));
            }
            // The archive has all that it held; loading only takes longer.
            Err(problem) => tracing::warn!(%run, seq, problem, "a damaged checkpoint is passed over"),
        }
    }
    Ok(None)
}

/// The newest versions of keys: the last single value of each, or the last one of each member after it.
const NEWEST: &str = "select distinct on (state.key, state.member) state.key, state.member, state.seq from state \
                      where state.run = run.key and state.seq <= $2 and ($3::text is null \
                          or (md5(state.key) = md5($3) and state.key = $3)) \
                      order by state.key, state.member, state.seq desc";

async fn versions(
    client: &ClientWrapper,
    run: RunId,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<(String, StateVersion)>, Failed> {
    let found = query(client, sql, params).await?;
    if found.is_empty() {
        return Err(StoreError::NoRun(run).into());
    }
    let mut versions = Vec::with_capacity(found.len());
    for row in &found {
        let Some(key) = row.get::<_, Option<String>>(0).map(unescape) else { continue };
        let (member, seq) = (row.get::<_, Option<String>>(1).map(unescape), unsigned(row.get(2)));
        if !row.get::<_, bool>(3) {
            return Err(StoreError::Corrupt(format!("record {seq} of {run} is missing; restore a backup")).into());
        }
        let record = rows::record(row, 4, run)?;
        match record.event {
            Event::StateSaved(saved) if saved.key == key && saved.member == member => {
                versions.push((key, StateVersion { member, seq: record.seq, at: record.at, value: saved.value }));
            }
            _ => {
                return Err(StoreError::Corrupt(format!(
                    "record {seq} of {run} does not save `{key}`, as the table of state says; run `loopforge doctor`"
                ))
                .into());
            }
        }
    }
    Ok(versions)
}

/// All state at `at`, or of one key.
pub(crate) async fn state(
    client: &ClientWrapper,
    run: RunId,
    at: Option<Seq>,
    key: Option<&str>,
) -> Result<BTreeMap<String, StateValue>, Failed> {
    let sql = format!(
        "select state.key, state.member, state.seq, record.seq is not null, {} \
         from run left join lateral ({NEWEST}) as state on true \
         left join record on record.run = run.key and record.seq = state.seq \
         where run.id = $1 order by state.key, state.seq",
        columns("record")
    );
    let at = at.map_or(i64::MAX, |at| signed(at.0));
    let key = key.map(|key| escape(key).into_owned());
    let mut by_key: BTreeMap<String, Vec<StateVersion>> = BTreeMap::new();
    for (key, version) in versions(client, run, &sql, &[&run.0, &at, &key]).await? {
        by_key.entry(key).or_default().push(version);
    }
    Ok(by_key.into_iter().filter_map(|(key, versions)| Some((key, fold_versions(versions)?))).collect())
}

pub(crate) async fn state_history(
    client: &ClientWrapper,
    run: RunId,
    key: &str,
    member: Option<&str>,
) -> Result<Vec<StateVersion>, Failed> {
    let sql = format!(
        "select state.key, state.member, state.seq, record.seq is not null, {} \
         from run left join state on state.run = run.key and md5(state.key) = md5($2) and state.key = $2 \
         left join record on record.run = run.key and record.seq = state.seq \
         where run.id = $1 order by state.seq",
        columns("record")
    );
    let key = escape(key);
    let versions = versions(client, run, &sql, &[&run.0, &key]).await?;
    let wanted = |version: &StateVersion| member.is_none() || version.member.as_deref() == member;
    Ok(versions.into_iter().map(|(_, version)| version).filter(wanted).collect())
}

pub(crate) async fn effect_by_key(
    client: &ClientWrapper,
    run: RunId,
    business_key: &str,
) -> Result<Option<EffectInfo>, Failed> {
    let key = escape(business_key);
    let only = "and md5(effect.business_key) = md5($2) and effect.business_key = $2 and effect.holds_key";
    Ok(select_effects(client, run, only, &[&run.0, &key]).await?.pop())
}

pub(crate) async fn effects(client: &ClientWrapper, run: RunId) -> Result<Vec<EffectInfo>, Failed> {
    select_effects(client, run, "", &[&run.0]).await
}

async fn select_effects(
    client: &ClientWrapper,
    run: RunId,
    only: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<EffectInfo>, Failed> {
    let sql = format!(
        "select effect.step, effect.action, effect.token, effect.business_key, effect.state, effect.attempts, \
             started.seq is not null, effect.outcome_seq is not null, ended.seq is not null, {}, {} \
         from run left join effect on effect.run = run.key {only} \
         left join record as started on started.run = run.key and started.seq = effect.started_seq \
         left join record as ended on ended.run = run.key and ended.seq = effect.outcome_seq \
         where run.id = $1 order by effect.started_seq",
        columns("started"),
        columns("ended")
    );
    let found = query(client, &sql, params).await?;
    if found.is_empty() {
        return Err(StoreError::NoRun(run).into());
    }
    let there = found.iter().filter(|row| row.get::<_, Option<i64>>(0).is_some());
    there.map(|row| effect(row, run).map_err(Failed::from)).collect()
}

fn effect(row: &Row, run: RunId) -> Result<EffectInfo, StoreError> {
    const STARTED: usize = 9;
    const ENDED: usize = 20;
    let step = StepNo(unsigned(row.get(0)));
    let action = ActionId { step, action: ActionNo(u32::try_from(row.get::<_, i64>(1)).unwrap_or(u32::MAX)) };
    let wrong = |what: &str| {
        StoreError::Corrupt(format!(
            "the effect of action {action} of {run} has a wrong {what}; run `loopforge doctor`"
        ))
    };
    if !row.get::<_, bool>(6) {
        return Err(wrong("beginning"));
    }
    let started = rows::record(row, STARTED, run)?;
    let Event::ActionStarted(start) = started.event else { return Err(wrong("beginning")) };
    let outcome = match (row.get::<_, bool>(7), row.get::<_, bool>(8)) {
        (false, _) => None,
        (true, false) => return Err(wrong("outcome")),
        (true, true) => match rows::record(row, ENDED, run)?.event {
            Event::ActionFinished(finished) => Some(finished.result),
            _ => return Err(wrong("outcome")),
        },
    };
    Ok(EffectInfo {
        action,
        tool: start.tool,
        token: effects::token(row.get(2)),
        business_key: row.get::<_, Option<String>>(3).map(unescape),
        state: EffectState::from_name(row.get(4)).ok_or_else(|| wrong("state"))?,
        started_at: started.at,
        attempts: u32::try_from(row.get::<_, i64>(5)).unwrap_or(u32::MAX),
        outcome,
    })
}
