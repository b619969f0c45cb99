//! `loopforge export RUN`
//!
//! JSON Lines, each an object with one name: `header` first, then a `record` for each record, a `blob` for each large value,
//! `end` last. `docs/reference/cli.md` describes them.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use loopforge::transfer::EXPORT_FORMAT;
use loopforge_core::id::{ContentHash, Seq};
use loopforge_core::payload::BlobRef;
use loopforge_core::record::Record;
use loopforge_store::{Store, StoreError};
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::{Output, to_json};
use crate::text::safe;
use crate::view::{Archive, Place};

/// Write a run out as JSON Lines, with everything that it is made of.
#[derive(Debug, Args)]
pub struct Export {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
}

/// A line. Records are written as they are, not by way of [`Value`], which changes the order of fields and short numbers.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Header(Value),
    Record(&'a Record),
    Unreadable { seq: Seq, problem: &'a str },
    Blob(Value),
    End(Value),
}

/// Writes lines and keeps their hash.
struct Lines {
    out: Output,
    hasher: blake3::Hasher,
    problems: u64,
}

impl Lines {
    fn write(&mut self, line: &Line<'_>) -> Result<(), CliError> {
        let mut text = Vec::new();
        to_json(&mut text, line)?;
        text.push(b'\n');
        self.hasher.update(&text);
        Ok(self.out.write_all(&text)?)
    }

    fn problem(&mut self, what: &str) {
        crate::say!("not exported: {}", safe(what));
        self.problems += 1;
    }
}

impl Export {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or a store that can't be read. What is damaged is named in its place; the rest is written, and the exit code is 5.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let store = context.look()?;
        let id = context.find_run(store.as_ref(), self.run.as_deref()).await?;
        let info = store.run(id).await?;
        let mut lines = Lines { out: Output::new(), hasher: blake3::Hasher::new(), problems: 0 };
        let task = match store.task(info.task).await {
            Ok(text) => content(&text),
            Err(StoreError::Corrupt(problem)) => {
                lines.problem(&problem);
                json!({ "problem": problem })
            }
            Err(error) => return Err(error.into()),
        };
        lines.write(&Line::Header(json!({
            "format": EXPORT_FORMAT,
            "program": format!("loopforge {}", loopforge::VERSION),
            "run": info.id,
            "name": info.name,
            "status": info.status,
            "head": info.head,
            "steps": info.steps,
            "created_at": info.created_at,
            "updated_at": info.updated_at,
            "wake_at": info.wake_at,
            "workspace": info.workspace,
            "base": info.base,
            "task_hash": info.task,
            "task": task,
        })))?;
        let mut records = 0_u64;
        let mut blobs: BTreeMap<ContentHash, BlobRef> = BTreeMap::new();
        let mut archive = Archive::new(store.as_ref(), id, Seq(0), info.head);
        while let Some(page) = archive.next().await? {
            for place in page {
                match place {
                    Place::Record(record) => {
                        record.event.for_each_blob(&mut |blob| {
                            blobs.insert(blob.hash, *blob);
                        });
                        records += 1;
                        lines.write(&Line::Record(&record))?;
                    }
                    Place::Unreadable { seq, problem } => {
                        lines.problem(&problem);
                        lines.write(&Line::Unreadable { seq, problem: &problem })?;
                    }
                }
            }
        }
        for blob in blobs.values() {
            write_blob(store.as_ref(), blob, &mut lines).await?;
        }
        let hash = lines.hasher.finalize().to_hex();
        let problems = lines.problems;
        lines.write(&Line::End(json!({
            "records": records, "blobs": blobs.len(), "problems": problems, "hash": hash.as_str(),
        })))?;
        lines.out.finish()?;
        Ok(if lines.problems == 0 { Exit::Success } else { Exit::Environment })
    }
}

async fn write_blob(store: &dyn Store, blob: &BlobRef, lines: &mut Lines) -> Result<(), CliError> {
    let mut line = match store.blob(blob).await {
        Ok(bytes) => content(&bytes),
        Err(StoreError::Corrupt(problem)) => {
            lines.problem(&problem);
            json!({ "problem": problem })
        }
        Err(error) => return Err(error.into()),
    };
    line["hash"] = json!(blob.hash);
    line["size"] = json!(blob.size);
    lines.write(&Line::Blob(line))
}

/// Bytes in JSON: as `text` where they are UTF-8, else as `base64`. Both give the same bytes back.
fn content(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}
