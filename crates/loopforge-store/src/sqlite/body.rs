//! How a record is written into a row and read back.

use std::cell::RefCell;
use std::sync::OnceLock;

use loopforge_core::id::{RecordId, Seq};
use loopforge_core::record::{Event, FORMAT, Record};
use loopforge_core::time::Timestamp;
use rusqlite::Row;
use uuid::Uuid;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::{self, CParameter};

use crate::StoreError;

/// The columns of `record` that [`read`] takes, in its order.
pub(crate) const COLUMNS: &str = "seq, id, at, format, kind, name, item, word, took_us, note, body";

/// Text as it stands in typical records. Records are small, so they shrink only when what they share is known
/// beforehand.
///
/// It belongs to the format of the database: rows written with it need it for ever. A better one gets the next number.
const DICTIONARY_1: &[u8] = include_bytes!("dictionary_1.zdict");

/// zstd's level: higher ones gain next to nothing on small texts.
pub(crate) const LEVEL: i32 = 1;

/// What every zstd frame begins with; not stored.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The longest body that a damaged length field can make us reserve memory for.
const LONGEST_BODY: usize = 64 << 20;

const PLAIN: u8 = 0;
const DICTIONARY: u8 = 1;
const CHECK_BYTES: usize = 4;

/// A record as a row, but for its run.
#[derive(Debug)]
pub(crate) struct RecordRow {
    pub(crate) seq: i64,
    pub(crate) id: [u8; 16],
    pub(crate) at: i64,
    pub(crate) format: u16,
    pub(crate) kind: u8,
    pub(crate) step: Option<i64>,
    pub(crate) action: Option<i64>,
    pub(crate) columns: Columns,
    pub(crate) body: Vec<u8>,
}

/// What stands in columns of its own.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) name: Option<String>,
    pub(crate) item: Option<i64>,
    pub(crate) word: Option<String>,
    pub(crate) took_us: Option<i64>,
    pub(crate) note: Option<String>,
}

/// Writes a record as a row.
pub(crate) fn write(mut record: Record) -> Result<RecordRow, StoreError> {
    let (step, action) = place(&record.event);
    let columns = take_columns(&mut record.event);
    let text = serde_json::to_vec(&record.event)
        .map_err(|error| StoreError::Invalid(format!("record {} can't be written as JSON: {error}", record.seq)))?;
    let mut row = RecordRow {
        seq: signed(record.seq.0),
        id: *record.id.0.as_bytes(),
        at: record.at.0,
        format: FORMAT,
        kind: kind_number(record.event.kind()),
        step,
        action,
        columns,
        body: Vec::with_capacity(text.len() / 2 + 16),
    };
    let check = check(row.seq, &row.id, row.at, row.format, &row.columns, &text);
    row.body.extend_from_slice(&check);
    match compress(&text) {
        Some(frame) if frame.len() < text.len() + MAGIC.len() => {
            row.body.push(DICTIONARY);
            row.body.extend_from_slice(&frame[MAGIC.len()..]);
        }
        _ => {
            row.body.push(PLAIN);
            row.body.extend_from_slice(&text);
        }
    }
    Ok(row)
}

/// Reads a row that has [`COLUMNS`] from its first column on. The inner error says what is wrong with the record.
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Result<Record, Unreadable>> {
    let seq: i64 = row.get(0)?;
    let at: i64 = row.get(2)?;
    let format: i64 = row.get(3)?;
    let kind: i64 = row.get(4)?;
    let columns =
        Columns { name: row.get(5)?, item: row.get(6)?, word: row.get(7)?, took_us: row.get(8)?, note: row.get(9)? };
    if format > i64::from(FORMAT) {
        return Ok(Err(Unreadable::Newer { seq, format }));
    }
    let id = row.get_ref(1)?.as_blob()?;
    let body = row.get_ref(10)?.as_blob()?;
    let format = u16::try_from(format).unwrap_or(0);
    Ok(decode(seq, id, at, format, kind, columns, body).map_err(|what| Unreadable::Damaged { seq, what }))
}

/// A record that can't be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// Written in a format that this version doesn't know.
    Newer { seq: i64, format: i64 },
    /// Not as it was written.
    Damaged { seq: i64, what: String },
}

impl Unreadable {
    pub(crate) fn into_store_error(self, run: impl std::fmt::Display) -> StoreError {
        match self {
            Self::Newer { seq, format } => StoreError::Newer {
                found: format!("record {seq} of {run} in format {format}"),
                known: format!("formats up to {FORMAT}"),
            },
            Self::Damaged { seq, what } => StoreError::Corrupt(format!(
                "record {seq} of {run}: {what}; nothing stands in for it: restore a backup, or start the task anew"
            )),
        }
    }
}

