//! Starting other programs, visibly.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The folder of the workspace.
///
/// Cargo tells it at run time. The path at compile time would be another one where two clones share a target folder.
pub(crate) fn root() -> Result<PathBuf> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").context("start me with `cargo xtask`")?;
    let root = PathBuf::from(own).parent().map(std::path::Path::to_path_buf);
    root.context("the xtask folder has no parent")
}

/// The cargo that started this program, in the workspace's folder.
pub(crate) fn cargo() -> Result<Command> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(root()?);
    Ok(command)
}

/// The folder of build results, whatever decides it.
pub(crate) fn target() -> Result<PathBuf> {
    let text = output(cargo()?.args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text).context("cargo metadata is no JSON")?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("cargo metadata names no target folder")
}

/// Starts a program whose output goes to the terminal; an error unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("xtask: {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Starts a program and returns what it prints; an error, with what it complained about, unless it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed something that is not UTF-8"))
}

/// The first line of what a program says about its version, or `None` where it can't be started.
pub(crate) fn version(program: &str, arguments: &[&str]) -> Option<String> {
    let text = output(Command::new(program).args(arguments)).ok()?;
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The same for a subcommand of cargo.
pub(crate) fn cargo_version(subcommand: &str) -> Option<String> {
    let text = output(cargo().ok()?.args([subcommand, "--version"])).ok()?;
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program()).to_owned();
    std::iter::once(name.as_os_str())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
