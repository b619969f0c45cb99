//! Servers that others wrote, against which the adapters of models are tested.
//!
//! Whoever writes a client and the server that tests it makes the same mistake twice. These two are servers of models with faults:
//! one plays given answers in the form of each provider, the other one breaks things at random and judges how its client behaved.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::shell;

/// `@copilotkit/aimock` of npm (MIT).
const AIMOCK: &str = "1.43.0";
/// `llmock` of PyPI (MIT).
const LLMOCK: &str = "0.2.2";

/// What `cargo xtask judges` takes.
#[derive(Debug, Args)]
pub(crate) struct Judges {}

impl Judges {
    /// Installs what isn't there and prints the folder.
    pub(crate) fn run(&self) -> Result<()> {
        println!("{}", installed()?.display());
        Ok(())
    }
}

/// The folder with both, installed now where they weren't.
pub(crate) fn installed() -> Result<PathBuf> {
    let folder = shell::target()?.join("judges");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    install(&folder, &format!("aimock-{AIMOCK}"), "Node.js and npm", |into| {
        Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
            .arg(into)
            .arg(format!("@copilotkit/aimock@{AIMOCK}"))
            .stdout(std::io::stderr())
            .status()
    })?;
    install(&folder, &format!("llmock-{LLMOCK}"), "Python 3 with pip", |into| {
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(into)
            .arg(format!("llmock=={LLMOCK}"))
            .stdout(std::io::stderr())
            .status()
    })?;
    Ok(folder)
}

/// Installs one into a folder of its own, which appears whole or not at all.
fn install(
    folder: &Path,
    name: &str,
    needs: &str,
    fetch: impl FnOnce(&Path) -> std::io::Result<std::process::ExitStatus>,
) -> Result<()> {
    let place = folder.join(name);
    if place.exists() {
        return Ok(());
    }
    let part = folder.join(format!("{name}.{}", std::process::id()));
    fs::create_dir_all(&part)?;
    eprintln!("xtask: installing {name}, against which the tests of models run");
    let status = fetch(&part).with_context(|| format!("{name} needs {needs}"))?;
    if !status.success() {
        fs::remove_dir_all(&part)?;
        bail!("{name} could not be installed ({status}); it needs {needs}, and their usual registry");
    }
    // Somebody else may have been faster.
    if fs::rename(&part, &place).is_err() {
        fs::remove_dir_all(&part)?;
    }
    if place.exists() { Ok(()) } else { bail!("{} could not be made", place.display()) }
}
