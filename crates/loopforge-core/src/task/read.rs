//! From the text of a task file to a checked task.

use std::collections::BTreeMap;

use super::problem::{Finding, Problem, ProblemCode, Problems, Report, Source};
use super::{Task, check, decode, text, tree};
use crate::json::Json;
use crate::tool::Effect;

/// The largest task file in bytes. What is larger is data, and belongs into an input file.
pub const MAX_TASK_BYTES: usize = 4 * 1024 * 1024;

/// The tools that come with LoopForge, as far as a task can be checked against them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    /// By name.
    pub builtins: BTreeMap<String, Builtin>,
}

/// A built-in tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Builtin {
    /// JSON Schema of its arguments.
    pub input_schema: Json,
    /// What it does to the world.
    pub effect: Effect,
    /// It reaches hosts, and only those that the task allows it.
    pub network: bool,
}

/// Reads and checks a task file. `origin` is what the file is called in problems.
///
/// # Errors
/// All problems that were found, at least one.
pub fn read(source: &str, origin: &str, catalog: &Catalog) -> Result<Task, Problems> {
    let source = &Source::new(origin, source);
    check_text(source)?;
    let mut report = Report::new(source);
    let root = match tree::parse(&mut report) {
        Ok(root) => root,
        Err(problem) => {
            report.push((*problem).clone());
            return Err(report.finish().unwrap_or_else(|| problem.into()));
        }
    };
    let (task, places) = decode::task(&mut report, &root);
    if let Some(task) = &task {
        check::check(task, catalog, &places, &mut report);
    }
    match (task, report.finish()) {
        (Some(task), None) => Ok(task),
        (_, Some(problems)) => Err(problems),
        // A part is left out only where a problem is reported.
        (None, None) => {
            let finding = Finding::new(ProblemCode::Syntax, "this can't be read as a task");
            Err(source.problem(0..0, String::new(), finding).into())
        }
    }
}

/// Reads and checks the bytes of a task file.
///
/// # Errors
/// As [`read`]; also when the bytes are too many or no UTF-8.
pub fn read_bytes(bytes: &[u8], origin: &str, catalog: &Catalog) -> Result<Task, Problems> {
    if bytes.len() > MAX_TASK_BYTES {
        return Err(too_large(origin, bytes.len()).into());
    }
    read(text::utf8(bytes, origin)?, origin, catalog)
}

/// Reads a task that a run was started with. It was checked then; it is checked again, and by the same rules.
///
/// # Errors
/// As [`read_bytes`].
pub fn read_stored(bytes: &[u8], catalog: &Catalog) -> Result<Task, Problems> {
    read_bytes(bytes, "stored task", catalog)
}

/// The problem of a task file of `size` bytes, over [`MAX_TASK_BYTES`]; for callers that know the size before they read.
#[must_use]
pub fn too_large(origin: &str, size: usize) -> Problem {
    let limit = MAX_TASK_BYTES / (1024 * 1024);
    let message = format!("the task file is {} MB large, at most {limit} MB are read", size.div_ceil(1024 * 1024));
    let finding = Finding::new(ProblemCode::TooLarge, message)
        .remedy("put data into a file of its own and name it under `inputs`");
    Source::new(origin, "").problem(0..0, String::new(), finding)
}

fn check_text(source: &Source<'_>) -> Result<(), Box<Problem>> {
    if source.text().len() > MAX_TASK_BYTES {
        return Err(Box::new(too_large(source.origin(), source.text().len())));
    }
    text::without_nul(source)
}
