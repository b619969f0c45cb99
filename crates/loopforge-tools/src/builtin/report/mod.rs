//! `report`: a document for people, as Markdown and as one HTML file.
//!
//! The HTML is made from the Markdown, so both say the same. It needs nothing from elsewhere: no script, no style sheet, no
//! picture; markup in the data shows as text.

mod html;
mod markdown;

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use loopforge_core::id::ContentHash;
use loopforge_core::json::Json;
use loopforge_core::tool::{Contract, TimeoutKind, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::markdown::Section;
use super::arguments::{self, invalid};
use super::compute::{self, Gate};
use super::folder::{self, Existing, Folder, Holds, Written};
use crate::{CallContext, EffectStatus, Tool};

/// More rollbacks of one step than this are a mistake somewhere.
const MOST_ROUNDS: u32 = 999;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The title.
    title: String,
    /// The parts, in order. Not together with `template`.
    #[serde(default)]
    sections: Vec<Section>,
    /// The body as a Jinja template that gives Markdown. What it inserts is escaped, unless it says `| safe`.
    #[serde(default)]
    template: Option<String>,
    /// What the template can name.
    #[serde(default)]
    data: Json,
    /// The files' name without its ending, `report` unless set. Run and step are added where it has no `{run}` or `{step}`.
    #[serde(default)]
    name: Option<String>,
}

/// Writes a report.
#[derive(Debug)]
pub(super) struct Report {
    contract: Contract,
}

impl Report {
    pub(super) fn new() -> Self {
        let description = "Writes a report into the run's workspace, as Markdown and as HTML, from sections (text, table, list) or a template.";
        let mut contract = Contract::write(description, arguments::schema::<Arguments>());
        contract.idempotent = true;
        contract.timeout = TimeoutKind::File;
        contract.key_fields = vec!["/markdown/path".to_owned(), "/html/path".to_owned()];
        Self { contract }
    }
}

/// A call, ready to be made or asked about.
struct Plan {
    title: String,
    stem: String,
    markdown: String,
    html: String,
}

/// The two files of one report.
struct Files {
    markdown: PathBuf,
    html: PathBuf,
}

impl Plan {
    fn of(arguments: Json, context: &CallContext) -> Result<Self, ToolResult> {
        let arguments: Arguments = arguments::read(arguments)?;
        let body = match &arguments.template {
            Some(_) if !arguments.sections.is_empty() => {
                return Err(invalid("`sections` and `template` are both given: a report is made from one of them"));
            }
            Some(template) => markdown::from_template(template, &arguments.data)?,
            None => markdown::from_sections(&arguments.sections),
        };
        let markdown = format!("# {}\n\n{}\n", markdown::line(&arguments.title), body.trim_end());
        let name = arguments.name.unwrap_or_else(|| "report".to_owned());
        let name =
            if name.contains("{run}") || name.contains("{step}") { name } else { format!("{name}-{{run}}-{{step}}") };
        let stem = folder::fill_in(&name, context);
        folder::read_path("name", &stem)?;
        Ok(Self { html: html::page(&arguments.title, &markdown), title: arguments.title, stem, markdown })
    }

    fn files(&self, round: u32) -> Files {
        let stem = if round == 1 { self.stem.clone() } else { format!("{}-r{round:03}", self.stem) };
        Files { markdown: format!("{stem}.md").into(), html: format!("{stem}.html").into() }
    }

    /// The first names that hold nothing else. A step that a rollback made again gets names of its own.
    fn place(&self, folder: &Folder) -> io::Result<(Files, [Holds; 2])> {
        for round in 1..=MOST_ROUNDS {
            let files = self.files(round);
            let holds = [
                folder.holds(&files.markdown, self.markdown.as_bytes())?,
                folder.holds(&files.html, self.html.as_bytes())?,
            ];
            if !holds.contains(&Holds::Other) {
                return Ok((files, holds));
            }
        }
        Err(io::Error::other("this step has too many reports"))
    }

    fn data(&self, files: &Files) -> Json {
        let file = |path: &PathBuf, content: &str| json!({ "path": path.to_string_lossy(), "bytes": content.len(), "blake3": ContentHash::of(content.as_bytes()) });
        json!({
            "title": self.title,
            "markdown": file(&files.markdown, &self.markdown),
            "html": file(&files.html, &self.html),
        })
    }

    fn write(&self, folder: &Folder, tag: &str, gate: &Gate) -> io::Result<Option<Json>> {
        loop {
            let (files, _) = self.place(folder)?;
            let mut occupied = false;
            for (path, content) in [(&files.markdown, &self.markdown), (&files.html, &self.html)] {
                match folder.write(path, content.as_bytes(), Existing::Keep, tag, gate)? {
                    Written::Now | Written::Already => {}
                    Written::GivenUp => return Ok(None),
                    Written::Occupied => occupied = true,
                }
            }
            if !occupied {
                return Ok(Some(self.data(&files)));
            }
        }
    }
}

#[async_trait]
impl Tool for Report {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        let inner = context.clone();
        compute::changing(context, move |gate| {
            let plan = match Plan::of(arguments, &inner) {
                Ok(plan) => plan,
                Err(refusal) => return refusal,
            };
            match Folder::create(&inner.workspace).and_then(|folder| plan.write(&folder, &folder::tag(&inner), gate)) {
                Ok(Some(data)) => ToolResult::success(data),
                Ok(None) => compute::given_up(),
                Err(error) => folder::failure(&format!("write `{}`", plan.stem), &error),
            }
        })
        .await
    }

    async fn status(&self, arguments: Json, context: &CallContext) -> EffectStatus {
        let inner = context.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let plan = match Plan::of(arguments, &inner) {
                Ok(plan) => plan,
                Err(refusal) => return Ok(EffectStatus::Unknown(refusal.error.unwrap_or_default())),
            };
            let Some(folder) = Folder::open(&inner.workspace)? else { return Ok(EffectStatus::NotHappened) };
            let (files, holds) = plan.place(&folder)?;
            // Of a half-written report the other half is missing; calling again completes it.
            Ok::<_, io::Error>(match holds {
                [Holds::Same, Holds::Same] => EffectStatus::Happened(plan.data(&files)),
                _ => EffectStatus::NotHappened,
            })
        });
        folder::status(asked.await)
    }
}

#[cfg(test)]
mod tests;
