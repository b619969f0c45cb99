//! The `loopforge` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    loopforge_cli::main()
}
