//! Rows of many appends, column by column: one statement for each table, however many rows there are.

use std::collections::BTreeSet;

use deadpool_postgres::ClientWrapper;
use futures_util::future;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::effects::Table;
use super::error::Failed;
use super::rows::{CheckpointRow, Rows};
use super::text::escape_some;
use crate::sqlite::body::RecordRow;

const INSERT_RECORDS: &str = "\
    insert into record (run, seq, id, at, step, action, item, took_us, format, kind, name, word, note, body) \
    select * from unnest($1::int8[], $2::int8[], $3::uuid[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], \
        $9::int2[], $10::int2[], $11::text[], $12::text[], $13::text[], $14::bytea[])";

const INSERT_STATE: &str = "\
    insert into state (run, seq, key, member) select * from unnest($1::int8[], $2::int8[], $3::text[], $4::text[])";

const INSERT_BLOBS: &str = "\
    insert into blob (hash, size, codec, content) \
    select * from unnest($1::bytea[], $2::int8[], $3::int2[], $4::bytea[]) on conflict (hash) do nothing";

const WRITE_EFFECTS: &str = "\
    insert into effect (run, step, action, token, business_key, holds_key, state, attempts, started_seq, outcome_seq, \
        outcome_open) \
    select * from unnest($1::int8[], $2::int8[], $3::int8[], $4::text[], $5::text[], $6::bool[], $7::text[], $8::int8[], \
        $9::int8[], $10::int8[], $11::bool[]) \
    on conflict (run, step, action) do update set \
        business_key = excluded.business_key, holds_key = excluded.holds_key, state = excluded.state, \
        attempts = excluded.attempts, outcome_seq = excluded.outcome_seq, outcome_open = excluded.outcome_open";

/// Makes the text of an accepted task one that can be read as a task, and the run's task.
const CHANGE_TASKS: &str = "\
    with changed as (select * from unnest($1::int8[], $2::bytea[]) as changed (key, task)), \
    kept as (\
        insert into task (hash, size, codec, content) \
        select distinct on (hash) hash, size, codec, content from blob join changed on changed.task = blob.hash \
        on conflict (hash) do nothing) \
    update run set task = changed.task from changed where run.key = changed.key";

/// Keeps checkpoints, each in place of the oldest of its run.
const KEEP_CHECKPOINTS: &str = "\
    with new as (\
        select * from unnest($1::int8[], $2::int8[], $3::int8[], $4::bytea[], $5::int8[], $6::int2[], $7::bytea[]) \
            as new (run, seq, at, hash, size, codec, content)), \
    gone as (\
        delete from checkpoint using new where checkpoint.run = new.run and checkpoint.seq < \
            (select max(seq) from checkpoint as other where other.run = new.run and other.seq <> new.seq)) \
    insert into checkpoint (run, seq, at, hash, size, codec, content) select * from new \
    on conflict (run, seq) do update set at = excluded.at, hash = excluded.hash, size = excluded.size, \
        codec = excluded.codec, content = excluded.content";

