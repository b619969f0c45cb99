//! Several workers on one PostgreSQL, as processes that are killed, stopped, cut off and misled about the time.
#![expect(clippy::unwrap_used, reason = "tests")]

mod hard;
mod storm;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use loopforge::gateway::Registry;
use loopforge::{Engine, Options, Prepared};
use loopforge_core::id::{RunId, Seq};
use loopforge_core::record::{Record, RunStatus};
use loopforge_store::Store;
use loopforge_store::postgres::PostgresStore;
use loopforge_testing::postgres::place;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The program under test.
const LOOPFORGE: &str = env!("CARGO_BIN_EXE_loopforge");

/// How long a lease lasts here.
const LEASE: Duration = Duration::from_secs(2);

/// A folder with a task, and a store of its own.
struct Fleet {
    folder: TempDir,
    url: String,
    store: PostgresStore,
    runtime: Runtime,
}

/// A worker that is killed when nobody wants it any more.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Worker {
    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Waits until it has ended.
    fn ends(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Fleet {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::on(place(), files)
    }

    /// The first of `files` is the task.
    fn on(url: String, files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let runtime = Runtime::new().unwrap();
        let store = PostgresStore::new(&url).unwrap();
        Self { folder, url, store, runtime }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command as on a machine of its own: its folder `machine` is shared with nobody else.
    fn command(&self, machine: &str, arguments: &[&str]) -> Command {
        let folder = self.path().join(machine);
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(LOOPFORGE);
        command
            .args(arguments)
            .current_dir(folder)
            .env("LOOPFORGE_STORE", &self.url)
            .env("LOOPFORGE_LEASE_SECONDS", LEASE.as_secs().to_string())
            .env_remove("LOOPFORGE_KILL_AT")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// A worker that ends when nothing is left to do.
    fn worker(&self, machine: &str) -> Worker {
        Worker(self.command(machine, &["worker", "--until-idle"]).spawn().unwrap())
    }

    /// Puts `count` runs of the task `file` into the queue.
    fn queue(&self, file: &str, count: usize) -> Vec<RunId> {
        let prepared = Prepared::from_file(&self.path().join(file), &Registry::default()).unwrap();
        let engine = Engine::new(std::sync::Arc::new(self.store.clone()), Options::new(self.path().join("runs")));
        self.runtime.block_on(async {
            let mut runs = Vec::new();
            for _ in 0..count {
                runs.push(engine.queue(&prepared, Default::default()).await.unwrap());
            }
            runs
        })
    }

    /// Whether a run is left that would go on by itself.
    fn is_busy(&self) -> bool {
        self.runtime.block_on(self.store.next_due()).unwrap().is_some()
    }

    fn status(&self, run: RunId) -> RunStatus {
        self.runtime.block_on(self.store.run(run)).unwrap().status
    }

    fn records(&self, run: RunId) -> Vec<Record> {
        self.runtime.block_on(self.store.records(run, Seq(0), usize::MAX)).unwrap()
    }

    fn count(&self, run: RunId, kind: &str) -> usize {
        self.records(run).iter().filter(|record| record.event.kind() == kind).count()
    }

    /// All of `runs` have succeeded, and the store is sound.
    fn assert_succeeded(&self, runs: &[RunId]) {
        for run in runs {
            assert_eq!(self.status(*run), RunStatus::Succeeded, "{run}");
        }
        assert_eq!(self.runtime.block_on(self.store.check()).unwrap(), []);
    }

    /// How often each line stands in the tally.
    fn tally(&self) -> HashMap<String, usize> {
        let text = std::fs::read_to_string(self.path().join("out/tally.txt")).unwrap_or_default();
        let mut lines = HashMap::new();
        for line in text.lines() {
            *lines.entry(line.to_owned()).or_default() += 1;
        }
        lines
    }
}

/// Waits for something that must come, with much patience for slow machines.
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: it doesn't come to that");
        std::thread::sleep(Duration::from_millis(20));
    }
}
