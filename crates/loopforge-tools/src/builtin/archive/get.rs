//! `archive_get`.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use loopforge_core::json::Json;
use loopforge_core::tool::{Code, Contract, TimeoutKind, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::super::folder::{self, Folder};
use super::super::{arguments, compute};
use super::{ENDING, Entry, file_of, folder_of};
use crate::{CallContext, Tool};

const FIRST: &str = "no entry yet: this run is the first";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The collection, a plain name: `product-pages`.
    collection: String,
    /// The entry to read; the latest one of an earlier run unless set.
    #[serde(default)]
    id: Option<String>,
    /// The folder of the collections, below that of the task file. `archive` unless set.
    #[serde(default)]
    dir: Option<String>,
}

/// Reads an entry of an archive.
#[derive(Debug)]
pub(in crate::builtin) struct ArchiveGet {
    contract: Contract,
}

impl ArchiveGet {
    pub(in crate::builtin) fn new() -> Self {
        let description = "Reads the latest entry that an earlier run left in an archive, or the one with a given id.";
        let mut contract = Contract::read(description, arguments::schema::<Arguments>());
        contract.timeout = TimeoutKind::File;
        contract.key_fields = vec!["/id".to_owned()];
        contract.meaning_of_empty = Some(FIRST.to_owned());
        Self { contract }
    }
}

#[async_trait]
impl Tool for ArchiveGet {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        let arguments: Arguments = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(refusal) => return refusal,
        };
        let inner = context.clone();
        compute::blocking(context, move || get(&arguments, &inner).unwrap_or_else(|failure| failure)).await
    }
}

fn get(arguments: &Arguments, context: &CallContext) -> Result<ToolResult, ToolResult> {
    let collection = &arguments.collection;
    let path = folder_of(collection, arguments.dir.as_deref())?;
    let failed = |error: io::Error| folder::failure(&format!("read the archive `{collection}`"), &error);
    let base = Folder::open(&context.base).map_err(failed)?;
    let id = match (&arguments.id, &base) {
        (Some(id), _) => {
            folder::read_path("id", id)?;
            Some(id.clone())
        }
        (None, Some(base)) => latest(base, &path, context).map_err(failed)?,
        (None, None) => None,
    };
    let (Some(base), Some(id)) = (base, id) else {
        let mut result = ToolResult::success(json!({ "found": false, "id": null, "entry": null }));
        result.meaning_of_empty = Some(FIRST.to_owned());
        return Ok(result);
    };
    let bytes = base.dir().read(file_of(&path, &id)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            ToolResult::failure(Code::NotFound, format!("the archive `{collection}` has no entry `{id}`"))
        }
        _ => failed(error),
    })?;
    let entry: Entry = serde_json::from_slice(&bytes).map_err(|error| {
        ToolResult::failure(
            Code::MalformedOutput,
            format!("the entry `{id}` of the archive `{collection}` is no entry any more: {error}"),
        )
    })?;
    Ok(ToolResult::success(json!({
        "found": true, "id": id, "run": entry.run, "run_started_at": entry.run_started_at, "entry": entry.entry,
    })))
}

/// The id of the newest entry of the runs that started before this one.
fn latest(base: &Folder, path: &Path, context: &CallContext) -> io::Result<Option<String>> {
    let entries = match base.dir().read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let own = context.run.to_string();
    let mut newest: Option<String> = None;
    for entry in entries {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_suffix(ENDING)) else { continue };
        // An id begins with the run's, so comparing texts compares starts; what is of this run is longer, and greater.
        if id.starts_with("run_") && id < own.as_str() && newest.as_deref().is_none_or(|newest| newest < id) {
            newest = Some(id.to_owned());
        }
    }
    Ok(newest)
}
