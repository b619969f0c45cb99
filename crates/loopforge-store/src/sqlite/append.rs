//! Adding to a run's archive.
//!
//! What costs time (JSON, compression, hashes) is done by the caller in [`Batch::new`]; the writing thread only binds
//! and steps.

use loopforge_core::id::{ActionNo, ContentHash, Seq, StepNo, StepToken};
use loopforge_core::payload::Blob;
use loopforge_core::record::{ActionId, Event, Record, RunStatus};
use loopforge_core::time::Timestamp;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::body::{self, RecordRow, signed, unsigned};
use super::checkpoint::CheckpointRow;
use super::content::Content;
use super::error::Failed;
use crate::derive::{self, EffectNews};
use crate::{Append, Appended, Durability, EffectState, Lease, NewRun, StoreError};

/// Records with all that goes with them, ready to be written.
#[derive(Debug)]
pub(crate) struct Batch {
    records: Vec<RecordRow>,
    blobs: Vec<Content>,
    /// Blobs that must be there already.
    needed: Vec<ContentHash>,
    state: Vec<StateRow>,
    effects: Vec<EffectRow>,
    /// The task that the run has from now on, if it changes; its text is a blob.
    task: Option<ContentHash>,
}

#[derive(Debug)]
struct StateRow {
    seq: i64,
    key: String,
    member: Option<String>,
}

#[derive(Debug)]
struct EffectRow {
    seq: i64,
    step: i64,
    action: i64,
    news: EffectNews,
}

impl Batch {
    /// Gets `records` ready; they follow `head`.
    pub(crate) fn new(head: Seq, records: Vec<Record>, blobs: &[Blob]) -> Result<Self, StoreError> {
        derive::check_sequence(head, &records)?;
        let needed = derive::blobs_elsewhere(&records, blobs).into_iter().collect();
        let (mut state, mut effects, mut rows) = (Vec::new(), Vec::new(), Vec::with_capacity(records.len()));
        let task = records.iter().rev().find_map(|record| derive::changed_task(&record.event));
        for record in records {
            let seq = signed(record.seq.0);
            if let Event::StateSaved(saved) = &record.event {
                state.push(StateRow { seq, key: saved.key.clone(), member: saved.member.clone() });
            }
            if let Some((id, news)) = EffectNews::of(&record.event) {
                effects.push(EffectRow { seq, step: signed(id.step.0), action: i64::from(id.action.0), news });
            }
            rows.push(body::write(record)?);
        }
        let blobs = blobs.iter().map(Content::of_blob).collect();
        Ok(Self { records: rows, blobs, needed, state, effects, task })
    }

    fn starts_effects(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect.news, EffectNews::Started { .. }))
    }

    /// Writes all of it for the run of that key.
    pub(super) fn write(&self, connection: &Connection, run: i64) -> Result<(), Failed> {
        for effect in &self.effects {
            effect.write(connection, run)?;
        }
        let mut insert = connection.prepare_cached(
            "insert into record (run, seq, id, at, format, kind, step, action, name, item, word, took_us, note, body) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        for row in &self.records {
            let columns = &row.columns;
            insert.execute(params![
                run,
                row.seq,
                row.id,
                row.at,
                row.format,
                row.kind,
                row.step,
                row.action,
                columns.name,
                columns.item,
                columns.word,
                columns.took_us,
                columns.note,
                row.body,
            ])?;
        }
        for row in &self.state {
            connection
                .prepare_cached("insert into state (run, key, seq, member) values (?1, ?2, ?3, ?4)")?
                .execute(params![run, row.key, row.seq, row.member])?;
        }
        for blob in &self.blobs {
            connection
                .prepare_cached(
                    "insert into blob (hash, size, codec, content) values (?1, ?2, ?3, ?4) \
                     on conflict (hash) do nothing",
                )?
                .execute(params![blob.hash, blob.size, blob.compressed, blob.bytes])?;
        }
        if let Some(task) = &self.task {
            connection
                .prepare_cached(
                    "insert into task (hash, size, codec, content) select hash, size, codec, content from blob where hash = ?1 \
                     on conflict (hash) do nothing",
                )?
                .execute([task.0])?;
            connection.prepare_cached("update run set task = ?2 where key = ?1")?.execute(params![run, task.0])?;
        }
        Ok(())
    }

    /// Looks for the blobs that don't come along, before anything is written.
    pub(super) fn check_needed(&self, connection: &Connection) -> Result<(), Failed> {
        for hash in &self.needed {
            let there = connection.prepare_cached("select 1 from blob where hash = ?1")?.exists([hash.0])?;
            if !there {
                return Err(Failed::Refused(derive::missing_blob(hash)));
            }
        }
        Ok(())
    }

    /// Whether the archive has just these records at their places.
    fn is_there(&self, connection: &Connection, run: i64) -> Result<bool, Failed> {
        let mut select = connection.prepare_cached("select 1 from record where run = ?1 and seq = ?2 and id = ?3")?;
        for row in &self.records {
            if !select.exists(params![run, row.seq, row.id])? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What an append says of the run as a whole.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) lease: Lease,
    pub(crate) expected: Seq,
    pub(crate) status: RunStatus,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) steps: u64,
    pub(crate) hard: bool,
    pub(crate) checkpoint: Option<CheckpointRow>,
}

