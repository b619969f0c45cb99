//! `file_write`.

use std::path::PathBuf;

use async_trait::async_trait;
use loopforge_core::id::ContentHash;
use loopforge_core::json::Json;
use loopforge_core::tool::{Contract, TimeoutKind, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{self, invalid};
use super::compute;
use super::folder::{self, Existing, Folder, Holds, Written};
use crate::{CallContext, EffectStatus, Tool};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The path below the run's workspace. `{run}` and `{step}` are replaced by the run's id and the step's number.
    path: String,
    /// The content: a text as it is, anything else as JSON.
    content: Json,
    /// Replace a file of another content that has this name.
    #[serde(default)]
    replace: bool,
}

/// A call, ready to be made or asked about.
struct Plan {
    shown: String,
    path: PathBuf,
    content: Vec<u8>,
    existing: Existing,
}

impl Plan {
    fn of(arguments: Json, context: &CallContext) -> Result<Self, ToolResult> {
        let arguments: Arguments = arguments::read(arguments)?;
        let shown = folder::fill_in(&arguments.path, context);
        let path = folder::read_path("path", &shown)?;
        let existing = if arguments.replace { Existing::Replace } else { Existing::Keep };
        Ok(Self { shown, path, content: bytes_of(arguments.content), existing })
    }

    fn data(&self) -> Json {
        json!({ "path": self.shown, "bytes": self.content.len(), "blake3": ContentHash::of(&self.content) })
    }
}

fn bytes_of(content: Json) -> Vec<u8> {
    match content {
        Json::String(text) => text.into_bytes(),
        other => format!("{other:#}\n").into_bytes(),
    }
}

/// Writes a file into the run's workspace.
#[derive(Debug)]
pub(super) struct FileWrite {
    contract: Contract,
}

impl FileWrite {
    pub(super) fn new() -> Self {
        let description = "Writes a text or JSON file into the run's workspace, whole or not at all. A file of another content is never \
                           overwritten unless `replace` says so.";
        let mut contract = Contract::write(description, arguments::schema::<Arguments>());
        contract.idempotent = true;
        contract.timeout = TimeoutKind::File;
        contract.key_fields = vec!["/path".to_owned(), "/blake3".to_owned()];
        Self { contract }
    }
}

#[async_trait]
impl Tool for FileWrite {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        let plan = match Plan::of(arguments, context) {
            Ok(plan) => plan,
            Err(refusal) => return refusal,
        };
        let (workspace, tag) = (context.workspace.clone(), folder::tag(context));
        compute::changing(context, move |gate| {
            let doing = format!("write `{}`", plan.shown);
            let written = Folder::create(&workspace)
                .and_then(|folder| folder.write(&plan.path, &plan.content, plan.existing, &tag, gate));
            match written {
                Ok(Written::Now | Written::Already) => ToolResult::success(plan.data()),
                Ok(Written::GivenUp) => compute::given_up(),
                Ok(Written::Occupied) => invalid(format!(
                    "`{}` is there with another content, which stays: choose another name (`{{step}}` in it makes it this step's own), \
                     or set `replace: true`",
                    plan.shown
                )),
                Err(error) => folder::failure(&doing, &error),
            }
        })
        .await
    }

    async fn status(&self, arguments: Json, context: &CallContext) -> EffectStatus {
        let plan = match Plan::of(arguments, context) {
            Ok(plan) => plan,
            Err(refusal) => return EffectStatus::Unknown(refusal.error.unwrap_or_default()),
        };
        let workspace = context.workspace.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let holds = match Folder::open(&workspace)? {
                Some(folder) => folder.holds(&plan.path, &plan.content)?,
                None => Holds::Nothing,
            };
            Ok::<_, std::io::Error>(if holds == Holds::Same {
                EffectStatus::Happened(plan.data())
            } else {
                EffectStatus::NotHappened
            })
        });
        folder::status(asked.await)
    }
}
