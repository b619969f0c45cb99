//! Queries. Each runs in one read transaction, on a thread for blocking work.

use std::collections::BTreeMap;

use loopforge_core::expression::StateValue;
use loopforge_core::id::{ActionNo, ContentHash, RunId, Seq, StepNo};
use loopforge_core::record::{ActionId, Event, Record, RunStatus};
use loopforge_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use uuid::Uuid;

use super::append::read_token;
use super::body::{self, COLUMNS, signed, unsigned};
use super::content;
use super::error::Failed;
use super::lease::run_key;
use crate::memory::fold_versions;
use crate::{EffectInfo, EffectState, Owner, RunInfo, StateVersion, StoreError, StoredCheckpoint};

pub(crate) fn records(connection: &Connection, run: RunId, after: Seq, limit: usize) -> Result<Vec<Record>, Failed> {
    let Some(key) = known_run(connection, run)? else { return Ok(Vec::new()) };
    let sql = format!("select {COLUMNS} from record where run = ?1 and seq > ?2 order by seq limit ?3");
    let rows = i64::try_from(limit).unwrap_or(i64::MAX);
    let records = select_records(connection, run, &sql, params![key, signed(after.0), rows])?;
    let missing =
        |seq: Seq| Failed::Refused(StoreError::Corrupt(format!("record {seq} of {run} is missing; restore a backup")));
    let mut last = after;
    for record in &records {
        if record.seq != last.next() {
            return Err(missing(last.next()));
        }
        last = record.seq;
    }
    let head: i64 =
        connection.prepare_cached("select head_seq from run where key = ?1")?.query_row([key], |row| row.get(0))?;
    if records.len() < limit && last.0 < unsigned(head) {
        return Err(missing(last.next()));
    }
    Ok(records)
}

pub(crate) fn step_records(connection: &Connection, run: RunId, step: StepNo) -> Result<Vec<Record>, Failed> {
    let Some(key) = known_run(connection, run)? else { return Ok(Vec::new()) };
    let sql = format!("select {COLUMNS} from record where run = ?1 and step = ?2 order by seq");
    select_records(connection, run, &sql, params![key, signed(step.0)])
}

fn select_records(connection: &Connection, run: RunId, sql: &str, params: impl Params) -> Result<Vec<Record>, Failed> {
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query(params)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(body::read(row)?.map_err(|unreadable| unreadable.into_store_error(run))?);
    }
    Ok(records)
}

/// One record that must be there.
fn record(connection: &Connection, run: RunId, key: i64, seq: i64) -> Result<Record, Failed> {
    let sql = format!("select {COLUMNS} from record where run = ?1 and seq = ?2");
    let record = select_records(connection, run, &sql, params![key, seq])?.pop();
    record.ok_or_else(|| {
        Failed::Refused(StoreError::Corrupt(format!("record {seq} of {run} is missing; restore a backup")))
    })
}

