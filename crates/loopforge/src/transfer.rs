//! Taking over a run that another store wrote out.
//!
//! An export is read twice: once to check all of it, once to store it. Neither holds more than a page of it in memory, besides
//! a place and a hash for each large value. What is checked: that it is whole (its own hash, its counts), that records
//! follow each other and make up a legal run of its task, and that each large value is the one that its hash names.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loopforge_core::id::{ContentHash, RunId, Seq};
use loopforge_core::payload::{Blob, BlobRef};
use loopforge_core::record::{Record, RunStatus};
use loopforge_core::run::RunState;
use loopforge_core::task;
use loopforge_core::time::Timestamp;
use loopforge_store::{Page, Pages, RunInfo, Store, StoreError};
use serde::Deserialize;

use crate::gateway::Registry;
use crate::prepare::catalog;

/// The format of exports that this version writes and reads.
pub const EXPORT_FORMAT: u32 = 1;

/// Records, and bytes of large values, from which on a page is full.
const PAGE_RECORDS: usize = 500;
const PAGE_BYTES: u64 = 8 << 20;

/// Why an export can't be taken over. Nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The file can't be read.
    #[error("`{path}` can't be read: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not as it must be.
    #[error("line {line} of the export: {problem}")]
    Line {
        /// From 1 on.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// It was written in a later format.
    #[error("the export has format {0}, and this version reads {EXPORT_FORMAT}")]
    Newer(u32),
}

/// An export that was checked as a whole and can be stored.
#[derive(Debug)]
pub struct Import {
    info: RunInfo,
    task: Vec<u8>,
    content: Arc<Content>,
    records: u64,
}

/// Where everything stands in the file.
#[derive(Debug)]
struct Content {
    path: PathBuf,
    pages: Vec<PagePlace>,
    blobs: HashMap<ContentHash, u64>,
}

#[derive(Debug)]
struct PagePlace {
    at: u64,
    records: usize,
    /// Those that no page before refers to.
    blobs: Vec<BlobRef>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Header(Box<Header>),
    Record(Box<Record>),
    Unreadable { seq: Seq, problem: String },
    Blob(BlobLine),
    End(End),
}

#[derive(Deserialize)]
struct Header {
    format: u32,
    run: RunId,
    name: String,
    status: RunStatus,
    head: Seq,
    steps: u64,
    created_at: Timestamp,
    updated_at: Timestamp,
    wake_at: Option<Timestamp>,
    workspace: String,
    base: String,
    task_hash: ContentHash,
    task: Text,
}

/// Bytes in one of their two forms, or the reason why they are missing.
#[derive(Deserialize)]
struct Text {
    text: Option<String>,
    base64: Option<String>,
    problem: Option<String>,
}

#[derive(Deserialize)]
struct BlobLine {
    hash: ContentHash,
    size: u64,
    #[serde(flatten)]
    content: Text,
}

#[derive(Deserialize)]
struct End {
    records: u64,
    blobs: u64,
    problems: u64,
    hash: String,
}

impl Text {
    fn bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Self { problem: Some(problem), .. } => Err(format!("it was not whole when it was exported: {problem}")),
            Self { text: Some(text), base64: None, .. } => Ok(text.into_bytes()),
            Self { base64: Some(encoded), text: None, .. } => {
                STANDARD.decode(encoded).map_err(|error| format!("its `base64` can't be read: {error}"))
            }
            _ => Err("it has neither `text` nor `base64`".to_owned()),
        }
    }
}

impl Import {
    /// Reads and checks all of an export.
    ///
    /// # Errors
    /// [`TransferError`] names the first line that is not as it must be.
    pub fn check(path: &Path, registry: &Registry) -> Result<Self, TransferError> {
        let file = File::open(path).map_err(|source| TransferError::Io { path: path.to_owned(), source })?;
        let mut lines = Lines { path, source: BufReader::with_capacity(1 << 20, file), at: 0, number: 0 };
        Checking::default().all(&mut lines, registry)
    }

    /// The run, as the store that it comes from knew it.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// How many records it has.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Puts the run's files elsewhere: the folder where it works, and the one from which its task's relative paths are read.
    pub fn relocate(&mut self, workspace: Option<String>, base: Option<String>) {
        if let Some(workspace) = workspace {
            self.info.workspace = workspace;
        }
        if let Some(base) = base {
            self.info.base = base;
        }
    }

    /// Stores the run. All of it is there then, or nothing.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when the store has the run already; otherwise as [`Store::import_run`].
    pub async fn store(self, store: &dyn Store) -> Result<(), StoreError> {
        store.import_run(self.info, self.task, self.content).await
    }
}