/// The record of a row in a format that is known; the error says what is wrong with it.
pub(crate) fn decode(
    seq: i64,
    id: &[u8],
    at: i64,
    format: u16,
    kind: i64,
    columns: Columns,
    body: &[u8],
) -> Result<Record, String> {
    let id: [u8; 16] = id.try_into().map_err(|_| "its id has a wrong length".to_owned())?;
    let Some((stored_check, rest)) = body.split_at_checked(CHECK_BYTES) else {
        return Err("its body is cut off".to_owned());
    };
    let text = match rest.split_first() {
        Some((&PLAIN, text)) => text.to_vec(),
        Some((&DICTIONARY, frame)) => decompress(frame).ok_or("its body can't be decompressed")?,
        _ => return Err("its body is written in an unknown way".to_owned()),
    };
    if stored_check != check(seq, &id, at, format, &columns, &text) {
        return Err("its content doesn't have the hash that was stored with it".to_owned());
    }
    let mut event: Event =
        serde_json::from_slice(&text).map_err(|error| format!("it is no record of format {format}: {error}"))?;
    if i64::from(kind_number(event.kind())) != kind {
        return Err(format!("its kind is {kind}, and its body is a `{}`", event.kind()));
    }
    put_columns(&mut event, columns);
    Ok(Record { seq: Seq(unsigned(seq)), id: RecordId(Uuid::from_bytes(id)), at: Timestamp(at), event })
}

/// The kinds in the order of their numbers, from 1. The same as in the table `kind`; a test compares.
pub(crate) const KINDS: [&str; 38] = [
    "run_started",
    "run_resumed",
    "subgoal_started",
    "subgoal_ended",
    "step_started",
    "action_decided",
    "action_refused",
    "action_started",
    "attempt_failed",
    "action_finished",
    "action_unknown",
    "action_not_happened",
    "state_saved",
    "wait_started",
    "wait_ended",
    "question_asked",
    "question_answered",
    "lifecycle_moved",
    "lifecycle_refused",
    "loop_found",
    "step_evaluated",
    "limit_reached",
    "limits_raised",
    "run_paused",
    "run_ended",
    "hook_sent",
    "changes_accepted",
    "model_called",
    "model_replied",
    "model_failed",
    "budget_warned",
    "budget_staged",
    "note_taken",
    "order_taken",
    "consult_started",
    "consult_failed",
    "plan_amended",
    "judged",
];

/// The number of a kind; 0, which no row has, for one that is missing in [`KINDS`].
pub(crate) fn kind_number(kind: &str) -> u8 {
    let position = KINDS.iter().position(|known| *known == kind);
    position.and_then(|position| u8::try_from(position + 1).ok()).unwrap_or(0)
}

/// The step and, within it, the action that an event is about.
fn place(event: &Event) -> (Option<i64>, Option<i64>) {
    let action = match event {
        Event::ActionDecided(event) => Some(event.id.action),
        Event::ActionRefused(event) => Some(event.id.action),
        Event::ActionStarted(event) => Some(event.id.action),
        Event::AttemptFailed(event) => Some(event.id.action),
        Event::ActionFinished(event) => Some(event.id.action),
        Event::ActionUnknown(event) => Some(event.id.action),
        Event::ActionNotHappened(event) => Some(event.id.action),
        _ => None,
    };
    (event.step().map(|step| signed(step.0)), action.map(|action| i64::from(action.0)))
}

/// Fills the columns. Free text moves out of the event, and [`put_columns`] moves it back; words and numbers are only
/// copied.
fn take_columns(event: &mut Event) -> Columns {
    use std::mem::take;
    let mut columns = Columns::default();
    match event {
        Event::SubgoalStarted(event) => columns.name = Some(take(&mut event.subgoal)),
        Event::SubgoalEnded(event) => {
            columns.name = Some(take(&mut event.subgoal));
            columns.word = word(&event.outcome);
            columns.note = Some(take(&mut event.reason));
        }
        Event::StepStarted(event) => {
            columns.name = Some(take(&mut event.subgoal));
            columns.item = event.item.map(i64::from);
        }
        Event::ModelCalled(event) => columns.name = Some(take(&mut event.model)),
        Event::ModelReplied(event) => {
            columns.took_us = Some(signed(event.took_us));
            columns.note = event.says.as_mut().map(take);
        }
        Event::ModelFailed(event) => {
            columns.word = Some(event.error.name().to_owned());
            columns.note = Some(take(&mut event.reason));
        }
        Event::ActionDecided(event) => columns.name = Some(take(&mut event.tool)),
        Event::ActionRefused(event) => {
            columns.word = Some(event.code.name().to_owned());
            columns.note = Some(take(&mut event.reason));
        }
        Event::ActionStarted(event) => columns.name = Some(take(&mut event.tool)),
        Event::AttemptFailed(event) => {
            columns.word = Some(event.code.name().to_owned());
            columns.note = Some(take(&mut event.error));
        }
        Event::ActionFinished(event) => {
            columns.word = Some(event.result.code.name().to_owned());
            columns.took_us = Some(signed(event.took_us));
            columns.note = event.result.error.as_mut().map(take);
        }
        Event::StepEvaluated(event) => {
            columns.word = route(event.verdict.route);
            columns.note = Some(take(&mut event.verdict.reason));
        }
        Event::RunEnded(event) => {
            columns.word = word(&event.outcome);
            columns.note = Some(take(&mut event.reason));
        }
        _ => {}
    }
    columns
}

