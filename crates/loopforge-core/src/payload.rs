//! A JSON value whose large parts are kept apart.
//!
//! Records and state stay small because a part over [`INLINE_LIMIT`] bytes is a blob, named by its content: a page that was
//! fetched, handed to a parser and saved is stored once. [`Payload::stow`] takes a value apart, [`Payload::open`] puts
//! it together again.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ContentHash;
use crate::json::Json;

/// The size in bytes of JSON text above which a part goes to a blob.
pub const INLINE_LIMIT: usize = 1024;

/// How the bytes of a blob are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlobKind {
    /// UTF-8: a JSON string, without quotes and escapes.
    Text,
    /// JSON text of an object or array.
    Json,
    /// Bytes as a tool delivered them.
    Bytes,
}

/// A reference to a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// Names the content.
    pub hash: ContentHash,
    /// Bytes before compression.
    pub size: u64,
    /// How to read them.
    pub kind: BlobKind,
}

/// The content of a blob on its way to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Name, size and kind.
    pub reference: BlobRef,
    /// The content.
    pub bytes: Arc<[u8]>,
}

impl Blob {
    /// Names `bytes` by their content.
    #[must_use]
    pub fn new(kind: BlobKind, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { reference: BlobRef { hash: ContentHash::of(&bytes), size: bytes.len() as u64, kind }, bytes }
    }
}

/// A place in a payload whose value is a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// JSON pointer (RFC 6901); empty for the whole value.
    pub at: String,
    /// What belongs there.
    pub blob: BlobRef,
}

/// A JSON value with holes where large parts were taken out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Payload {
    /// The small parts; `null` at each hole.
    #[serde(rename = "v", default)]
    pub inline: Json,
    /// The large parts, in the order in which they stand.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<Hole>,
}

/// A part of a value is not in memory; the caller loads it and tries again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLoaded {
    /// A blob is needed.
    #[error("blob {} is not loaded", .0.hash)]
    Blob(BlobRef),
    /// All values under a state key are needed.
    #[error("state key `{0}` is not loaded")]
    State(String),
    /// The names of all state keys are needed, and their values.
    #[error("the state is not loaded")]
    WholeState,
}

impl Payload {
    /// A value that is small by construction; nothing is taken out.
    #[must_use]
    pub fn inline(value: Json) -> Self {
        Self { inline: value, holes: Vec::new() }
    }

    /// Takes `value` apart: parts over [`INLINE_LIMIT`] go to `blobs`. Equal values give equal payloads.
    pub fn stow(value: Json, blobs: &mut Vec<Blob>) -> Self {
        let mut payload = Self { inline: value, holes: Vec::new() };
        let mut value = std::mem::take(&mut payload.inline);
        stow_part(&mut value, &mut String::new(), &mut payload.holes, blobs);
        payload.inline = value;
        payload
    }

    /// The whole value.
    ///
    /// # Errors
    /// [`NotLoaded::Blob`] when `blobs` lacks a part.
    pub fn open(&self, blobs: &BlobCache) -> Result<Json, NotLoaded> {
        let mut value = self.inline.clone();
        for hole in &self.holes {
            let part = blobs.value(&hole.blob)?;
            match value.pointer_mut(&hole.at) {
                Some(place) => *place = (*part).clone(),
                None => debug_assert!(false, "a hole stands where the value has no place"),
            }
        }
        Ok(value)
    }

    /// One item of a value that is a list, without copying the others; `null` past its end.
    ///
    /// # Errors
    /// [`NotLoaded::Blob`] when `blobs` lacks a part that it needs.
    pub fn item(&self, position: usize, blobs: &BlobCache) -> Result<Json, NotLoaded> {
        if let [Hole { at, blob }] = self.holes.as_slice()
            && at.is_empty()
        {
            return Ok(blobs.value(blob)?.get(position).cloned().unwrap_or_default());
        }
        let at = format!("/{position}");
        let mut item = Self { inline: self.inline.get(position).cloned().unwrap_or_default(), holes: Vec::new() };
        for hole in &self.holes {
            if let Some(rest) = hole.at.strip_prefix(&at)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                item.holes.push(Hole { at: rest.to_owned(), blob: hole.blob });
            }
        }
        item.open(blobs)
    }

    /// Bytes of JSON text, blobs included, about.
    #[must_use]
    pub fn size(&self) -> u64 {
        json_size(&self.inline) as u64 + self.holes.iter().map(|hole| hole.blob.size).sum::<u64>()
    }
}

