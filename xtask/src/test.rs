//! `cargo xtask test`: all tests.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use loopforge_testing::postgres::{INSTALL, Programs, Shared, VARIABLE};

use crate::{judges, shell};

/// Process tools are sandboxed with Landlock, which came with this kernel; their tests need it.
const KERNEL: (u32, u32) = (5, 13);

/// What `cargo xtask test` takes.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Only tests whose names contain one of these; doc tests are left out then
    filter: Vec<OsString>,
}

impl Test {
    /// All of them.
    pub(crate) const fn all() -> Self {
        Self { filter: Vec::new() }
    }

    /// Runs the tests. Fails when one fails, and at once when something is missing that they need: none is skipped.
    pub(crate) fn run(&self) -> Result<()> {
        needs()?;
        // Held until the tests have ended: they all use the same server.
        let postgres = postgres()?;
        let judges = judges::installed()?;
        let nextest = shell::cargo_version("nextest");
        let mut tests = shell::cargo()?;
        match &nextest {
            Some(_) => tests.args(["nextest", "run", "--workspace", "--no-fail-fast"]).args(&self.filter),
            None => {
                eprintln!("xtask: cargo-nextest isn't installed, `cargo test` does as well");
                if self.filter.len() > 1 {
                    bail!("`cargo test` takes one filter; install cargo-nextest to give several");
                }
                tests.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]).args(&self.filter)
            }
        };
        tests.env(VARIABLE, postgres.url()).env("LOOPFORGE_JUDGES", judges);
        let ran = shell::run(&mut tests);
        if !self.filter.is_empty() {
            return ran;
        }
        // Also after a failure: who mends one thing wants to know of the other.
        let documented = shell::run(shell::cargo()?.args(["test", "--workspace", "--doc", "--no-fail-fast"]));
        ran.and(documented)
    }
}

/// Says what the tests need and what is there.
fn needs() -> Result<()> {
    let mut missing = Vec::new();
    let mut look = |what: &str, found: Option<String>, remedy: &str| match found {
        Some(found) => eprintln!("xtask: the tests need {what}: {found}"),
        None => missing.push(format!("{what} ({remedy})")),
    };
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    look("a C compiler", shell::version(&compiler, &["--version"]), "install gcc or clang, or set CC");
    look("Python 3", shell::version("python3", &["--version"]), "install python3: tests start scripts as tools");
    look(
        "Node.js",
        shell::version("node", &["--version"]),
        "install it: a server that judges the adapters of models runs on it",
    );
    look("npm", shell::version("npm", &["--version"]), "it comes with Node.js, and installs that server");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned());
    let (major, minor) = KERNEL;
    look(
        &format!("Linux {major}.{minor} or newer"),
        release.filter(|release| kernel(release).is_some_and(|version| version >= KERNEL)),
        "processes are sandboxed with Landlock",
    );
    if missing.is_empty() { Ok(()) } else { bail!("the tests can't run without {}", missing.join(", ")) }
}

/// The PostgreSQL that the tests share: the one that the variable names, or a throwaway one. Its programs are installed where
/// they are missing and the system's packages have them.
fn postgres() -> Result<Shared> {
    let named = std::env::var(VARIABLE).is_ok_and(|url| !url.is_empty());
    if !named && let Err(missing) = Programs::find() {
        eprintln!("xtask: {missing}");
        if let Err(error) = install() {
            bail!("PostgreSQL could not be installed: {error:#}; {INSTALL}");
        }
    }
    let shared = Shared::join().map_err(|problem| anyhow!("{problem}"))?;
    let what = if named { format!("what {VARIABLE} names") } else { "a throwaway server".to_owned() };
    eprintln!("xtask: the tests need PostgreSQL: {what}");
    Ok(shared)
}

fn install() -> Result<()> {
    // Nobody can be asked for a password in the middle of the tests.
    let as_root = |arguments: &[&str]| {
        let mut command = if shell::output(Command::new("id").arg("-u"))?.trim() == "0" {
            Command::new("env")
        } else {
            let mut command = Command::new("sudo");
            command.args(["-n", "env"]);
            command
        };
        shell::run(command.arg("DEBIAN_FRONTEND=noninteractive").args(arguments))
    };
    as_root(&["apt-get", "update", "-qq"])?;
    as_root(&["apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"])
}

fn kernel(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::kernel;

    #[test]
    fn reads_the_versions_of_kernels() {
        assert_eq!(kernel("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(kernel("5.15.133.1-microsoft-standard-WSL2"), Some((5, 15)));
        assert_eq!(kernel("something"), None);
    }
}
