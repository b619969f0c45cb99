//! Bytes of any size in a row: compressed where that gains something, and checked by their hash on reading.

use std::cell::RefCell;

use loopforge_core::id::ContentHash;
use loopforge_core::payload::Blob;
use zstd::bulk::Compressor;

use super::body::{LEVEL, signed};

/// Compression below this size gains less than it costs to read.
const SMALL: usize = 64;

/// Bytes as they stand in a row.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) hash: [u8; 32],
    pub(crate) size: i64,
    /// Whether `bytes` are compressed by zstd.
    pub(crate) compressed: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::named(ContentHash::of(bytes), bytes)
    }

    pub(crate) fn of_blob(blob: &Blob) -> Self {
        debug_assert_eq!(blob.reference.hash, ContentHash::of(&blob.bytes), "a blob is named by its content");
        Self::named(blob.reference.hash, &blob.bytes)
    }

    fn named(hash: ContentHash, bytes: &[u8]) -> Self {
        let compressed = if bytes.len() < SMALL { None } else { compress(bytes) };
        let compressed = compressed.filter(|compressed| compressed.len() < bytes.len());
        Self {
            hash: hash.0,
            size: signed(bytes.len() as u64),
            compressed: compressed.is_some(),
            bytes: compressed.unwrap_or_else(|| bytes.to_vec()),
        }
    }
}

thread_local! {
    // Its working memory costs more to make than a small content to compress.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            *compressor = Some(Compressor::new(LEVEL).ok()?);
        }
        compressor.as_mut()?.compress(bytes).ok()
    })
}

/// Reads content back; an error says in which way it is damaged.
pub(crate) fn read(hash: &[u8], size: i64, compressed: bool, stored: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    let bytes = if compressed {
        let size = usize::try_from(size).map_err(|_| "has a wrong size")?;
        // A damaged size must not make us reserve all memory: nothing shrinks to less than a thousandth of its size and
        // a bit.
        let possible = stored.len().saturating_mul(1 << 15).max(1 << 16);
        if size > possible {
            return Err("has a wrong size");
        }
        zstd::bulk::decompress(&stored, size).map_err(|_| "can't be decompressed")?
    } else {
        stored
    };
    if ContentHash::of(&bytes).0 == hash { Ok(bytes) } else { Err("doesn't have the hash that it is stored under") }
}
