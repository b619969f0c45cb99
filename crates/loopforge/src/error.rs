//! Why the engine can't go on. A tool's failure is not among these: it is a result.

use loopforge_core::id::{ContentHash, RunId};
use loopforge_core::record::{RunStatus, VersionChange};
use loopforge_core::run::{Difference, IllegalEvent};
use loopforge_core::task::{Problem, Problems};
use loopforge_store::StoreError;
use loopforge_tools::builtin::BuiltinError;
use loopforge_tools::process::ProcessError;

/// Why a run can't be started, resumed or driven on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store failed. What was archived before stays; nothing was done that isn't archived.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The task file has mistakes. Nothing was started.
    #[error("{0}")]
    Task(Problems),
    /// An input has a mistake. Nothing was started.
    #[error("{0}")]
    Input(Box<Problem>),
    /// A built-in tool can't be set up. Nothing was started.
    #[error("tool `{tool}`: {source}")]
    Builtin {
        /// Its name in the task.
        tool: String,
        /// Why.
        source: BuiltinError,
    },
    /// A command can't be set up. Nothing was started.
    #[error("tool `{tool}`: {source}")]
    Process {
        /// Its name in the task.
        tool: String,
        /// Why.
        source: ProcessError,
    },
    /// A file or folder can't be read or made.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The archive holds a record that can't follow the ones before it. Nothing was changed.
    #[error("the archive of {run} can't be read further: {source}")]
    Archive {
        /// The run.
        run: RunId,
        /// The record.
        source: IllegalEvent,
    },
    /// Another worker has taken the run up; this one stopped before doing anything more.
    #[error("another worker has taken up {0}; this one stopped")]
    Fenced(RunId),
    /// The lease could not be renewed and was about to run out; this worker stopped before that. What was archived stays.
    #[error("the lease on {0} could not be renewed in time; this worker stopped, and whoever claims the run goes on")]
    Lapsed(RunId),
    /// The owner before has lost the run, but commands that it started are still at work and can't be ended. Nothing was changed.
    #[error("commands that the owner of {0} before had started are still at work, and can't be ended")]
    CallsAtWork(RunId),
    /// The run's task, or the version of LoopForge that worked on it last, is another than now. Nothing was changed.
    #[error("{}", changed(*run, version.as_ref(), task.as_deref()))]
    Changed {
        /// The run.
        run: RunId,
        /// The two versions, where they differ by more than goes without saying.
        version: Option<VersionChange>,
        /// The two tasks, where they differ.
        task: Option<Box<ChangedTask>>,
    },
    /// The run has ended.
    #[error("{run} has ended: it is {status}")]
    Ended {
        /// The run.
        run: RunId,
        /// How.
        status: RunStatus,
    },
    /// There is no open question that this answers.
    #[error("{run} has no open question {about}; {open}")]
    NoQuestion {
        /// The run.
        run: RunId,
        /// What was answered.
        about: String,
        /// The questions that are open.
        open: String,
    },
    /// A value can't be set.
    #[error("{0}")]
    Invalid(String),
}

/// Another task than a run has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedTask {
    /// Where the other one comes from.
    pub origin: String,
    /// The run's task.
    pub from: ContentHash,
    /// The other one.
    pub to: ContentHash,
    /// What is different, and what of it can't be accepted.
    pub difference: Difference,
}

fn changed(run: RunId, version: Option<&VersionChange>, task: Option<&ChangedTask>) -> String {
    let mut parts = Vec::new();
    if let Some(VersionChange { from, to }) = version {
        parts.push(format!("{run} was last worked on by LoopForge {from}, and this is {to}"));
    }
    if let Some(ChangedTask { origin, from, to, difference }) = task {
        let Difference { changes, refusals } = difference;
        parts.push(format!("the task of {run} is {from}, and `{origin}` is {to} now: {}", changes.join("; ")));
        if !refusals.is_empty() {
            parts.push(format!("this run can't go on with it: {}", refusals.join("; ")));
        }
    }
    parts.join("; ")
}

impl From<Problems> for EngineError {
    fn from(problems: Problems) -> Self {
        Self::Task(problems)
    }
}

impl From<Box<Problem>> for EngineError {
    fn from(problem: Box<Problem>) -> Self {
        Self::Input(problem)
    }
}

impl From<Problem> for EngineError {
    fn from(problem: Problem) -> Self {
        Self::Input(Box::new(problem))
    }
}