/// Gets an append ready.
pub(crate) fn prepare(lease: &Lease, append: Append) -> Result<(Head, Batch), StoreError> {
    if let Some(checkpoint) = &append.checkpoint {
        derive::check_checkpoint(checkpoint, &append.records)?;
    }
    let head = Head {
        lease: lease.clone(),
        expected: append.expected_head,
        status: append.status,
        wake_at: append.wake_at,
        steps: append.steps,
        hard: append.durability == Durability::Hard,
        checkpoint: append.checkpoint.as_ref().map(CheckpointRow::new),
    };
    Ok((head, Batch::new(append.expected_head, append.records, &append.blobs)?))
}

/// Appends `batch`, if the lease is the newest and the head is the expected one.
pub(crate) fn append(connection: &Connection, head: &Head, batch: &Batch, now: Timestamp) -> Result<Appended, Failed> {
    // Only these can be refused half-way.
    if !batch.starts_effects() && batch.needed.is_empty() {
        return append_inside(connection, head, batch, now);
    }
    connection.prepare_cached("savepoint append")?.execute([])?;
    let result = append_inside(connection, head, batch, now);
    if matches!(result, Err(Failed::Refused(_))) {
        connection.prepare_cached("rollback to append")?.execute([])?;
    }
    if !matches!(result, Err(Failed::Sql(_))) {
        connection.prepare_cached("release append")?.execute([])?;
    }
    result
}

fn append_inside(connection: &Connection, head: &Head, batch: &Batch, now: Timestamp) -> Result<Appended, Failed> {
    let lease = &head.lease;
    let last = batch.records.last().map_or(0, |row| row.seq);
    // The fence: a writer that is not the newest changes no row here, and so nothing at all.
    let key: Option<i64> = connection
        .prepare_cached(
            "update run set head_seq = ?5, status = ?6, wake_at = ?7, steps = ?8, updated_at = ?9, lease_until = ?10, \
                 workers_before = null \
             where id = ?1 and lease_epoch = ?2 and lease_id = ?3 and head_seq = ?4 \
             returning key",
        )?
        .query_row(
            params![
                lease.run.0.as_bytes(),
                signed(lease.epoch),
                lease.id.0.as_bytes(),
                signed(head.expected.0),
                last,
                head.status.name(),
                head.wake_at.map(|at| at.0),
                signed(head.steps),
                now.0,
                now.after(lease.ttl).0,
            ],
            |row| row.get(0),
        )
        .optional()?;
    let Some(key) = key else {
        let key = super::lease::run_key(connection, lease.run)?;
        if !batch.is_there(connection, key)? {
            return Ok(Appended::Fenced);
        }
        if head.hard {
            // The earlier try may have failed at the flush: then the records are in the log and not yet safe. A commit
            // flushes only when it writes, so it writes something.
            connection.prepare_cached("update run set updated_at = updated_at where key = ?1")?.execute([key])?;
        }
        return Ok(Appended::AlreadyMine);
    };
    batch.check_needed(connection)?;
    batch.write(connection, key)?;
    if let Some(checkpoint) = &head.checkpoint {
        checkpoint.write(connection, key)?;
    }
    Ok(Appended::Written)
}

/// Stores a new run with its first records. Its lease, if it gets one, is claimed afterwards, in the same transaction.
pub(crate) fn create(
    connection: &Connection,
    run: &NewRun,
    status: RunStatus,
    task: &Content,
    batch: &Batch,
) -> Result<(), Failed> {
    let exists = connection.prepare_cached("select 1 from run where id = ?1")?.exists([run.id.0.as_bytes()])?;
    if exists {
        return Err(Failed::Refused(StoreError::Exists(run.id)));
    }
    batch.check_needed(connection)?;
    connection.prepare_cached("savepoint append")?.execute([])?;
    let result = create_inside(connection, run, status, task, batch);
    if matches!(result, Err(Failed::Refused(_))) {
        connection.prepare_cached("rollback to append")?.execute([])?;
    }
    if !matches!(result, Err(Failed::Sql(_))) {
        connection.prepare_cached("release append")?.execute([])?;
    }
    result
}

fn create_inside(
    connection: &Connection,
    run: &NewRun,
    status: RunStatus,
    task: &Content,
    batch: &Batch,
) -> Result<(), Failed> {
    connection
        .prepare_cached(
            "insert into task (hash, size, codec, content) values (?1, ?2, ?3, ?4) on conflict (hash) do nothing",
        )?
        .execute(params![task.hash, task.size, task.compressed, task.bytes])?;
    let key = connection
        .prepare_cached(
            "insert into run (id, name, task, workspace, base, status, head_seq, steps, created_at, updated_at) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?8)",
        )?
        .insert(params![
            run.id.0.as_bytes(),
            run.name,
            task.hash,
            run.workspace,
            run.base,
            status.name(),
            batch.records.last().map_or(0, |row| row.seq),
            run.at.0,
        ])?;
    batch.write(connection, key)
}