/// Records, column by column.
#[derive(Default)]
pub(crate) struct Records<'a> {
    runs: Vec<i64>,
    pub(crate) seqs: Vec<i64>,
    ids: Vec<Uuid>,
    ats: Vec<i64>,
    steps: Vec<Option<i64>>,
    actions: Vec<Option<i64>>,
    items: Vec<Option<i64>>,
    took: Vec<Option<i64>>,
    formats: Vec<i16>,
    kinds: Vec<i16>,
    names: Vec<Option<String>>,
    words: Vec<Option<String>>,
    notes: Vec<Option<String>>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> Records<'a> {
    pub(crate) fn of(rows: impl Iterator<Item = (i64, &'a RecordRow)>) -> Self {
        let mut records = Self::default();
        for (run, row) in rows {
            let columns = &row.columns;
            records.runs.push(run);
            records.seqs.push(row.seq);
            records.ids.push(Uuid::from_bytes(row.id));
            records.ats.push(row.at);
            records.steps.push(row.step);
            records.actions.push(row.action);
            records.items.push(columns.item);
            records.took.push(columns.took_us);
            records.formats.push(i16::try_from(row.format).unwrap_or(i16::MAX));
            records.kinds.push(i16::from(row.kind));
            records.names.push(escape_some(columns.name.as_deref()));
            records.words.push(escape_some(columns.word.as_deref()));
            records.notes.push(escape_some(columns.note.as_deref()));
            records.bodies.push(&row.body);
        }
        records
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 14] {
        [
            &self.runs,
            &self.seqs,
            &self.ids,
            &self.ats,
            &self.steps,
            &self.actions,
            &self.items,
            &self.took,
            &self.formats,
            &self.kinds,
            &self.names,
            &self.words,
            &self.notes,
            &self.bodies,
        ]
    }

    /// Adds them without a fence: for a run that is made in the same transaction.
    pub(crate) async fn insert(&self, client: &ClientWrapper) -> Result<(), Failed> {
        let statement = client.prepare_cached(INSERT_RECORDS).await?;
        client.execute(&statement, &self.params()).await?;
        Ok(())
    }
}

/// What goes into the other tables, column by column.
#[derive(Default)]
pub(crate) struct Rest<'a> {
    state: StateColumns<'a>,
    blobs: BlobColumns<'a>,
    effects: EffectColumns<'a>,
    tasks: (Vec<i64>, Vec<&'a [u8]>),
    checkpoints: CheckpointColumns<'a>,
}

#[derive(Default)]
struct CheckpointColumns<'a> {
    runs: Vec<i64>,
    seqs: Vec<i64>,
    ats: Vec<i64>,
    hashes: Vec<&'a [u8]>,
    sizes: Vec<i64>,
    codecs: Vec<i16>,
    contents: Vec<&'a [u8]>,
}

#[derive(Default)]
struct StateColumns<'a> {
    runs: Vec<i64>,
    seqs: Vec<i64>,
    keys: Vec<&'a str>,
    members: Vec<Option<&'a str>>,
}

#[derive(Default)]
struct BlobColumns<'a> {
    hashes: Vec<&'a [u8]>,
    sizes: Vec<i64>,
    codecs: Vec<i16>,
    contents: Vec<&'a [u8]>,
}

#[derive(Default)]
struct EffectColumns<'a> {
    keys: (Vec<i64>, Vec<i64>, Vec<i64>),
    tokens: Vec<&'a str>,
    business: (Vec<Option<&'a str>>, Vec<bool>),
    states: Vec<&'a str>,
    attempts: Vec<i64>,
    started: Vec<i64>,
    outcomes: (Vec<Option<i64>>, Vec<bool>),
}

