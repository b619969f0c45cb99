//! `file_read`.

use std::io::Read;

use async_trait::async_trait;
use loopforge_core::json::Json;
use loopforge_core::tool::{Code, Contract, TimeoutKind, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{self, invalid};
use super::folder::{self, Folder};
use super::{compute, text};
use crate::{CallContext, Tool};

const DEFAULT_MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The path below the run's workspace. `{run}` and `{step}` are replaced by the run's id and the step's number.
    path: String,
    /// The size above which the rest is left out. 64 MiB unless set.
    #[serde(default)]
    #[schemars(range(min = 1, max = 268_435_456))]
    max_bytes: Option<u64>,
}

/// Reads a file of the run's workspace.
#[derive(Debug)]
pub(super) struct FileRead {
    contract: Contract,
}

impl FileRead {
    pub(super) fn new() -> Self {
        let mut contract =
            Contract::read("Reads a text file of the run's workspace.", arguments::schema::<Arguments>());
        contract.timeout = TimeoutKind::File;
        contract.key_fields = vec!["/path".to_owned()];
        contract.meaning_of_empty = Some("the file is there, and empty".to_owned());
        Self { contract }
    }
}

#[async_trait]
impl Tool for FileRead {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        let arguments: Arguments = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(refusal) => return refusal,
        };
        let shown = folder::fill_in(&arguments.path, context);
        let workspace = context.workspace.clone();
        compute::blocking(context, move || read(&workspace, &shown, &arguments).unwrap_or_else(|failure| failure)).await
    }
}

fn read(workspace: &std::path::Path, shown: &str, arguments: &Arguments) -> Result<ToolResult, ToolResult> {
    let path = folder::read_path("path", shown)?;
    let failed = |error: std::io::Error| folder::failure(&format!("read `{shown}`"), &error);
    let absent = || ToolResult::failure(Code::NotFound, format!("there is no file `{shown}` in the workspace"));
    let folder = Folder::open(workspace).map_err(failed)?.ok_or_else(absent)?;
    let metadata = folder.dir().metadata(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => absent(),
        _ => failed(error),
    })?;
    // A pipe would be waited for without end.
    if !metadata.is_file() {
        return Err(invalid(format!("`path` is `{shown}`, which is no file: list a folder with `file_list`")));
    }
    let limit = arguments.max_bytes.unwrap_or(DEFAULT_MAX_BYTES);
    let mut bytes = Vec::new();
    folder.dir().open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(failed)?;
    let (size, length) = (metadata.len(), bytes.len());
    let truncated = size > length as u64;
    let document = text::read(bytes, None, truncated);
    let mut result = ToolResult::success(json!({
        "path": shown, "bytes": size, "truncated": truncated, "binary": document.binary, "charset": document.charset,
        "content": document.text,
    }));
    result.marks = document.marks;
    result.raw = document.raw;
    if truncated {
        result.marks.push(format!("cut at {length} of {size} bytes (raise `max_bytes` to get more)"));
    }
    if size == 0 {
        result.meaning_of_empty = Some("the file is there, and empty".to_owned());
    }
    Ok(result)
}