impl EffectRow {
    fn write(&self, connection: &Connection, run: i64) -> Result<(), Failed> {
        match &self.news {
            EffectNews::Started { token, business_key, attempt, .. } => {
                self.start(connection, run, token, business_key.as_deref(), *attempt)
            }
            EffectNews::Finished { .. } | EffectNews::Unknown | EffectNews::NotHappened => self.turn(connection, run),
        }
    }

    fn start(
        &self,
        connection: &Connection,
        run: i64,
        token: &StepToken,
        business_key: Option<&str>,
        attempt: u32,
    ) -> Result<(), Failed> {
        let duplicate = |key: &str| Failed::Refused(StoreError::Duplicate { key: key.to_owned() });
        let (step, action) = (self.step, self.action);
        let token_taken = connection
            .prepare_cached("select 1 from effect where token = ?1 and (run, step, action) <> (?2, ?3, ?4)")?
            .exists(params![Token(token), run, step, action])?;
        if token_taken {
            return Err(duplicate(&token.0));
        }
        if let Some(key) = business_key {
            let key_taken = connection
                .prepare_cached(
                    "select 1 from effect where run = ?1 and business_key = ?2 and holds_key and (step, action) <> (?3, ?4)",
                )?
                .exists(params![run, key, step, action])?;
            if key_taken {
                return Err(duplicate(key));
            }
        }
        let started = connection
            .prepare_cached(
                "insert into effect (run, step, action, token, business_key, holds_key, state, attempts, started_seq) \
                 values (?1, ?2, ?3, ?4, ?5, ?5 is not null, 'started', ?6, ?7) \
                 on conflict (run, step, action) do update set \
                     business_key = excluded.business_key, holds_key = excluded.holds_key, \
                     state = excluded.state, attempts = max(attempts, excluded.attempts) \
                     where state <> 'confirmed' and token = excluded.token",
            )?
            .execute(params![run, step, action, Token(token), business_key, attempt, self.seq])?;
        if started > 0 {
            return Ok(());
        }
        let confirmed = connection
            .prepare_cached("select state = 'confirmed' from effect where run = ?1 and step = ?2 and action = ?3")?
            .query_row(params![run, step, action], |row| row.get(0))?;
        if confirmed {
            return Err(duplicate(&token.0));
        }
        let id = ActionId { step: StepNo(unsigned(step)), action: ActionNo(u32::try_from(action).unwrap_or(u32::MAX)) };
        Err(Failed::Refused(derive::another_token(id)))
    }

    /// Moves an effect on, if the action has one that is not confirmed yet.
    fn turn(&self, connection: &Connection, run: i64) -> Result<(), Failed> {
        let state = self.news.state();
        let outcome = matches!(self.news, EffectNews::Finished { .. }).then_some(self.seq);
        // An outcome of an effect that is unknown, or was when it was found not to have happened, gives way to a later
        // one.
        connection
            .prepare_cached(
                "update effect set \
                     state = ?4, \
                     outcome_seq = case \
                         when ?5 is null then outcome_seq \
                         when outcome_seq is null or outcome_open then ?5 \
                         else outcome_seq end, \
                     outcome_open = case \
                         when ?5 is null then outcome_open \
                         when outcome_seq is null or outcome_open then ?6 \
                         else outcome_open end, \
                     holds_key = ?7 and business_key is not null and not exists ( \
                         select 1 from effect as other \
                         where other.run = ?1 and other.business_key = effect.business_key and other.holds_key \
                             and (other.step, other.action) <> (?2, ?3)) \
                 where run = ?1 and step = ?2 and action = ?3 and state <> 'confirmed'",
            )?
            .execute(params![
                run,
                self.step,
                self.action,
                state.name(),
                outcome,
                state == EffectState::Unknown,
                state.holds_key(),
            ])?;
        Ok(())
    }
}

/// A token as it is stored: 16 bytes where it is 32 hexadecimal digits, as ours are, else its text.
pub(crate) struct Token<'a>(pub(crate) &'a StepToken);

impl ToSql for Token<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = &self.0.0;
        Ok(match uuid::Uuid::try_parse(text) {
            Ok(bytes) if bytes.simple().to_string() == *text => {
                ToSqlOutput::Owned(Value::Blob(bytes.as_bytes().to_vec()))
            }
            _ => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

/// Reads a token; none when it was never one.
pub(crate) fn read_token(value: ValueRef<'_>) -> Option<StepToken> {
    match value {
        ValueRef::Blob(bytes) => Some(StepToken(uuid::Uuid::from_slice(bytes).ok()?.simple().to_string())),
        ValueRef::Text(text) => Some(StepToken(std::str::from_utf8(text).ok()?.to_owned())),
        _ => None,
    }
}