impl<'a> Rest<'a> {
    pub(crate) fn of(appends: impl Iterator<Item = (i64, &'a Rows)>, effects: &'a Table) -> Self {
        let mut rest = Self::default();
        // In order, so that two transactions with the same blobs wait for each other and don't block each other.
        let mut blobs = BTreeSet::new();
        for (key, rows) in appends {
            if let Some(task) = &rows.task {
                rest.tasks.0.push(key);
                rest.tasks.1.push(&task.0);
            }
            if let Some(CheckpointRow { at, content }) = &rows.checkpoint {
                let columns = &mut rest.checkpoints;
                columns.runs.push(key);
                columns.seqs.push(rows.last());
                columns.ats.push(*at);
                columns.hashes.push(&content.hash);
                columns.sizes.push(content.size);
                columns.codecs.push(i16::from(content.compressed));
                columns.contents.push(&content.bytes);
            }
            for row in &rows.state {
                rest.state.runs.push(key);
                rest.state.seqs.push(row.seq);
                rest.state.keys.push(&row.key);
                rest.state.members.push(row.member.as_deref());
            }
            for blob in &rows.blobs {
                blobs.insert((blob.hash.as_slice(), blob.size, i16::from(blob.compressed), blob.bytes.as_slice()));
            }
        }
        for (hash, size, codec, bytes) in blobs {
            rest.blobs.hashes.push(hash);
            rest.blobs.sizes.push(size);
            rest.blobs.codecs.push(codec);
            rest.blobs.contents.push(bytes);
        }
        for ((run, step, action), row) in effects.changed() {
            let columns = &mut rest.effects;
            columns.keys.0.push(run);
            columns.keys.1.push(step);
            columns.keys.2.push(action);
            columns.tokens.push(&row.token);
            columns.business.0.push(row.business_key.as_deref());
            columns.business.1.push(row.holds_key);
            columns.states.push(&row.state);
            columns.attempts.push(row.attempts);
            columns.started.push(row.started_seq);
            columns.outcomes.0.push(row.outcome_seq);
            columns.outcomes.1.push(row.outcome_open);
        }
        rest
    }

    /// Gets ready what [`Self::write`] sends, so that it sends without waiting.
    pub(crate) async fn prepare(&self, client: &ClientWrapper) -> Result<Prepared, Failed> {
        let mut prepared = Prepared::default();
        if !self.state.runs.is_empty() {
            prepared.state = Some(client.prepare_cached(INSERT_STATE).await?);
        }
        if !self.blobs.hashes.is_empty() {
            prepared.blobs = Some(client.prepare_cached(INSERT_BLOBS).await?);
        }
        if !self.effects.tokens.is_empty() {
            prepared.effects = Some(client.prepare_cached(WRITE_EFFECTS).await?);
        }
        if !self.tasks.0.is_empty() {
            prepared.tasks = Some(client.prepare_cached(CHANGE_TASKS).await?);
        }
        if !self.checkpoints.runs.is_empty() {
            prepared.checkpoints = Some(client.prepare_cached(KEEP_CHECKPOINTS).await?);
        }
        Ok(prepared)
    }

    pub(crate) async fn write(&self, client: &ClientWrapper, prepared: &Prepared) -> Result<(), Failed> {
        let (state, blobs, effects) = (&self.state, &self.blobs, &self.effects);
        let state_params: [&(dyn ToSql + Sync); 4] = [&state.runs, &state.seqs, &state.keys, &state.members];
        let blob_params: [&(dyn ToSql + Sync); 4] = [&blobs.hashes, &blobs.sizes, &blobs.codecs, &blobs.contents];
        let effect_params: [&(dyn ToSql + Sync); 11] = [
            &effects.keys.0,
            &effects.keys.1,
            &effects.keys.2,
            &effects.tokens,
            &effects.business.0,
            &effects.business.1,
            &effects.states,
            &effects.attempts,
            &effects.started,
            &effects.outcomes.0,
            &effects.outcomes.1,
        ];
        let kept = &self.checkpoints;
        let kept_params: [&(dyn ToSql + Sync); 7] =
            [&kept.runs, &kept.seqs, &kept.ats, &kept.hashes, &kept.sizes, &kept.codecs, &kept.contents];
        future::try_join5(
            execute(client, prepared.state.as_ref(), &state_params),
            execute(client, prepared.blobs.as_ref(), &blob_params),
            execute(client, prepared.effects.as_ref(), &effect_params),
            // After the blobs, since the text is one of them.
            execute(client, prepared.tasks.as_ref(), &[&self.tasks.0, &self.tasks.1]),
            execute(client, prepared.checkpoints.as_ref(), &kept_params),
        )
        .await?;
        Ok(())
    }
}

/// Statements that are ready to be sent; none where there is nothing to write.
#[derive(Default)]
pub(crate) struct Prepared {
    state: Option<Statement>,
    blobs: Option<Statement>,
    effects: Option<Statement>,
    tasks: Option<Statement>,
    checkpoints: Option<Statement>,
}

async fn execute(
    client: &ClientWrapper,
    statement: Option<&Statement>,
    params: &[&(dyn ToSql + Sync)],
) -> Result<(), Failed> {
    if let Some(statement) = statement {
        client.execute(statement, params).await?;
    }
    Ok(())
}
