//! The `loopforge` command, as a library so that its parts can be tested.
//!
//! [`cli`] is what can be typed, [`commands`] has one file for each subcommand. Data goes to standard output, talk to
//! standard error; `--json` makes the data one JSON document, or JSON Lines for streams.

/// Writes a line to standard error. One that can't be written to (a closed pipe, a full disk) ends the talk, nothing else.
#[macro_export]
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($part)*);
    }};
}

/// Writes a line to standard output. One that can't be written to ends the talk, nothing else.
#[macro_export]
macro_rules! tell {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout().lock(), $($part)*);
    }};
}

pub mod cli;
pub mod commands;
pub mod context;
pub mod demo;
pub mod error;
pub mod output;
pub mod text;
pub mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::error::{CliError, Exit};

/// Runs the command that the arguments of the process name.
#[must_use]
pub fn main() -> ExitCode {
    // A sandboxed process starts as this program, restricts itself and becomes the process (see `loopforge-tools`).
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|first| first == loopforge_tools::process::HELPER_ARGUMENT) {
        return loopforge_tools::process::sandbox_main(arguments);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no error.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            let asked_for_json = std::env::args_os().take_while(|argument| argument != "--").any(|one| one == "--json");
            if asked_for_json {
                let text = error.render().to_string();
                let (message, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
                let message = message.strip_prefix("error: ").unwrap_or(message);
                let hints = rest.lines().map(str::trim).filter(|line| !line.is_empty());
                hints.fold(CliError::usage(message), CliError::hint).print_document();
            }
            return Exit::Usage.into();
        }
    };
    context::init_log(cli.global.verbose);
    let json = cli.global.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(source) => return report(&CliError::io("the runtime can't be started", source), json),
    };
    let outcome = runtime.block_on(commands::run(cli));
    // Reads that were dropped may still hold a thread; nothing waits for them.
    runtime.shutdown_background();
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => report(&error, json),
    }
}

fn report(error: &CliError, json: bool) -> ExitCode {
    error.print(json);
    error.exit.into()
}
