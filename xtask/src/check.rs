//! `cargo xtask check`: one door for all that must pass before a change goes in.

use anyhow::{Result, bail};
use clap::Args;

use crate::test::Test;
use crate::{shell, tidy};

/// What `cargo xtask check` takes.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Leave the tests out
    #[arg(long)]
    no_tests: bool,
}

type Step = (&'static str, fn() -> Result<()>);

impl Check {
    /// Checks everything, the cheap things first, and says at the end what failed.
    pub(crate) fn run(&self) -> Result<()> {
        let mut steps: Vec<Step> = vec![
            ("tidy", tidy::run),
            ("format", format),
            ("lints", lints),
            ("docs", docs),
            ("dependencies", dependencies),
        ];
        if !self.no_tests {
            steps.push(("tests", || Test::all().run()));
        }
        let mut failed = Vec::new();
        for (name, step) in &steps {
            if let Err(error) = step() {
                eprintln!("xtask: {name}: {error:#}");
                failed.push(*name);
            }
        }
        let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
        if failed.is_empty() {
            eprintln!("xtask: check passed: {}", names.join(", "));
            return Ok(());
        }
        bail!("check failed: {} (of {})", failed.join(", "), names.join(", "))
    }
}

fn format() -> Result<()> {
    shell::run(shell::cargo()?.args(["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    shell::run(shell::cargo()?.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let mut command = shell::cargo()?;
    command.args(["doc", "--workspace", "--no-deps", "--document-private-items"]).env("RUSTDOCFLAGS", "-D warnings");
    shell::run(&mut command)
}

/// Licences, sources and unwanted crates. Advisories aren't asked for: they come over the network, and change without a commit.
fn dependencies() -> Result<()> {
    if shell::cargo_version("deny").is_none() {
        eprintln!(
            "xtask: NOT CHECKED: cargo-deny isn't installed (`cargo install --locked cargo-deny`); see deny.toml"
        );
        return Ok(());
    }
    shell::run(shell::cargo()?.args(["deny", "--workspace", "check", "licenses", "bans", "sources"]))
}
