//! One file for each subcommand.

pub mod check;
pub mod demo;
pub mod init;
pub mod resolve;
pub mod resume;
pub mod run;

mod progress;

pub(crate) use progress::plain;

use crate::cli::{Cli, Command};
use crate::context::Context;
use crate::error::{CliError, Exit};

/// Carries out what was typed.
///
/// # Errors
/// What went wrong, with its exit code.
pub async fn run(cli: Cli) -> Result<Exit, CliError> {
    let context = Context::new(&cli.global)?;
    match cli.command {
        Command::Demo(command) => command.run(&context).await,
        Command::Init(command) => command.run(&context),
        Command::Check(command) => command.run(&context),
        Command::Run(command) => command.run(&context).await,
        Command::Resume(command) => command.run(&context).await,
        Command::Resolve(command) => command.run(&context).await,
    }
}
