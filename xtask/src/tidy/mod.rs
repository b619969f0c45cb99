//! `cargo xtask tidy`: rules about the repository itself that no compiler keeps.

mod code;
mod crates;
mod documents;
mod migrations;
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// A file of the repository.
pub(crate) struct File {
    /// From the repository's folder.
    path: String,
    text: String,
}

impl File {
    fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == extension)
    }
}

/// Looks at everything and lists what is wrong, with place and remedy.
pub(crate) fn run() -> Result<()> {
    let root = shell::root()?;
    let files = files(&root)?;
    let mut problems = Vec::new();
    problems.extend(sources::problems(&files));
    problems.extend(crates::problems(&files)?);
    problems.extend(documents::problems(&files));
    problems.extend(migrations::problems(&files));
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    match problems.len() {
        0 => {
            eprintln!("xtask: tidy: {} files are in order", files.len());
            Ok(())
        }
        1 => bail!("tidy: 1 problem"),
        many => bail!("tidy: {many} problems"),
    }
}

/// The text files of the repository, as git knows them, new ones included.
fn files(root: &Path) -> Result<Vec<File>> {
    let listing = shell::output(Command::new("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))
    .context("tidy looks at the files that git knows")?;
    let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        let full: PathBuf = root.join(path);
        // One that is deleted but not yet committed so is no file; one that is no text is nobody's business here.
        if !full.is_file() {
            continue;
        }
        let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    Ok(files)
}
