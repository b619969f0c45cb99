//! The one server that all tests of a machine share.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs::Programs;
use super::server::{answers, arguments, make, url, wait_for};

/// The variable that names a database to use instead.
pub const VARIABLE: &str = "LOOPFORGE_TEST_POSTGRES";

/// Ends the server when nobody has held a lock on `users` for some seconds. `start` is held meanwhile, so that nobody
/// joins a server that is about to end.
const WATCHER: &str = r#"
cd "$1" || exit 1
while sleep 5; do
    exec 8>start
    flock 8
    if flock -n -x users true; then
        kill -QUIT "$(head -n 1 data/postmaster.pid)"
        rm -rf data log .s.PGSQL.*
        exit
    fi
    exec 8>&-
done
"#;

/// A share in the server. It runs at least as long as this value, or this process.
#[derive(Debug)]
pub struct Shared {
    url: String,
    _user: Option<File>,
}

impl Shared {
    /// Joins the server, and starts it where it doesn't run.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub fn join() -> Result<Self, String> {
        if let Some(url) = std::env::var(VARIABLE).ok().filter(|url| !url.is_empty()) {
            return Ok(Self { url, _user: None });
        }
        let programs = Programs::find()?;
        let folder = PathBuf::from(format!("/tmp/loopforge-test-postgres-{}", rustix::process::geteuid().as_raw()));
        let joined = join(&programs, &folder);
        let user =
            joined.map_err(|error| format!("{}: PostgreSQL can't be started there: {error}", folder.display()))?;
        Ok(Self { url: url(&folder), _user: Some(user) })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn join(programs: &Programs, folder: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(folder)?;
    programs.give(folder)?;
    let start = open(&folder.join("start"))?;
    start.lock()?;
    let user = open(&folder.join("users"))?;
    user.lock_shared()?;
    if !answers(programs, folder) {
        begin(programs, folder)?;
    }
    start.unlock()?;
    Ok(user)
}

fn begin(programs: &Programs, folder: &Path) -> std::io::Result<()> {
    let data = folder.join("data");
    if data.exists() {
        // Left by a machine that went down.
        std::fs::remove_dir_all(&data)?;
    }
    make(programs, &data);
    let log = folder.join("log");
    let output = open(&log)?;
    let mut server = programs.command("postgres");
    arguments(&mut server, folder, std::iter::empty());
    // In a group of its own: a runner that ends a test that hangs must not end the server of the others.
    server.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0).spawn()?;
    wait_for(programs, folder, &log);
    let mut watcher = Command::new("/bin/sh");
    watcher.args(["-c", WATCHER, "watcher"]).arg(folder);
    watcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()?;
    Ok(())
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).truncate(false).write(true).open(path)
}