fn put_columns(event: &mut Event, columns: Columns) {
    let name = columns.name.unwrap_or_default();
    let note = columns.note;
    match event {
        Event::SubgoalStarted(event) => event.subgoal = name,
        Event::SubgoalEnded(event) => {
            event.subgoal = name;
            event.reason = note.unwrap_or_default();
        }
        Event::StepStarted(event) => event.subgoal = name,
        Event::ModelCalled(event) => event.model = name,
        Event::ModelReplied(event) => event.says = note,
        Event::ModelFailed(event) => event.reason = note.unwrap_or_default(),
        Event::ActionDecided(event) => event.tool = name,
        Event::ActionRefused(event) => event.reason = note.unwrap_or_default(),
        Event::ActionStarted(event) => event.tool = name,
        Event::AttemptFailed(event) => event.error = note.unwrap_or_default(),
        Event::ActionFinished(event) => event.result.error = note,
        Event::StepEvaluated(event) => event.verdict.reason = note.unwrap_or_default(),
        Event::RunEnded(event) => event.reason = note.unwrap_or_default(),
        _ => {}
    }
}

/// The word of a plain enum, as serde writes it.
fn word(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

fn route(route: loopforge_core::record::Route) -> Option<String> {
    serde_json::to_value(route).ok()?.get("to")?.as_str().map(str::to_owned)
}

/// The first bytes of a hash over all that a row says. Lengths stand between the parts, so that none can pass for
/// another.
fn check(seq: i64, id: &[u8; 16], at: i64, format: u16, columns: &Columns, text: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seq.to_le_bytes());
    hasher.update(id);
    hasher.update(&at.to_le_bytes());
    hasher.update(&format.to_le_bytes());
    for number in [columns.item, columns.took_us] {
        hasher.update(&number.unwrap_or(-1).to_le_bytes());
    }
    for text in [&columns.name, &columns.word, &columns.note] {
        let length = text.as_ref().map_or(-1, |text| signed(text.len() as u64));
        hasher.update(&length.to_le_bytes());
        hasher.update(text.as_deref().unwrap_or_default().as_bytes());
    }
    hasher.update(text);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_BYTES]);
    check
}

thread_local! {
    // Their working memory costs more to make than a record to compress.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn compress(text: &[u8]) -> Option<Vec<u8>> {
    static PREPARED: OnceLock<EncoderDictionary<'static>> = OnceLock::new();
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            let dictionary = PREPARED.get_or_init(|| EncoderDictionary::copy(DICTIONARY_1, LEVEL));
            let mut new = Compressor::with_prepared_dictionary(dictionary).ok()?;
            // The row says which dictionary it is.
            new.set_parameter(CParameter::DictIdFlag(false)).ok()?;
            *compressor = Some(new);
        }
        compressor.as_mut()?.compress(text).ok()
    })
}

fn decompress(frame_without_magic: &[u8]) -> Option<Vec<u8>> {
    static PREPARED: OnceLock<DecoderDictionary<'static>> = OnceLock::new();
    let mut frame = Vec::with_capacity(MAGIC.len() + frame_without_magic.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(frame_without_magic);
    let size = usize::try_from(zstd_safe::get_frame_content_size(&frame).ok()??).ok()?;
    if size > LONGEST_BODY {
        return None;
    }
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        if decompressor.is_none() {
            let dictionary = PREPARED.get_or_init(|| DecoderDictionary::copy(DICTIONARY_1));
            *decompressor = Some(Decompressor::with_prepared_dictionary(dictionary).ok()?);
        }
        decompressor.as_mut()?.decompress(&frame, size).ok()
    })
}

/// SQLite has signed integers only. Numbers here count things, and none comes near the end of the range.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The reverse of [`signed`].
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
