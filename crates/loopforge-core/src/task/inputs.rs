//! What a run is given: from the contents of a file, or from a command line, to a value.
//!
//! Opening files is the caller's part. It asks for the size first, and compares it with [`MAX_INPUT_BYTES`].

use std::collections::BTreeMap;

use super::Input;
use super::problem::{Finding, Problem, ProblemCode, Source};
use super::text;
use crate::json::Json;

/// The largest input file in bytes. An input is in memory as a whole, and every run keeps a copy.
pub const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

/// How an input is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// The list of a text's lines, without blank ones and those that begin with `#`.
    Lines,
    /// A text.
    Text,
    /// A JSON value.
    Json,
    /// A JSON value if it can be read as one, or else a text; a file for an input whose own value is a list, its lines.
    Value,
}

impl Input {
    /// How it is read.
    #[must_use]
    pub fn kind(&self) -> InputKind {
        match self {
            Self { lines: Some(_), .. } => InputKind::Lines,
            Self { text: Some(_), .. } => InputKind::Text,
            Self { json: Some(_), .. } => InputKind::Json,
            _ => InputKind::Value,
        }
    }

    /// The file that is read when a run isn't given the input.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.lines.as_deref().or(self.text.as_deref()).or(self.json.as_deref())
    }
}

/// Contents that an input is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given<'b> {
    /// A file: what it is called in problems, and what it holds.
    Bytes {
        /// The name.
        origin: &'b str,
        /// The content.
        bytes: &'b [u8],
    },
    /// A text from the command line.
    Text(&'b str),
}

/// An argument `NAME=VALUE` of `--input`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument<'t> {
    /// The input.
    pub name: &'t str,
    /// Its value.
    pub value: ArgumentValue<'t>,
}

/// The value of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentValue<'t> {
    /// `@PATH`: the content of that file.
    File(&'t str),
    /// The text itself; `@@` stands for an `@` at its beginning.
    Text(&'t str),
}

/// Takes an argument of `--input` apart.
///
/// # Errors
/// It has no `=`, or the task has no such input.
pub fn parse_argument<'t>(text: &'t str, inputs: &BTreeMap<String, Input>) -> Result<Argument<'t>, Box<Problem>> {
    let source = &Source::new("--input", text);
    let Some((name, value)) = text.split_once('=') else {
        let finding = Finding::new(ProblemCode::Syntax, format!("`{text}` gives no value"))
            .remedy("write `NAME=VALUE`, or `NAME=@FILE` for the content of a file");
        return Err(Box::new(source.problem(0..text.len(), String::new(), finding)));
    };
    let name = name.trim();
    if !inputs.contains_key(name) {
        let finding = Finding::new(ProblemCode::UnknownName, format!("the task has no input `{name}`")).known(
            name,
            "inputs",
            inputs.keys(),
        );
        return Err(Box::new(source.problem(0..name.len(), String::new(), finding)));
    }
    let value = match value.strip_prefix('@') {
        Some(rest) if rest.starts_with('@') => ArgumentValue::Text(rest),
        Some(path) => ArgumentValue::File(path),
        None => ArgumentValue::Text(value),
    };
    Ok(Argument { name, value })
}