/// The key of a run; none when there is no such run.
fn known_run(connection: &Connection, run: RunId) -> Result<Option<i64>, Failed> {
    match run_key(connection, run) {
        Ok(key) => Ok(Some(key)),
        Err(Failed::Refused(StoreError::NoRun(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

const RUN_COLUMNS: &str = "id, name, task, workspace, base, status, head_seq, steps, created_at, updated_at, wake_at, \
                           lease_id, lease_until, worker_label, worker_id";

pub(crate) fn run(connection: &Connection, run: RunId, now: Timestamp) -> Result<RunInfo, Failed> {
    let info = connection
        .prepare_cached(&format!("select {RUN_COLUMNS} from run where id = ?1"))?
        .query_row([run.0.as_bytes()], |row| run_info(row, now))
        .optional()?;
    Ok(info.ok_or(StoreError::NoRun(run))??)
}

pub(crate) fn runs(connection: &Connection, limit: usize, now: Timestamp) -> Result<Vec<RunInfo>, Failed> {
    let mut select = connection
        .prepare_cached(&format!("select {RUN_COLUMNS} from run order by created_at desc, id desc limit ?1"))?;
    let mut rows = select.query([i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.push(run_info(row, now)??);
    }
    Ok(runs)
}

fn run_info(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Result<RunInfo, StoreError>> {
    let id = RunId(Uuid::from_bytes(row.get(0)?));
    let status: String = row.get(5)?;
    let Some(status) = status_of(&status) else {
        return Ok(Err(StoreError::Corrupt(format!("{id} has the status `{status}`, which there isn't"))));
    };
    let until = row.get::<_, Option<i64>>(12)?.map(Timestamp).filter(|until| *until > now);
    let leased = row.get::<_, Option<[u8; 16]>>(11)?.is_some();
    let (label, worker): (Option<String>, Option<String>) = (row.get(13)?, row.get(14)?);
    Ok(Ok(RunInfo {
        id,
        name: row.get(1)?,
        task: ContentHash(row.get(2)?),
        workspace: row.get(3)?,
        base: row.get(4)?,
        status,
        head: Seq(unsigned(row.get(6)?)),
        steps: unsigned(row.get(7)?),
        created_at: Timestamp(row.get(8)?),
        updated_at: Timestamp(row.get(9)?),
        wake_at: row.get::<_, Option<i64>>(10)?.map(Timestamp),
        owner: until.filter(|_| leased).map(|until| Owner {
            id: worker.unwrap_or_default(),
            label: label.unwrap_or_default(),
            until,
        }),
    }))
}

fn status_of(name: &str) -> Option<RunStatus> {
    use RunStatus::{Cancelled, Failed, Paused, Queued, Running, Succeeded, Waiting};
    [Queued, Running, Waiting, Paused, Succeeded, Failed, Cancelled].into_iter().find(|status| status.name() == name)
}

pub(crate) fn task(connection: &Connection, task: ContentHash) -> Result<Vec<u8>, Failed> {
    let sql = "select size, codec, content from task where hash = ?1";
    named_content(connection, sql, task, "task")
}

pub(crate) fn blob(connection: &Connection, blob: ContentHash) -> Result<Vec<u8>, Failed> {
    named_content(connection, "select size, codec, content from blob where hash = ?1", blob, "blob")
}

fn named_content(connection: &Connection, sql: &str, hash: ContentHash, what: &str) -> Result<Vec<u8>, Failed> {
    let found = connection
        .prepare_cached(sql)?
        .query_row([hash.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let corrupt = |problem: &str| StoreError::Corrupt(format!("{what} {hash} {problem}; restore a backup"));
    let (size, compressed, stored) = found.ok_or_else(|| corrupt("is missing"))?;
    Ok(content::read(&hash.0, size, compressed, stored).map_err(corrupt)?)
}

pub(crate) fn checkpoint(connection: &Connection, run: RunId) -> Result<Option<StoredCheckpoint>, Failed> {
    let key = run_key(connection, run)?;
    let mut select = connection.prepare_cached(
        "select seq, at, hash, size, codec, content from checkpoint where run = ?1 order by seq desc",
    )?;
    let mut rows = select.query([key])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let hash: Vec<u8> = row.get(2)?;
        match content::read(&hash, row.get(3)?, row.get(4)?, row.get(5)?) {
            Ok(bytes) => {
                return Ok(Some(StoredCheckpoint { seq: Seq(unsigned(seq)), at: Timestamp(row.get(1)?), bytes }));
            }
            // The archive has all that it held; loading only takes longer.
            Err(problem) => tracing::warn!(%run, seq, problem, "a damaged checkpoint is passed over"),
        }
    }
    Ok(None)
}

/// A version of a state value, before its value is read from its record.
struct Version {
    key: String,
    seq: i64,
    member: Option<String>,
}

fn versions(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<Version>, Failed> {
    let mut select = connection.prepare_cached(sql)?;
    let rows =
        select.query_map(params, |row| Ok(Version { key: row.get(0)?, seq: row.get(1)?, member: row.get(2)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Takes the values from the records.
fn load(connection: &Connection, run: RunId, key: i64, versions: Vec<Version>) -> Result<Vec<StateVersion>, Failed> {
    let load = |version: Version| {
        let record = record(connection, run, key, version.seq)?;
        match record.event {
            Event::StateSaved(saved) if saved.key == version.key && saved.member == version.member => {
                Ok(StateVersion { member: saved.member, seq: record.seq, at: record.at, value: saved.value })
            }
            _ => Err(Failed::Refused(StoreError::Corrupt(format!(
                "record {} of {run} does not save `{}`, as the table of state says; run `loopforge doctor`",
                version.seq, version.key
            )))),
        }
    };
    versions.into_iter().map(load).collect()
}

/// Only the versions that are not replaced by later ones: only these need to be read.
fn newest(versions: Vec<Version>) -> Vec<Version> {
    let first = versions.iter().rposition(|version| version.member.is_none());
    let mut members: BTreeMap<Option<String>, Version> = BTreeMap::new();
    let last_is_single = first == versions.len().checked_sub(1);
    for version in versions.into_iter().skip(first.map_or(0, |first| if last_is_single { first } else { first + 1 })) {
        members.insert(version.member.clone(), version);
    }
    members.into_values().collect()
}

const STATE_OF_KEY: &str = "select key, seq, member from state where run = ?1 and key = ?2 and seq <= ?3 order by seq";

pub(crate) fn state_value(
    connection: &Connection,
    run: RunId,
    name: &str,
    at: Option<Seq>,
) -> Result<Option<StateValue>, Failed> {
    let key = run_key(connection, run)?;
    let at = at.map_or(i64::MAX, |at| signed(at.0));
    let versions = newest(versions(connection, STATE_OF_KEY, params![key, name, at])?);
    Ok(fold_versions(load(connection, run, key, versions)?))
}

pub(crate) fn state(
    connection: &Connection,
    run: RunId,
    at: Option<Seq>,
) -> Result<BTreeMap<String, StateValue>, Failed> {
    let key = run_key(connection, run)?;
    let at = at.map_or(i64::MAX, |at| signed(at.0));
    let sql = "select key, seq, member from state where run = ?1 and seq <= ?2 order by key, seq";
    let mut by_key: BTreeMap<String, Vec<Version>> = BTreeMap::new();
    for version in versions(connection, sql, params![key, at])? {
        by_key.entry(version.key.clone()).or_default().push(version);
    }
    let mut state = BTreeMap::new();
    for (name, versions) in by_key {
        if let Some(value) = fold_versions(load(connection, run, key, newest(versions))?) {
            state.insert(name, value);
        }
    }
    Ok(state)
}

pub(crate) fn state_history(
    connection: &Connection,
    run: RunId,
    name: &str,
    member: Option<&str>,
) -> Result<Vec<StateVersion>, Failed> {
    let key = run_key(connection, run)?;
    let mut versions = versions(connection, STATE_OF_KEY, params![key, name, i64::MAX])?;
    versions.retain(|version| member.is_none() || version.member.as_deref() == member);
    load(connection, run, key, versions)
}

const EFFECT_COLUMNS: &str = "step, action, token, business_key, state, attempts, started_seq, outcome_seq";

pub(crate) fn effect_by_key(
    connection: &Connection,
    run: RunId,
    business_key: &str,
) -> Result<Option<EffectInfo>, Failed> {
    let key = run_key(connection, run)?;
    let sql = format!("select {EFFECT_COLUMNS} from effect where run = ?1 and business_key = ?2 and holds_key");
    Ok(select_effects(connection, run, key, &sql, params![key, business_key])?.pop())
}

pub(crate) fn effects(connection: &Connection, run: RunId) -> Result<Vec<EffectInfo>, Failed> {
    let key = run_key(connection, run)?;
    let sql = format!("select {EFFECT_COLUMNS} from effect where run = ?1 order by started_seq");
    select_effects(connection, run, key, &sql, [key])
}

fn select_effects(
    connection: &Connection,
    run: RunId,
    key: i64,
    sql: &str,
    params: impl Params,
) -> Result<Vec<EffectInfo>, Failed> {
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query(params)?;
    let mut effects = Vec::new();
    while let Some(row) = rows.next()? {
        effects.push(effect(connection, run, key, row)?);
    }
    Ok(effects)
}

fn effect(connection: &Connection, run: RunId, key: i64, row: &Row<'_>) -> Result<EffectInfo, Failed> {
    let (step, action): (i64, u32) = (row.get(0)?, row.get(1)?);
    let action = ActionId { step: StepNo(unsigned(step)), action: ActionNo(action) };
    let wrong = |what: &str| {
        Failed::Refused(StoreError::Corrupt(format!(
            "the effect of action {action} of {run} has a wrong {what}; run `loopforge doctor`"
        )))
    };
    let state: String = row.get(4)?;
    let started = record(connection, run, key, row.get(6)?)?;
    let Event::ActionStarted(start) = started.event else { return Err(wrong("beginning")) };
    let outcome = match row.get::<_, Option<i64>>(7)? {
        None => None,
        Some(seq) => match record(connection, run, key, seq)?.event {
            Event::ActionFinished(finished) => Some(finished.result),
            _ => return Err(wrong("outcome")),
        },
    };
    Ok(EffectInfo {
        action,
        tool: start.tool,
        token: read_token(row.get_ref(2)?).ok_or_else(|| wrong("token"))?,
        business_key: row.get(3)?,
        state: EffectState::from_name(&state).ok_or_else(|| wrong("state"))?,
        started_at: started.at,
        attempts: row.get(5)?,
        outcome,
    })
}
