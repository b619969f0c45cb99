//! `archive_put`.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use loopforge_core::json::{Json, canonical};
use loopforge_core::tool::{Contract, TimeoutKind, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::super::compute::Gate;
use super::super::folder::{self, Existing, Folder, Written};
use super::super::{arguments, compute};
use super::{Entry, file_of, folder_of, id_of};
use crate::{CallContext, EffectStatus, Tool};

/// More rollbacks of one step than this are a mistake somewhere.
const MOST_ROUNDS: u32 = 999;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The collection, a plain name: `product-pages`.
    collection: String,
    /// What to keep: any JSON value.
    entry: Json,
    /// The folder of the collections, below that of the task file. `archive` unless set.
    #[serde(default)]
    dir: Option<String>,
}

/// Adds an entry to an archive.
#[derive(Debug)]
pub(in crate::builtin) struct ArchivePut {
    contract: Contract,
}

impl ArchivePut {
    pub(in crate::builtin) fn new() -> Self {
        let description =
            "Adds an entry to an archive that later runs of the task can read. Entries are never overwritten.";
        let mut contract = Contract::write(description, arguments::schema::<Arguments>());
        contract.idempotent = true;
        contract.timeout = TimeoutKind::File;
        contract.key_fields = vec!["/id".to_owned(), "/path".to_owned()];
        Self { contract }
    }
}

/// A call, ready to be made or asked about.
struct Plan {
    collection: String,
    folder: PathBuf,
    entry: Entry,
    context: CallContext,
}

impl Plan {
    fn of(arguments: Json, context: &CallContext) -> Result<Self, ToolResult> {
        let arguments: Arguments = arguments::read(arguments)?;
        Ok(Self {
            folder: folder_of(&arguments.collection, arguments.dir.as_deref())?,
            collection: arguments.collection,
            entry: Entry::of(arguments.entry, context),
            context: context.clone(),
        })
    }

    /// The first name that is free, or that holds what this very effect wrote (then the second is true).
    fn place(&self, base: &Folder) -> io::Result<(String, bool)> {
        for round in 1..=MOST_ROUNDS {
            let id = id_of(&self.context, round);
            match base.dir().read(file_of(&self.folder, &id)) {
                Ok(bytes) if self.wrote(&bytes) => return Ok((id, true)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((id, false)),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("this step has too many entries"))
    }

    fn wrote(&self, bytes: &[u8]) -> bool {
        serde_json::from_slice::<Entry>(bytes).is_ok_and(|other| {
            other.step_token == self.entry.step_token && canonical(&other.entry) == canonical(&self.entry.entry)
        })
    }

    fn data(&self, id: &str) -> Json {
        let path = file_of(&self.folder, id);
        json!({ "collection": self.collection, "id": id, "path": path.to_string_lossy() })
    }

    fn put(&self, base: &Path, gate: &Gate) -> io::Result<Option<Json>> {
        let base = Folder::create(base)?;
        let mut text = serde_json::to_vec_pretty(&self.entry)?;
        text.push(b'\n');
        let tag = folder::tag(&self.context);
        loop {
            let (id, there) = self.place(&base)?;
            let written = base.write(&file_of(&self.folder, &id), &text, Existing::Keep, &tag, gate)?;
            if there {
                return Ok(Some(self.data(&id)));
            }
            match written {
                Written::Now | Written::Already => return Ok(Some(self.data(&id))),
                Written::GivenUp => return Ok(None),
                // Somebody took the name since we looked: look again.
                Written::Occupied => {}
            }
        }
    }
}

#[async_trait]
impl Tool for ArchivePut {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        let plan = match Plan::of(arguments, context) {
            Ok(plan) => plan,
            Err(refusal) => return refusal,
        };
        let base = context.base.clone();
        compute::changing(context, move |gate| match plan.put(&base, gate) {
            Ok(Some(data)) => ToolResult::success(data),
            Ok(None) => compute::given_up(),
            Err(error) => folder::failure(&format!("write to the archive `{}`", plan.collection), &error),
        })
        .await
    }

    async fn status(&self, arguments: Json, context: &CallContext) -> EffectStatus {
        let plan = match Plan::of(arguments, context) {
            Ok(plan) => plan,
            Err(refusal) => return EffectStatus::Unknown(refusal.error.unwrap_or_default()),
        };
        let base = context.base.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let Some(base) = Folder::open(&base)? else { return Ok(EffectStatus::NotHappened) };
            let (id, there) = plan.place(&base)?;
            Ok::<_, io::Error>(if there { EffectStatus::Happened(plan.data(&id)) } else { EffectStatus::NotHappened })
        });
        folder::status(asked.await)
    }
}
