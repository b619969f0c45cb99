//! Several processes on one file: one owner per run, and an owner that was frozen comes back fenced off.
//!
//! The other process is this test program again, told by the environment what to do.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loopforge_core::id::{LeaseId, RunId, Seq};
use loopforge_core::model::{Amount, Money};
use loopforge_store::sqlite::SqliteStore;
use loopforge_store::testing::samples;
use loopforge_store::{Appended, DayLimit, Durability, Lease, Reservation, Reserved, Store, StoreError, Worker};

use crate::support::{add_step, archive, place, run_of};

const PATH: &str = "LOOPFORGE_TEST_STORE";
const RUN: &str = "LOOPFORGE_TEST_RUN";
const ACCOUNT: &str = "LOOPFORGE_TEST_ACCOUNT";

fn worker(name: &str, ttl: Duration) -> Worker {
    Worker { id: name.to_owned(), label: name.to_owned(), lease_ttl: ttl }
}

/// Another process that works on the store at `path`. It does a step for each line that it reads, and answers each with
/// a line.
struct Other(Child, BufReader<std::process::ChildStdout>);

impl Other {
    fn start(path: &Path, run: RunId) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::other_process", "--nocapture"])
            .env(PATH, path)
            .env(RUN, run.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self(child, output)
    }

    /// The next answer; what the test runner prints besides is passed over.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        while self.1.read_line(&mut line).unwrap() > 0 {
            if let Some(place) = line.find("answer: ") {
                return line[place + 8..].trim().to_owned();
            }
            line.clear();
        }
        panic!("the other process ended");
    }

    fn ask(&mut self) -> String {
        writeln!(self.0.stdin.as_ref().unwrap(), "step").unwrap();
        self.answer()
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The part of the other process. Does nothing unless it is started as one.
#[tokio::test]
async fn other_process() {
    let Ok(path) = std::env::var(PATH) else { return };
    let run: RunId = std::env::var(RUN).unwrap().parse().unwrap();
    let store = SqliteStore::open(Path::new(&path)).unwrap();
    let mut lease = match store.claim_run(run, &worker("other", Duration::from_millis(300))).await {
        Ok(lease) => lease,
        Err(StoreError::Held { owner, .. }) => return println!("answer: held by {owner}"),
        Err(error) => return println!("answer: {error}"),
    };
    println!("answer: claimed");
    let mut step = 100;
    for _ in std::io::stdin().lines() {
        step += 1;
        println!("answer: {:?}", add_step(&store, &mut lease, step, Durability::Hard).await);
    }
}

#[tokio::test]
async fn two_processes_have_one_owner_per_run() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 1).await;
    let mut other = Other::start(&path, lease.run);
    assert_eq!(other.answer(), "held by a");
    store.release_lease(&lease).await.unwrap();
    let mut other = Other::start(&path, lease.run);
    assert_eq!(other.answer(), "claimed");
    assert_eq!(other.ask(), "Ok(Written)");
    let mine = samples::append(&Lease { head: Seq(11), ..lease.clone() }, vec![samples::step_started(9)]);
    assert_eq!(store.append(&lease, mine).await, Ok(Appended::Fenced));
    // Both processes write at the same time, each to its own run.
    let mut own = run_of(&store, 0).await;
    for step in 201..230 {
        writeln!(other.0.stdin.as_ref().unwrap(), "step").unwrap();
        assert_eq!(add_step(&store, &mut own, step, Durability::Hard).await, Ok(Appended::Written));
        assert_eq!(other.answer(), "Ok(Written)");
    }
    assert_eq!(store.check().await, Ok(Vec::new()));
}

#[tokio::test]
async fn an_owner_that_was_frozen_is_fenced_off() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 1).await;
    store.release_lease(&lease).await.unwrap();
    let mut other = Other::start(&path, lease.run);
    assert_eq!(other.answer(), "claimed");
    assert_eq!(other.ask(), "Ok(Written)");
    other.signal("-STOP");
    let mut taken = loop {
        match store.claim_run(lease.run, &worker("b", Duration::from_secs(60))).await {
            Ok(lease) => break lease,
            // Its lease runs by the machine's clock.
            Err(StoreError::Held { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(add_step(&store, &mut taken, 2, Durability::Hard).await, Ok(Appended::Written));
    let before = archive(&store, lease.run).await.unwrap();
    other.signal("-CONT");
    assert_eq!(other.ask(), "Ok(Fenced)");
    assert_eq!(archive(&store, lease.run).await.unwrap(), before);
}

#[tokio::test]
async fn a_killed_owner_loses_no_acknowledged_record() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let lease = run_of(&store, 1).await;
    store.release_lease(&lease).await.unwrap();
    let mut other = Other::start(&path, lease.run);
    assert_eq!(other.answer(), "claimed");
    for _ in 0..5 {
        assert_eq!(other.ask(), "Ok(Written)");
    }
    writeln!(other.0.stdin.as_ref().unwrap(), "step").unwrap();
    other.signal("-KILL");
    drop(other);
    let records = archive(&store, lease.run).await.unwrap().len();
    assert!(records == 31 || records == 36, "{records}");
    assert_eq!(store.check().await, Ok(Vec::new()));
    assert_ne!(lease.id, LeaseId(uuid::Uuid::nil()));
}

fn tokens(tokens: u64) -> Amount {
    Amount { tokens, cost: Money::ZERO }
}

/// Makes calls for an account that has 1000 tokens, and returns what they used.
async fn spend(store: &SqliteStore, run: RunId, account: &str) -> u64 {
    let mut used = 0;
    for call in 1..=200 {
        let limit = DayLimit { tokens: Some(1000), cost: None };
        let wanted = Reservation { run, call, account: account.to_owned(), amount: tokens(10), limit };
        if let Reserved::Granted(today) = store.reserve(&wanted).await.unwrap() {
            assert!(today.spent.tokens + today.reserved.tokens <= 1000);
            store.settle(run, call, tokens(7)).await.unwrap();
            used += 7;
        }
    }
    used
}

/// The part of the other process. Does nothing unless it is started as one.
#[tokio::test]
async fn other_spender() {
    let (Ok(path), Ok(account)) = (std::env::var(PATH), std::env::var(ACCOUNT)) else { return };
    let run: RunId = std::env::var(RUN).unwrap().parse().unwrap();
    let store = SqliteStore::open(Path::new(&path)).unwrap();
    println!("answer: {}", spend(&store, run, &account).await);
}

#[tokio::test]
async fn two_processes_never_overspend_their_account_together() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let (mine, theirs) = (run_of(&store, 0).await.run, run_of(&store, 0).await.run);
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::other_spender", "--nocapture"])
        .env(PATH, &path)
        .env(RUN, theirs.to_string())
        .env(ACCOUNT, "team")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let here = spend(&store, mine, "team").await;
    let output = String::from_utf8(other.wait_with_output().unwrap().stdout).unwrap();
    let (_, answer) = output.split_once("answer: ").unwrap_or_else(|| panic!("{output}"));
    let there: u64 = answer.lines().next().unwrap().trim().parse().unwrap();
    let today = store.account("team").await.unwrap();
    assert_eq!((today.spent, today.reserved), (tokens(here + there), Amount::NOTHING));
    assert!((here + there) <= 1000 && (here + there) > 980, "{here} and {there}");
}
