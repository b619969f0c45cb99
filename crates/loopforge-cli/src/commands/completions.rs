//! `loopforge completions SHELL`

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::error::{CliError, Exit};
use crate::output::Output;

/// Print completions for a shell.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

impl Completions {
    /// Carries it out.
    ///
    /// # Errors
    /// Standard output can't be written to.
    pub fn run(self) -> Result<Exit, CliError> {
        // The generator panics where it can't write, so it doesn't write to a pipe that may be closed.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "loopforge", &mut script);
        let mut out = Output::new();
        out.write_all(&script)?;
        out.finish()?;
        Ok(Exit::Success)
    }
}
