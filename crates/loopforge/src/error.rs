//! Why the engine can't go on. A tool's failure is not among these: it is a result.

use loopforge_core::id::RunId;
use loopforge_core::record::RunStatus;
use loopforge_core::run::IllegalEvent;
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
    /// The owner before has lost the run, but commands that it started are still at work and can't be ended. Nothing was changed.
    #[error("commands that the owner of {0} before had started are still at work, and can't be ended")]
    CallsAtWork(RunId),
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
