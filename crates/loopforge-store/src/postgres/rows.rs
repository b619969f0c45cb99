//! Records as rows, and back.

use loopforge_core::id::{ContentHash, RunId, Seq};
use loopforge_core::payload::Blob;
use loopforge_core::record::{Event, FORMAT, Record};
use tokio_postgres::Row;
use uuid::Uuid;

use super::text::{escape, escape_some, unescape};
use crate::derive::{self, EffectNews};
use crate::sqlite::body::{self, Columns, RecordRow, Unreadable, signed};
use crate::sqlite::content::Content;
use crate::{StoreError, derive::blobs_elsewhere};

/// Records with all that goes with them, ready to be written.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) records: Vec<RecordRow>,
    pub(crate) blobs: Vec<Content>,
    /// Blobs that must be there already.
    pub(crate) needed: Vec<ContentHash>,
    pub(crate) state: Vec<StateRow>,
    pub(crate) effects: Vec<News>,
    /// The task that the run has from now on, if it changes; its text is a blob.
    pub(crate) task: Option<ContentHash>,
    /// The run as it is after the last of the records.
    pub(crate) checkpoint: Option<CheckpointRow>,
}

#[derive(Debug)]
pub(crate) struct CheckpointRow {
    pub(crate) at: i64,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) struct StateRow {
    pub(crate) seq: i64,
    pub(crate) key: String,
    pub(crate) member: Option<String>,
}

/// What a record says of an effect.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) seq: i64,
    pub(crate) step: i64,
    pub(crate) action: i64,
    pub(crate) news: EffectNews,
}

impl Rows {
    /// Gets `records` ready; they follow `head`.
    pub(crate) fn new(head: Seq, records: Vec<Record>, blobs: &[Blob]) -> Result<Self, StoreError> {
        derive::check_sequence(head, &records)?;
        let needed = blobs_elsewhere(&records, blobs).into_iter().collect();
        let (mut state, mut effects, mut rows) = (Vec::new(), Vec::new(), Vec::with_capacity(records.len()));
        let task = records.iter().rev().find_map(|record| derive::changed_task(&record.event));
        for record in records {
            let seq = signed(record.seq.0);
            if let Event::StateSaved(saved) = &record.event {
                let (key, member) = (escape(&saved.key).into_owned(), escape_some(saved.member.as_deref()));
                state.push(StateRow { seq, key, member });
            }
            if let Some((id, news)) = EffectNews::of(&record.event) {
                effects.push(News { seq, step: signed(id.step.0), action: i64::from(id.action.0), news });
            }
            rows.push(body::write(record)?);
        }
        let blobs = blobs.iter().map(Content::of_blob).collect();
        Ok(Self { records: rows, blobs, needed, state, effects, task, checkpoint: None })
    }

    /// The `seq` of the last record.
    pub(crate) fn last(&self) -> i64 {
        self.records.last().map_or(0, |row| row.seq)
    }
}

/// The columns of `record` that [`record`] takes, in its order.
pub(crate) fn columns(table: &str) -> String {
    let names = ["seq", "id", "at", "format", "kind", "name", "item", "word", "took_us", "note", "body"];
    names.map(|name| format!("{table}.{name}")).join(", ")
}

/// Reads a row that has [`columns`] from column `first` on.
pub(crate) fn record(row: &Row, first: usize, run: RunId) -> Result<Record, StoreError> {
    read(row, first).map_err(|unreadable| unreadable.into_store_error(run))
}

pub(crate) fn read(row: &Row, first: usize) -> Result<Record, Unreadable> {
    let seq: i64 = row.get(first);
    let format: i16 = row.get(first + 3);
    if i64::from(format) > i64::from(FORMAT) {
        return Err(Unreadable::Newer { seq, format: i64::from(format) });
    }
    let id: Uuid = row.get(first + 1);
    let kind: i16 = row.get(first + 4);
    let text = |column: usize| row.get::<_, Option<String>>(first + column).map(unescape);
    let columns =
        Columns { name: text(5), item: row.get(first + 6), word: text(7), took_us: row.get(first + 8), note: text(9) };
    let body: &[u8] = row.get(first + 10);
    let format = u16::try_from(format).unwrap_or(0);
    body::decode(seq, id.as_bytes(), row.get(first + 2), format, i64::from(kind), columns, body)
        .map_err(|what| Unreadable::Damaged { seq, what })
}