/// Lines with their places.
struct Lines<'a> {
    path: &'a Path,
    source: BufReader<File>,
    at: u64,
    number: u64,
}

impl Lines<'_> {
    /// The next line, its bytes and where it begins; none at the end.
    fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>, TransferError> {
        let mut text = Vec::new();
        let io = |source| TransferError::Io { path: self.path.to_owned(), source };
        let length = self.source.read_until(b'\n', &mut text).map_err(io)?;
        if length == 0 {
            return Ok(None);
        }
        let at = self.at;
        self.at += length as u64;
        self.number += 1;
        Ok(Some((at, text)))
    }

    fn wrong(&self, problem: impl Into<String>) -> TransferError {
        TransferError::Line { line: self.number, problem: problem.into() }
    }
}

/// What was read so far.
#[derive(Default)]
struct Checking {
    hasher: blake3::Hasher,
    pages: Vec<PagePlace>,
    /// Large values that records refer to; those that came are taken out.
    wanted: HashMap<ContentHash, u64>,
    seen: HashSet<ContentHash>,
    blobs: HashMap<ContentHash, u64>,
    records: u64,
    page_bytes: u64,
}

impl Checking {
    fn all(mut self, lines: &mut Lines<'_>, registry: &Registry) -> Result<Import, TransferError> {
        let (header, text) = self.header(lines)?;
        let task = task::read_stored(&text, &catalog(registry))
            .map_err(|problems| lines.wrong(format!("its task can't be read by this version: {problems}")))?;
        let mut state = RunState::new(header.run, &task);
        loop {
            let Some((at, line)) = lines.next()? else {
                lines.number += 1;
                return Err(lines.wrong("the export is cut off: it has no `end`"));
            };
            match parse(lines, &line)? {
                Line::Record(record) => {
                    state.apply(&record).map_err(|illegal| lines.wrong(illegal.to_string()))?;
                    self.record(at, line.len() as u64, &record);
                }
                Line::Blob(blob) => self.blob(lines, at, blob)?,
                Line::Unreadable { seq, problem } => {
                    return Err(lines.wrong(format!(
                        "record {seq} was damaged when the run was exported ({problem}): only a whole run can be imported"
                    )));
                }
                Line::Header(_) => return Err(lines.wrong("there is a second `header`")),
                Line::End(end) => {
                    self.end(lines, &end)?;
                    break;
                }
            }
            self.hasher.update(&line);
        }
        if lines.next()?.is_some() {
            return Err(lines.wrong("something follows the `end`"));
        }
        let wrong = |problem: String| Err(TransferError::Line { line: 1, problem });
        if state.head != header.head {
            return wrong(format!("the header says that record {} is the last, and it is {}", header.head, state.head));
        }
        if state.task != header.task_hash {
            return wrong("the header has another task than the records say".to_owned());
        }
        if state.ended.is_some() != header.status.is_final() || header.status == RunStatus::Queued {
            return wrong(format!(
                "the header says that the run is {}, the records say {}",
                header.status,
                state.status()
            ));
        }
        let info = RunInfo {
            id: header.run,
            name: header.name,
            task: header.task_hash,
            workspace: header.workspace,
            base: header.base,
            status: header.status,
            head: header.head,
            steps: header.steps,
            created_at: header.created_at,
            updated_at: header.updated_at,
            wake_at: header.wake_at,
            owner: None,
        };
        let content = Content { path: lines.path.to_owned(), pages: self.pages, blobs: self.blobs };
        Ok(Import { info, task: text, content: Arc::new(content), records: self.records })
    }

    fn header(&mut self, lines: &mut Lines<'_>) -> Result<(Header, Vec<u8>), TransferError> {
        /// The least that any version's header has.
        #[derive(Deserialize)]
        struct Any {
            header: Format,
        }
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let none = "this is no export of LoopForge: it doesn't begin with a `header`";
        let Some((_, line)) = lines.next()? else { return Err(lines.wrong(none)) };
        let Ok(any) = serde_json::from_slice::<Any>(&line) else { return Err(lines.wrong(none)) };
        if any.header.format > EXPORT_FORMAT {
            return Err(TransferError::Newer(any.header.format));
        }
        let Line::Header(header) = parse(lines, &line)? else { return Err(lines.wrong(none)) };
        self.hasher.update(&line);
        let Header { format: EXPORT_FORMAT, .. } = *header else {
            return Err(lines.wrong(format!("there is no format {}", header.format)));
        };
        let mut header = *header;
        let text = std::mem::replace(&mut header.task, Text { text: None, base64: None, problem: None });
        let text = text.bytes().map_err(|problem| lines.wrong(format!("the task: {problem}")))?;
        if ContentHash::of(&text) != header.task_hash {
            return Err(lines.wrong("the task doesn't have the hash that the header says"));
        }
        Ok((header, text))
    }