/// Returns the size of what stays inline.
fn stow_part(value: &mut Json, at: &mut String, holes: &mut Vec<Hole>, blobs: &mut Vec<Blob>) -> usize {
    let size = json_size(value);
    if size <= INLINE_LIMIT {
        return size;
    }
    let first_hole = holes.len();
    let first_blob = blobs.len();
    let mut rest = 2;
    match value {
        Json::Object(map) => {
            for (key, part) in map.iter_mut() {
                let length = at.len();
                at.push('/');
                at.push_str(&key.replace('~', "~0").replace('/', "~1"));
                rest += key.len() + 4 + stow_part(part, at, holes, blobs);
                at.truncate(length);
            }
        }
        Json::Array(items) => {
            for (position, part) in items.iter_mut().enumerate() {
                let length = at.len();
                at.push('/');
                at.push_str(&position.to_string());
                rest += 1 + stow_part(part, at, holes, blobs);
                at.truncate(length);
            }
        }
        Json::String(text) => {
            return make_hole(Blob::new(BlobKind::Text, std::mem::take(text).into_bytes()), value, at, holes, blobs);
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => return size,
    }
    if rest + 96 * (holes.len() - first_hole) <= INLINE_LIMIT {
        return rest;
    }
    // Many small parts: the value as a whole becomes one blob, and the parts that were taken out go back into it.
    for (hole, blob) in holes.drain(first_hole..).zip(blobs.drain(first_blob..)) {
        if let Some(place) = value.pointer_mut(&hole.at[at.len()..]) {
            *place = read_blob(blob.reference.kind, &blob.bytes);
        }
    }
    let text = value.to_string().into_bytes();
    make_hole(Blob::new(BlobKind::Json, text), value, at, holes, blobs)
}

fn make_hole(blob: Blob, value: &mut Json, at: &str, holes: &mut Vec<Hole>, blobs: &mut Vec<Blob>) -> usize {
    holes.push(Hole { at: at.to_owned(), blob: blob.reference });
    blobs.push(blob);
    *value = Json::Null;
    4
}

/// Reads a blob as the JSON value that it stands for. Bytes that aren't text are shown as text with replacement marks.
#[must_use]
pub fn read_blob(kind: BlobKind, bytes: &[u8]) -> Json {
    match kind {
        BlobKind::Json => serde_json::from_slice(bytes).unwrap_or_else(|_| lossy(bytes)),
        BlobKind::Text | BlobKind::Bytes => lossy(bytes),
    }
}

fn lossy(bytes: &[u8]) -> Json {
    Json::String(String::from_utf8_lossy(bytes).into_owned())
}

fn json_size(value: &Json) -> usize {
    match value {
        Json::Null => 4,
        Json::Bool(_) => 5,
        Json::Number(_) => 8,
        Json::String(text) => text.len() + 2,
        Json::Array(items) => 2 + items.iter().map(|item| json_size(item) + 1).sum::<usize>(),
        Json::Object(map) => 2 + map.iter().map(|(key, item)| key.len() + 4 + json_size(item)).sum::<usize>(),
    }
}

/// Blobs in memory, as the values that they stand for. Bounded: [`BlobCache::trim`] forgets what was not used lately.
#[derive(Debug, Default)]
pub struct BlobCache {
    // By kind too: the text `{}` and the object `{}` have the same bytes and are different values.
    values: HashMap<(ContentHash, BlobKind), Arc<Json>>,
    size: u64,
}

impl BlobCache {
    /// Keeps a blob at hand.
    pub fn insert(&mut self, reference: BlobRef, bytes: &[u8]) {
        let value = Arc::new(read_blob(reference.kind, bytes));
        if self.values.insert((reference.hash, reference.kind), value).is_none() {
            self.size += reference.size;
        }
    }

    /// The value of a blob.
    ///
    /// # Errors
    /// [`NotLoaded::Blob`] when it isn't at hand.
    pub fn value(&self, reference: &BlobRef) -> Result<Arc<Json>, NotLoaded> {
        self.values.get(&(reference.hash, reference.kind)).map(Arc::clone).ok_or(NotLoaded::Blob(*reference))
    }

    /// Forgets everything once more than `limit` bytes are held. What is needed again is loaded again.
    pub fn trim(&mut self, limit: u64) {
        if self.size > limit {
            self.values.clear();
            self.size = 0;
        }
    }
}
