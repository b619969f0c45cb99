//! Built-in tools.
//!
//! Each tool is one file (or folder) with its arguments as a struct: the JSON Schema of the contract is made from it, so
//! that schema and reading can't drift apart. What a task grants a tool is in [`BuiltinConfig`]; nothing else is reachable:
//! network tools only reach listed hosts, file tools only the run's workspace, archives only the task's own.
#![expect(
    clippy::result_large_err,
    reason = "a failed call ends in a `ToolResult` as a good one does; it is moved once"
)]

mod archive;
mod arguments;
mod compute;
mod decimal;
mod diff;
mod extract;
mod file_list;
mod file_read;
mod file_write;
mod folder;
mod html_to_markdown;
mod http;
mod json_query;
mod page;
mod report;
mod text;
mod time_now;

use std::sync::Arc;

use crate::Tool;

/// What a task grants to a built-in tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuiltinConfig {
    /// Hosts that a network tool may reach: `shop.example`, `*.example.com`, `127.0.0.1:*`, `[::1]:8080`.
    pub allow: Vec<String>,
}

/// Why a built-in can't be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuiltinError {
    /// There is no built-in of this name.
    #[error("there is no built-in tool `{name}`{}", nearest.map(|other| format!(": did you mean `{other}`?")).unwrap_or_default())]
    UnknownBuiltin {
        /// What was asked for.
        name: String,
        /// The built-in with the most similar name, if one is similar.
        nearest: Option<&'static str>,
    },
    /// An entry of `allow` names no host.
    #[error("`{entry}` in `allow` is not a host: {reason}")]
    InvalidHost {
        /// The entry.
        entry: String,
        /// What is wrong with it, and how it is written.
        reason: String,
    },
    /// The tool can't be set up on this host.
    #[error("the built-in tool `{name}` can't be set up: {reason}")]
    Setup {
        /// The tool.
        name: &'static str,
        /// Why.
        reason: String,
    },
}

type Make = fn(&BuiltinConfig) -> Result<Arc<dyn Tool>, BuiltinError>;

/// Every built-in, sorted by name.
const BUILTINS: &[(&str, Make)] = &[
    ("archive_get", |_| Ok(Arc::new(archive::ArchiveGet::new()))),
    ("archive_put", |_| Ok(Arc::new(archive::ArchivePut::new()))),
    ("diff", |_| Ok(Arc::new(diff::Diff::new()))),
    ("extract", |_| Ok(Arc::new(extract::Extract::new()))),
    ("file_list", |_| Ok(Arc::new(file_list::FileList::new()))),
    ("file_read", |_| Ok(Arc::new(file_read::FileRead::new()))),
    ("file_write", |_| Ok(Arc::new(file_write::FileWrite::new()))),
    ("html_to_markdown", |_| Ok(Arc::new(html_to_markdown::HtmlToMarkdownTool::new()))),
    ("http_get", |config| Ok(Arc::new(http::HttpGet::new(config)?))),
    ("http_request", |config| Ok(Arc::new(http::HttpRequest::new(config)?))),
    ("json_query", |_| Ok(Arc::new(json_query::JsonQuery::new()))),
    ("report", |_| Ok(Arc::new(report::Report::new()))),
    ("time_now", |_| Ok(Arc::new(time_now::TimeNow::new()))),
];

/// The names of all built-ins, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|(name, _)| *name)
}

/// Returns the built-in `name`, with the grants of `config`.
///
/// # Errors
/// - [`BuiltinError::UnknownBuiltin`]: there is no such tool; the nearest name is in the error.
/// - [`BuiltinError::InvalidHost`]: `config.allow` has an entry that names no host.
/// - [`BuiltinError::Setup`]: the tool can't work on this host.
pub fn find(name: &str, config: &BuiltinConfig) -> Result<Arc<dyn Tool>, BuiltinError> {
    match BUILTINS.iter().find(|(other, _)| *other == name) {
        Some((_, make)) => make(config),
        None => Err(BuiltinError::UnknownBuiltin { name: name.to_owned(), nearest: nearest(name) }),
    }
}

fn nearest(name: &str) -> Option<&'static str> {
    const SIMILAR: f64 = 0.75;
    names()
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, other)| other)
}
