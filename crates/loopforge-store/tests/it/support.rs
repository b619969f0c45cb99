//! What several tests need.

use std::path::{Path, PathBuf};
use std::process::Command;

use loopforge_core::id::{RunId, Seq};
use loopforge_core::record::Record;
use loopforge_store::testing::samples;
use loopforge_store::{Appended, Durability, Lease, Store, StoreError};
use tempfile::TempDir;

/// A folder with a path for a database in it.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    (folder, path)
}

/// A new run of `steps` steps, each with a write.
pub(crate) async fn run_of(store: &dyn Store, steps: u64) -> Lease {
    let mut lease = store.create_run(samples::new_run(), &samples::worker("a")).await.unwrap();
    for step in 1..=steps {
        assert_eq!(add_step(store, &mut lease, step, Durability::Soft).await, Ok(Appended::Written));
    }
    lease
}

/// Appends one step, and moves the head of `lease` on when it was written.
pub(crate) async fn add_step(
    store: &dyn Store,
    lease: &mut Lease,
    step: u64,
    durability: Durability,
) -> Result<Appended, StoreError> {
    let (events, blobs) = samples::step(lease.run, step);
    let mut append = samples::append(lease, events);
    (append.blobs, append.steps, append.durability) = (blobs, step, durability);
    let head = append.records.last().unwrap().seq;
    let appended = store.append(lease, append).await?;
    if appended == Appended::Written {
        lease.head = head;
    }
    Ok(appended)
}

pub(crate) async fn archive(store: &dyn Store, run: RunId) -> Result<Vec<Record>, StoreError> {
    store.records(run, Seq(0), usize::MAX).await
}

/// Copies a database with its log, as it is at this moment.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    let log = beside(from, "-wal");
    if log.exists() {
        std::fs::copy(log, beside(to, "-wal")).unwrap();
    }
}

/// The path of the file that SQLite keeps beside a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A file system of its own, gone with this value.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts one of `size` at `folder`; none where this process may not.
    pub(crate) fn mount(folder: &Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mount = ["-t", "tmpfs", "-o", &options, "tmpfs"];
        run("mount", &mount, folder).then(|| Self(folder.to_owned()))
    }

    pub(crate) fn resize(&self, size: &str) {
        assert!(run("mount", &["-o", &format!("remount,size={size}")], &self.0));
    }

    pub(crate) fn make_read_only(&self) {
        assert!(run("mount", &["-o", "remount,ro"], &self.0));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.0);
    }
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> bool {
    let output = Command::new(program).args(arguments).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}
