//! Errors as people see them, and the exit codes.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use loopforge::EngineError;
use loopforge::transfer::TransferError;
use loopforge_core::id::RunId;
use loopforge_store::StoreError;

/// The exit codes. They are part of the interface and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what was asked; a run has succeeded.
    Success = 0,
    /// The run has failed or was cancelled.
    Failed = 1,
    /// The command line or a file has a mistake.
    Usage = 2,
    /// The run waits for a person.
    Waiting = 3,
    /// The run was stopped at a limit.
    Limit = 4,
    /// The store or the environment failed.
    Environment = 5,
    /// Interrupted; the run can be resumed.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with its exit code and what can be done about it.
#[derive(Debug)]
pub struct CliError {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong.
    pub message: String,
    /// What can be done, a line each.
    pub hints: Vec<String>,
    /// Mistakes in a task file, for `--json`.
    pub problems: Option<serde_json::Value>,
}

impl CliError {
    /// An error without a hint.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hints: Vec::new(), problems: None }
    }

    /// A mistake in what was typed.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something of the machine failed.
    #[must_use]
    pub fn io(what: &str, source: impl fmt::Display) -> Self {
        Self::new(Exit::Environment, format!("{what}: {source}"))
    }

    /// Adds what can be done.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Writes the error to standard error; with `json` as one JSON document to standard output, too.
    ///
    /// One whose exit code is [`Exit::Success`] says nothing: there is nobody left who reads.
    pub fn print(&self, json: bool) {
        if self.exit == Exit::Success {
            return;
        }
        if json {
            self.print_document();
        }
        // A task file's problems come with their own place and layout.
        if self.problems.is_some() {
            crate::say!("{}", self.message);
        } else {
            crate::say!("error: {}", crate::text::safe(&self.message));
        }
        for hint in &self.hints {
            crate::say!("  hint: {hint}");
        }
    }

    /// Writes the error as one JSON document to standard output.
    pub fn print_document(&self) {
        let document = serde_json::json!({
            "error": {
                "message": self.message, "hints": self.hints, "exit": self.exit as u8, "problems": self.problems,
            }
        });
        // Where nobody reads, standard error still says it.
        let _ = writeln!(std::io::stdout().lock(), "{document}");
    }
}

/// Of writing to standard output.
impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            // The reader has seen enough, as in `| head`.
            ErrorKind::BrokenPipe => Self::new(Exit::Success, ""),
            _ => Self::io("standard output can't be written to", error),
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Task(problems) => {
                let problems = serde_json::to_value(&problems).ok();
                Self { problems, ..Self::usage(message) }
            }
            EngineError::Input(problem) => {
                let problems = serde_json::to_value([&problem]).ok();
                Self { problems, ..Self::usage(message) }
            }
            EngineError::Builtin { .. } | EngineError::Process { .. } | EngineError::Invalid(_) => Self::usage(message),
            EngineError::NoQuestion { run, .. } => {
                Self::usage(message).hint(format!("`loopforge show {run}` shows what the run waits for"))
            }
            EngineError::Ended { run, .. } => {
                Self::usage(message).hint(format!("`loopforge show {run}` shows how it ended"))
            }
            EngineError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Self::usage(message),
            EngineError::Io { .. } => Self::new(Exit::Environment, message),
            EngineError::Archive { .. } => Self::new(Exit::Environment, message)
                .hint("`loopforge doctor` checks the whole store; nothing was changed"),
            EngineError::Changed { run, task, .. } => {
                let stored = format!("`loopforge resume {run} --stored-task` goes on with the task as the run has it");
                let accept = format!("`loopforge resume {run} --accept-changes` goes on so, and archives it");
                match task {
                    Some(task) if !task.difference.refusals.is_empty() => Self::usage(message).hint(stored),
                    Some(_) => Self::usage(message).hint(accept).hint(stored),
                    None => Self::usage(message).hint(accept),
                }
            }
            EngineError::CallsAtWork(_) => Self::new(Exit::Environment, message)
                .hint("end them (`ps` shows LOOPFORGE_RUN in their environment: `ps e`), or wait, then resume again"),
            EngineError::Lapsed(run) => Self::new(Exit::Environment, message)
                .hint(format!("`{}` goes on once the store can be reached", resume_hint(run))),
            EngineError::Fenced(run) => Self::new(Exit::Environment, message)
                .hint(format!("`loopforge watch {run}` follows what the other process does")),
        }
    }
}

impl From<TransferError> for CliError {
    fn from(error: TransferError) -> Self {
        let message = error.to_string();
        match error {
            TransferError::Io { source, .. } if source.kind() == ErrorKind::NotFound => Self::usage(message),
            TransferError::Io { .. } => Self::new(Exit::Environment, message),
            TransferError::Line { .. } => Self::usage(message).hint("export the run once more; nothing was imported"),
            TransferError::Newer(_) => {
                Self::usage(message).hint("use the newer LoopForge that wrote it; nothing was imported")
            }
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let environment = Self::new(Exit::Environment, message.clone());
        match error {
            StoreError::NoRun(_) => Self::usage(message).hint("`loopforge ls` lists the runs of this store"),
            StoreError::Held { run, .. } => environment.hint(format!(
                "`loopforge watch {run}` follows it; if that process is dead, the run is free once its lease has lapsed"
            )),
            StoreError::Full(_) => {
                environment.hint("make room, then `loopforge resume --last` goes on; nothing archived is lost")
            }
            StoreError::ReadOnly(_) => {
                environment.hint("make the store's folder writable, or choose another with `--store`")
            }
            StoreError::Unavailable(_) => {
                environment.hint("if another process holds the store for long, wait and try again")
            }
            StoreError::Corrupt(_) => environment.hint("`loopforge doctor` says what is damaged; nothing was changed"),
            StoreError::Newer { .. } => environment.hint("use the newer LoopForge that wrote it"),
            StoreError::NotAStore(_) => environment.hint("choose another with `--store`"),
            StoreError::Exists(run) => Self::usage(message)
                .hint(format!("nothing was changed; `loopforge show {run}` shows the one that is there")),
            StoreError::LeaseLost(_) | StoreError::Duplicate { .. } | StoreError::Invalid(_) => environment,
        }
    }
}

/// The last line that a person needs: how to go on.
#[must_use]
pub fn resume_hint(run: RunId) -> String {
    format!("loopforge resume {run}")
}