/// Makes the value of the input `name` from what it was given.
///
/// # Errors
/// The contents are no UTF-8, empty, too large, or not what the input's kind asks for.
pub fn resolve_input(name: &str, input: &Input, given: Given<'_>) -> Result<Json, Box<Problem>> {
    let argument = format!("--input {name}");
    let (origin, content) = match given {
        Given::Bytes { origin, bytes } => {
            if bytes.len() as u64 > MAX_INPUT_BYTES {
                return Err(Box::new(too_large(name, origin, bytes.len() as u64)));
            }
            (origin, text::utf8(bytes, origin)?)
        }
        Given::Text(text) => (argument.as_str(), text),
    };
    let source = &Source::new(origin, content);
    text::without_nul(source)?;
    let empty = source.text().trim().is_empty();
    match input.kind() {
        InputKind::Lines => lines(name, source),
        InputKind::Text | InputKind::Json if empty && matches!(given, Given::Bytes { .. }) => {
            let message = format!("the file of input `{name}` is empty");
            Err(nothing(name, source, message, "write something into it, or name another file"))
        }
        InputKind::Text => Ok(Json::String(source.text().to_owned())),
        InputKind::Json => serde_json::from_str(source.text()).map_err(|error| not_json(name, source, &error)),
        InputKind::Value => match serde_json::from_str(source.text()) {
            Ok(value) => Ok(value),
            // A file in the place of a list is one, of lines.
            Err(_) if matches!((given, &input.value), (Given::Bytes { .. }, Some(Json::Array(_)))) => {
                lines(name, source)
            }
            Err(_) => Ok(Json::String(source.text().to_owned())),
        },
    }
}

fn lines(name: &str, source: &Source<'_>) -> Result<Json, Box<Problem>> {
    let lines: Vec<Json> = source
        .text()
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| Json::String(line.to_owned()))
        .collect();
    if lines.is_empty() {
        let message = format!("input `{name}` is a list without anything in it");
        let remedy = "write one item on each line; blank lines and lines that begin with `#` don't count";
        return Err(nothing(name, source, message, remedy));
    }
    Ok(Json::Array(lines))
}

fn nothing(name: &str, source: &Source<'_>, message: String, remedy: &str) -> Box<Problem> {
    let finding = Finding::new(ProblemCode::Empty, message).remedy(remedy);
    Box::new(source.problem(0..0, format!("inputs.{name}"), finding))
}

fn not_json(name: &str, source: &Source<'_>, error: &serde_json::Error) -> Box<Problem> {
    let line_start: usize =
        source.text().split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = line_start + error.column().saturating_sub(1);
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    let finding = Finding::new(ProblemCode::Syntax, format!("input `{name}` is not JSON: {message}"))
        .remedy("for plain text write `text` instead of `json` in the task, for a list of lines `lines`");
    Box::new(source.problem(at..at + 1, format!("inputs.{name}"), finding))
}

/// The problem of an input file of `size` bytes, over [`MAX_INPUT_BYTES`].
#[must_use]
pub fn too_large(name: &str, origin: &str, size: u64) -> Problem {
    const MB: u64 = 1024 * 1024;
    let message = format!(
        "the file of input `{name}` is {} MB large, at most {} MB are read",
        size.div_ceil(MB),
        MAX_INPUT_BYTES / MB
    );
    let finding = Finding::new(ProblemCode::TooLarge, message)
        .remedy("give a list of paths or keys, and let a tool read the parts when they are needed");
    Source::new(origin, "").problem(0..0, format!("inputs.{name}"), finding)
}

/// The problem of an input file that can't be opened; `reason` is the system's word.
#[must_use]
pub fn no_file(name: &str, origin: &str, reason: &str) -> Problem {
    let message = format!("the file of input `{name}` can't be read: {reason}");
    let finding = Finding::new(ProblemCode::NoFile, message)
        .remedy(format!("paths start at the folder of the task file; or give another: `--input {name}=@FILE`"));
    Source::new(origin, "").problem(0..0, format!("inputs.{name}"), finding)
}

/// The problem of an input that has no file and no value of its own, and wasn't given.
#[must_use]
pub fn not_given(name: &str, input: &Input, origin: &str) -> Problem {
    let about = input.description.as_ref().map_or(String::new(), |text| format!(" ({text})"));
    let finding = Finding::new(ProblemCode::Missing, format!("input `{name}`{about} was not given"))
        .remedy(format!("add `--input {name}=VALUE` or `--input {name}=@FILE`"));
    Source::new(origin, "").problem(0..0, format!("inputs.{name}"), finding)
}
