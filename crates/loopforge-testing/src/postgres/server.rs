//! A server of one's own.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::programs::Programs;

/// How long a server may take to answer. A loaded machine takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked meanwhile.
const ROUND: Duration = Duration::from_millis(20);

/// What all servers here have in common: they are thrown away, so nothing needs to reach the disk.
const SETTINGS: &[&str] =
    &["fsync=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=300", "listen_addresses="];

/// Stands by the server as long as its standard input is open, that is, as long as the test lives; then ends it.
const GUARD: &str = r#""$@" & pid=$!; read -r _; kill -QUIT "$pid" 2>/dev/null; wait "$pid""#;

/// A server of one's own, gone with this value, and also when this process is killed.
#[derive(Debug)]
pub struct Server {
    programs: Programs,
    folder: TempDir,
    settings: Vec<String>,
    guard: Option<Child>,
}

impl Server {
    /// Makes a database and starts its server, with settings (`name=value`) of its own.
    ///
    /// # Panics
    /// When there are no programs, or they fail.
    #[must_use]
    pub fn start(settings: &[&str]) -> Self {
        let programs = Programs::find().unwrap_or_else(|problem| panic!("{problem}"));
        let folder = new_folder(&programs);
        make(&programs, &folder.path().join("data"));
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut server = Self { programs, folder, settings, guard: None };
        server.start_again();
        server
    }

    /// Makes a copy that follows this server, under the replication name `name`.
    ///
    /// # Panics
    /// When it can't be made.
    #[must_use]
    pub fn standby(&self, name: &str) -> Self {
        let folder = new_folder(&self.programs);
        let mut copy = self.programs.command("pg_basebackup");
        // Kept in the copy's own settings, where they can be changed: those of the command line can't.
        let link = format!("host={} user={USER} application_name={name}", self.folder.path().display());
        copy.arg("-D").arg(folder.path().join("data")).args(["-d", &link]);
        copy.args(["-R", "-X", "stream", "-c", "fast", "--no-sync"]);
        output(&mut copy);
        let settings = self.settings.clone();
        let mut server = Self { programs: self.programs.clone(), folder, settings, guard: None };
        server.start_again();
        server
    }

    /// Starts a server that was ended.
    ///
    /// # Panics
    /// When it doesn't answer in time; its log is told.
    pub fn start_again(&mut self) {
        assert!(self.guard.is_none(), "the server runs");
        let log = self.folder.path().join("log");
        let output = File::options().create(true).append(true).open(&log).expect("the log can be written");
        // As the account of the server: only so may it signal what it started.
        let mut guard = self.programs.shell();
        guard.args(["-c", GUARD, "guard"]).arg(self.programs.folder().join("postgres"));
        arguments(&mut guard, self.folder.path(), self.settings.iter().map(String::as_str));
        guard.stdin(Stdio::piped()).stdout(output.try_clone().expect("a handle is copied")).stderr(output);
        self.guard = Some(guard.spawn().expect("the server can be started"));
        wait_for(&self.programs, self.folder.path(), &log);
    }

    /// The folder of its socket, as `host` of an address.
    #[must_use]
    pub fn host(&self) -> &Path {
        self.folder.path()
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.folder.path())
    }

    /// Lets anybody from a network in, without a password.
    ///
    /// # Panics
    /// When its settings can't be written.
    pub fn trust(&self, network: &str) {
        let path = self.folder.path().join("data/pg_hba.conf");
        let before = std::fs::read_to_string(&path).expect("the settings are there");
        std::fs::write(&path, format!("{before}\nhost all all {network} trust\n"))
            .expect("the settings can be written");
        self.sql("select pg_reload_conf()");
    }

    /// Ends it as a crash would: at once, without writing anything back.
    pub fn crash(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        let data = self.folder.path().join("data");
        // All of its processes in one go, so that none can finish what another has begun.
        if let Some(pid) = postmaster(&data) {
            let children = children(pid);
            let _ = kill_process(pid, Signal::KILL);
            for child in children {
                let _ = kill_process(child, Signal::KILL);
            }
        }
        drop(guard.stdin.take());
        let _ = guard.wait();
        let _ = std::fs::remove_file(data.join("postmaster.pid"));
    }

    /// `pg_ctl stop -m immediate`: its connections break, and it recovers when it starts again.
    pub fn stop_immediately(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        drop(guard.stdin.take());
        let _ = guard.wait();
    }

    /// Makes a standby the server that is written to.
    ///
    /// # Panics
    /// When it refuses.
    pub fn promote(&self) {
        let mut promote = self.programs.command("pg_ctl");
        promote.arg("promote").arg("-w").arg("-D").arg(self.folder.path().join("data"));
        output(&mut promote);
    }

    /// Runs an SQL statement with `psql`, and returns what it prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn sql(&self, statement: &str) -> String {
        let mut psql = self.programs.command("psql");
        psql.args(["-X", "-A", "-t", "-q", "-U", USER, "-d", "postgres", "-c", statement]).arg("-h").arg(self.host());
        output(&mut psql).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_immediately();
    }
}

/// The role that tests log in with.
pub(super) const USER: &str = "loopforge";

pub(super) fn url(host: &Path) -> String {
    format!("postgres:///postgres?host={}&user={USER}", host.display().to_string().replace('/', "%2F"))
}

/// A short path, since that of a socket must have less than 108 bytes.
fn new_folder(programs: &Programs) -> TempDir {
    let folder = tempfile::Builder::new().prefix("lf-pg-").tempdir_in("/tmp").expect("a folder can be made");
    programs.give(folder.path()).expect("the folder can be given away");
    folder
}

/// Makes an empty database at `data`.
pub(super) fn make(programs: &Programs, data: &Path) {
    let mut initdb = programs.command("initdb");
    initdb.arg("-D").arg(data).args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
    output(&mut initdb);
}

/// The arguments by which a server runs in `folder`.
pub(super) fn arguments<'a>(command: &mut Command, folder: &Path, settings: impl Iterator<Item = &'a str>) {
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    for setting in SETTINGS.iter().copied().chain(settings) {
        command.args(["-c", setting]);
    }
}

/// Waits until the server whose socket is in `folder` answers.
pub(super) fn wait_for(programs: &Programs, folder: &Path, log: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !answers(programs, folder) {
        if Instant::now() > deadline {
            let mut said = String::new();
            let _ = File::open(log).and_then(|mut log| log.read_to_string(&mut said));
            panic!("PostgreSQL doesn't answer within {} s. Its log:\n{said}", PATIENCE.as_secs());
        }
        std::thread::sleep(ROUND);
    }
}

pub(super) fn answers(programs: &Programs, folder: &Path) -> bool {
    let mut ready = programs.command("pg_isready");
    ready.args(["-q", "-t", "5", "-d", "postgres", "-U", USER, "-h"]).arg(folder);
    ready.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn postmaster(data: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
    Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
}

fn children(parent: Pid) -> Vec<Pid> {
    let path = PathBuf::from(format!("/proc/{0}/task/{0}/children", parent.as_raw_nonzero()));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
