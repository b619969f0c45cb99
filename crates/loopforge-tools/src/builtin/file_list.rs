//! `file_list`.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use loopforge_core::json::{Json, clean_text};
use loopforge_core::tool::{Code, Contract, TimeoutKind, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::folder::{self, Folder, OWN_PREFIX};
use super::{arguments, compute};
use crate::{CallContext, Tool};

/// More entries are left out, with a mark.
const MOST_ENTRIES: usize = 10_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// A folder below the run's workspace; the workspace itself unless set.
    #[serde(default)]
    path: Option<String>,
    /// List what is in its folders, too.
    #[serde(default)]
    recursive: bool,
}

/// Lists the files of the run's workspace.
#[derive(Debug)]
pub(super) struct FileList {
    contract: Contract,
}

impl FileList {
    pub(super) fn new() -> Self {
        let mut contract =
            Contract::read("Lists the files of the run's workspace, by path.", arguments::schema::<Arguments>());
        contract.timeout = TimeoutKind::File;
        contract.meaning_of_empty = Some("there are no files yet".to_owned());
        Self { contract }
    }
}

#[async_trait]
impl Tool for FileList {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        let arguments: Arguments = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(refusal) => return refusal,
        };
        let workspace = context.workspace.clone();
        compute::blocking(context, move || list(&workspace, &arguments).unwrap_or_else(|failure| failure)).await
    }
}

fn list(workspace: &Path, arguments: &Arguments) -> Result<ToolResult, ToolResult> {
    let shown = arguments.path.as_deref();
    let start = shown.map(|text| folder::read_path("path", text)).transpose()?;
    let failed = |error: io::Error| match (error.kind(), shown) {
        (io::ErrorKind::NotFound, Some(shown)) => {
            ToolResult::failure(Code::NotFound, format!("there is no folder `{shown}` in the workspace"))
        }
        _ => folder::failure("list the workspace", &error),
    };
    let mut found = Found::default();
    match Folder::open(workspace).map_err(failed)? {
        Some(folder) => found.walk(&folder, start, arguments.recursive).map_err(failed)?,
        None if shown.is_some() => return Err(failed(io::ErrorKind::NotFound.into())),
        None => {}
    }
    found.files.sort();
    let files: Vec<Json> = found
        .files
        .into_iter()
        .map(|(path, kind, bytes)| json!({ "path": path, "kind": kind, "bytes": bytes }))
        .collect();
    let mut result = ToolResult::success(json!({ "count": files.len(), "files": files }));
    if found.left_out {
        result.marks.push(format!("only the first {MOST_ENTRIES} entries are listed: list a folder of them"));
    }
    if found.odd_names > 0 {
        result.marks.push(format!("{} names that are no UTF-8 are shown with \u{fffd}", found.odd_names));
    }
    if result.data["count"] == 0 {
        result.meaning_of_empty = Some("there are no files yet".to_owned());
    }
    Ok(result)
}

#[derive(Default)]
struct Found {
    files: Vec<(String, &'static str, u64)>,
    left_out: bool,
    odd_names: usize,
}

impl Found {
    /// Links are listed, never followed, so that a circle of them has an end.
    fn walk(&mut self, folder: &Folder, start: Option<PathBuf>, recursive: bool) -> io::Result<()> {
        let mut folders = vec![start.unwrap_or_default()];
        while let Some(at) = folders.pop() {
            let entries =
                if at.as_os_str().is_empty() { folder.dir().entries()? } else { folder.dir().read_dir(&at)? };
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name();
                if name.to_str().is_some_and(|name| name.starts_with(OWN_PREFIX)) {
                    continue;
                }
                if self.files.len() == MOST_ENTRIES {
                    self.left_out = true;
                    return Ok(());
                }
                if name.to_str().is_none() {
                    self.odd_names += 1;
                }
                let path = at.join(&name);
                let metadata = entry.metadata()?;
                let kind = if metadata.is_file() {
                    "file"
                } else if metadata.is_dir() {
                    "folder"
                } else if metadata.is_symlink() {
                    "link"
                } else {
                    "other"
                };
                let (shown, _) = clean_text(path.to_string_lossy().replace('\\', "/"));
                self.files.push((shown, kind, if kind == "file" { metadata.len() } else { 0 }));
                if recursive && kind == "folder" {
                    folders.push(path);
                }
            }
        }
        Ok(())
    }
}
