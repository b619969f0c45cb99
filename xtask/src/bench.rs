//! `cargo xtask bench`: starts the benchmarks in a release build.

use std::ffi::OsString;

use anyhow::Result;
use clap::Args;

use crate::shell;

/// What `cargo xtask bench` takes.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Bench {
    /// Passed on; `--help` lists what can be measured
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Bench {
    /// Measures. What falls short of its bar is marked and is no error: a busy machine is no mistake in the code.
    pub(crate) fn run(&self) -> Result<()> {
        let mut command = shell::cargo()?;
        command.args(["run", "--release", "--package", "loopforge-bench", "--"]).args(&self.arguments);
        shell::run(&mut command)
    }
}
