//! One file for each subcommand.

pub mod budget;
pub mod check;
pub mod completions;
pub mod demo;
pub mod doctor;
pub mod effects;
pub mod estimate;
pub mod export;
pub mod gc;
pub mod graph;
pub mod import;
pub mod init;
pub mod ls;
pub mod resolve;
pub mod resume;
pub mod run;
pub mod schema;
pub mod show;
pub mod state;
pub mod tell;
pub mod trace;
pub mod watch;
pub mod worker;

mod progress;
mod summary;

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
        Command::Estimate(command) => command.run(&context).await,
        Command::Run(command) => command.run(&context).await,
        Command::Resume(command) => command.run(&context).await,
        Command::Worker(command) => command.run(&context).await,
        Command::Resolve(command) => command.run(&context).await,
        Command::Note(command) => command.run(&context).await,
        Command::Pause(command) => command.run(&context).await,
        Command::Unpause(command) => command.run(&context).await,
        Command::Cancel(command) => command.run(&context).await,
        Command::Budget(command) => command.run(&context).await,
        Command::Ls(command) => command.run(&context).await,
        Command::Show(command) => command.run(&context).await,
        Command::Watch(command) => command.run(&context).await,
        Command::Graph(command) => command.run(&context).await,
        Command::Trace(command) => command.run(&context).await,
        Command::State(command) => command.run(&context).await,
        Command::Effects(command) => command.run(&context).await,
        Command::Export(command) => command.run(&context).await,
        Command::Import(command) => command.run(&context).await,
        Command::Gc(command) => command.run(&context).await,
        Command::Doctor(command) => command.run(&context).await,
        Command::Schema(command) => command.run(&context),
        Command::Completions(command) => command.run(),
    }
}