    fn record(&mut self, at: u64, length: u64, record: &Record) {
        let full = self.page_bytes >= PAGE_BYTES;
        if full || self.pages.last().is_none_or(|page| page.records >= PAGE_RECORDS) {
            self.pages.push(PagePlace { at, records: 0, blobs: Vec::new() });
            self.page_bytes = 0;
        }
        let Some(page) = self.pages.last_mut() else { return };
        page.records += 1;
        self.records += 1;
        self.page_bytes += length;
        record.event.for_each_blob(&mut |blob| {
            if self.seen.insert(blob.hash) {
                self.wanted.insert(blob.hash, blob.size);
                self.page_bytes += blob.size;
                page.blobs.push(*blob);
            }
        });
    }

    fn blob(&mut self, lines: &Lines<'_>, at: u64, blob: BlobLine) -> Result<(), TransferError> {
        let BlobLine { hash, size, content } = blob;
        let bytes = content.bytes().map_err(|problem| lines.wrong(format!("blob {hash}: {problem}")))?;
        if ContentHash::of(&bytes) != hash || bytes.len() as u64 != size {
            return Err(lines.wrong(format!("the content of blob {hash} is another")));
        }
        if self.wanted.remove(&hash) != Some(size) {
            return Err(lines.wrong(format!("blob {hash} is there twice, or no record before refers to it")));
        }
        self.blobs.insert(hash, at);
        Ok(())
    }

    fn end(&self, lines: &Lines<'_>, end: &End) -> Result<(), TransferError> {
        if end.problems > 0 {
            return Err(lines.wrong(format!("{} parts were damaged when the run was exported", end.problems)));
        }
        if end.hash != self.hasher.finalize().to_hex().as_str() {
            return Err(lines.wrong("the lines don't have the hash that stands here: the file was changed"));
        }
        if (end.records, end.blobs) != (self.records, self.blobs.len() as u64) {
            return Err(lines.wrong(format!(
                "there should be {} records and {} blobs, and there are {} and {}",
                end.records,
                end.blobs,
                self.records,
                self.blobs.len()
            )));
        }
        match self.wanted.keys().next() {
            Some(hash) => Err(lines.wrong(format!("blob {hash} is missing"))),
            None => Ok(()),
        }
    }
}

fn parse(lines: &Lines<'_>, line: &[u8]) -> Result<Line, TransferError> {
    serde_json::from_slice(line).map_err(|error| lines.wrong(format!("it can't be read: {error}")))
}

impl Pages for Content {
    fn page(&self, number: usize) -> Result<Option<Page>, StoreError> {
        let Some(place) = self.pages.get(number) else { return Ok(None) };
        self.read(place)
            .map(Some)
            .map_err(|error| StoreError::Unavailable(format!("`{}` can't be read again: {error}", self.path.display())))
    }
}

impl Content {
    /// Reads a page again. The file was checked, so what is wrong now was changed meanwhile.
    fn read(&self, place: &PagePlace) -> Result<Page, Box<dyn std::error::Error>> {
        let mut source = BufReader::new(File::open(&self.path)?);
        source.seek(SeekFrom::Start(place.at))?;
        let mut page =
            Page { records: Vec::with_capacity(place.records), blobs: Vec::with_capacity(place.blobs.len()) };
        let mut line = Vec::new();
        for _ in 0..place.records {
            line.clear();
            source.read_until(b'\n', &mut line)?;
            let Line::Record(record) = serde_json::from_slice(&line)? else { return Err("it was changed".into()) };
            page.records.push(*record);
        }
        for reference in &place.blobs {
            let at = self.blobs.get(&reference.hash).ok_or("it was changed")?;
            source.seek(SeekFrom::Start(*at))?;
            line.clear();
            source.by_ref().read_until(b'\n', &mut line)?;
            let Line::Blob(blob) = serde_json::from_slice(&line)? else { return Err("it was changed".into()) };
            let bytes = blob.content.bytes()?;
            if ContentHash::of(&bytes) != reference.hash {
                return Err("it was changed".into());
            }
            page.blobs.push(Blob { reference: *reference, bytes: bytes.into() });
        }
        Ok(page)
    }
}
