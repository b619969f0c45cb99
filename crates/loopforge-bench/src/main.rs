//! Benchmarks: `cargo xtask bench`.
//!
//! Rates of a disk differ a hundredfold between machines, and on a busy one from minute to minute. So what is compared is measured in
//! turns in one run, and told as a ratio; flushes are counted from outside. Each workload runs in a process of its own
//! ([`work`]), which is this program again, and the measuring one ([`measure`]) looks at it as a user could.

mod baseline;
mod content;
mod measure;
mod proc;
mod report;
mod tools;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::measure::{Bench, Name};

/// Measures what LoopForge promises about speed and size, as ratios in one run
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
struct Cli {
    /// What to measure; all of it if nothing is named
    names: Vec<Name>,
    /// Shorter and fewer rounds: to see that it works, not how fast
    #[arg(long)]
    quick: bool,
    /// The figures as JSON
    #[arg(long)]
    json: bool,
    /// The folder, on the disk to be measured, in which stores are made and removed; beside this program if not given
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One workload; measurements start this in a process of its own
    #[command(hide = true)]
    Work(work::Work),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Some(Command::Work(work)) => work.run(),
        None => bench(cli.names, cli.quick, cli.json, cli.dir),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(names: Vec<Name>, quick: bool, json: bool, dir: Option<PathBuf>) -> Result<()> {
    let program = std::env::current_exe().context("this program has no path")?;
    let beside = program.parent().map(PathBuf::from).context("this program has no folder")?;
    let dir = dir.unwrap_or(beside);
    let scratch = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&dir)
        .with_context(|| format!("cannot make a folder in {}", dir.display()))?;
    let bench = Bench { program, scratch: scratch.path().to_owned(), quick };
    let names = if names.is_empty() { Name::all() } else { names };
    let mut rows = Vec::new();
    for name in names {
        eprintln!("bench: {name:?} ...");
        rows.extend(bench.measure(name)?);
    }
    if json {
        report::json(&rows, quick)
    } else {
        report::table(&rows, quick)
    }
    Ok(())
}
