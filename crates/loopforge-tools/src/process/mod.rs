//! Commands of the host as tools.
//!
//! The arguments of a call go to the command as one JSON document on standard input, and where its words name them
//! (`{name}`) as text; what it prints is the result. Each call is a fresh process in an empty environment and, unless
//! the task says `sandbox: off`, in a sandbox. Nothing that it starts outlives the call.
//!
//! - `template`, `program`: the command's words, and where its program is;
//! - `grants`: what it may reach;
//! - `run`: one run, from start to the last process's end;
//! - `output`: what was printed, as a result;
//! - `helper`, `wire`: the process between, which ends what the command leaves behind and builds the sandbox.
//!
//! Left out on purpose: shells (a task can name one), terminals, and processes that live on from call to call (that is
//! what MCP servers are for).

mod grants;
mod helper;
mod output;
mod program;
mod run;
mod template;
mod tool;
mod wire;

pub use helper::{HELPER_ARGUMENT, SandboxSupport, sandbox_main, sandbox_support};
pub use tool::{ProcessConfig, ProcessError, ProcessTool};

/// Bytes that a command may print, unless its [`ProcessConfig`] says otherwise.
pub const DEFAULT_OUTPUT_CAP: usize = 64 * 1024 * 1024;
