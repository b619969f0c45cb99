//! Where PostgreSQL's programs are, and as whom they run.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to do where there are none.
pub const INSTALL: &str = "install PostgreSQL's server (Debian, Ubuntu: `apt-get install postgresql`), or let \
                           LOOPFORGE_TEST_POSTGRES name a database that tests may use";

/// The programs of one version of PostgreSQL.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    /// The account that they run under where this process is root's: they refuse to be root's.
    account: Option<(u32, u32)>,
}

impl Programs {
    /// Finds the newest version on this machine: where Debian has it, else in the search path.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub fn find() -> Result<Self, String> {
        let folder = newest(Path::new("/usr/lib/postgresql"))
            .or_else(in_path)
            .ok_or_else(|| format!("the tests need PostgreSQL, and it isn't there: {INSTALL}"))?;
        let account = if rustix::process::geteuid().is_root() { Some(unprivileged()?) } else { None };
        Ok(Self { folder, account })
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of them, ready to be given arguments.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        self.with_account(&self.folder.join(name))
    }

    /// The system's shell, under the same account.
    pub(crate) fn shell(&self) -> Command {
        self.with_account(Path::new("/bin/sh"))
    }

    fn with_account(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // Its messages are read by tests; a time zone or locale of the machine must not change them.
        command.env("LC_ALL", "C").current_dir("/");
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        command
    }

    /// Lets the programs use a folder of ours.
    pub(crate) fn give(&self, folder: &Path) -> std::io::Result<()> {
        match self.account {
            Some((user, group)) => std::os::unix::fs::chown(folder, Some(user), Some(group)),
            None => Ok(()),
        }
    }
}

fn newest(versions: &Path) -> Option<PathBuf> {
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let folders = std::fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    let (_, newest) = folders
        .filter_map(|path| Some((version(&path)?, path.join("bin"))))
        .filter(|(_, folder)| complete(folder))
        .max()?;
    Some(newest)
}

fn in_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file())?;
    // Often a link to the folder where all of them are.
    let real = std::fs::canonicalize(found.join("initdb")).ok()?;
    [real.parent()?.to_owned(), found].into_iter().find(|folder| complete(folder))
}

fn complete(folder: &Path) -> bool {
    ["initdb", "postgres", "pg_isready", "pg_basebackup", "pg_ctl"].iter().all(|name| folder.join(name).is_file())
}

/// The account `postgres`, else `nobody`.
fn unprivileged() -> Result<(u32, u32), String> {
    let accounts = std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    let find = |name: &str| {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    find("postgres").or_else(|| find("nobody")).ok_or_else(|| {
        "PostgreSQL refuses to run as root, and there is no account `postgres` or `nobody` to run it under".to_owned()
    })
}
