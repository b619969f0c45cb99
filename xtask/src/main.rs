//! `cargo xtask`: what developers and CI start. One command per question: is it well kept, does it work, how fast is it.

mod bench;
mod check;
mod judges;
mod real_model;
mod shell;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Checks, tests and benchmarks of LoopForge
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// All that must pass before a change goes in: tidy, format, lints, docs, dependencies, tests
    Check(check::Check),
    /// All tests, doc tests included
    Test(test::Test),
    /// Measures what LoopForge promises about speed and size, as ratios in one run
    Bench(bench::Bench),
    /// Installs the servers against which the adapters of models are tested, and prints where; `test` does it by itself
    Judges(judges::Judges),
    /// Fetches a small language model and its server (1.2 GB), and checks the adapters of models against it
    RealModel(real_model::RealModel),
    /// The part of `check` that needs no compiler: structure, sources, documents, migrations
    Tidy,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check(check) => check.run(),
        Command::Test(test) => test.run(),
        Command::Bench(bench) => bench.run(),
        Command::Judges(judges) => judges.run(),
        Command::RealModel(real) => real.run(),
        Command::Tidy => tidy::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
