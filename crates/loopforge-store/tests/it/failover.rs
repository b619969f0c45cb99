//! PostgreSQL that goes away, and comes back as itself or as its copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use loopforge_core::id::Seq;
use loopforge_core::record::Record;
use loopforge_store::postgres::{Durable, PostgresStore};
use loopforge_store::testing::samples;
use loopforge_store::{Appended, Durability, Lease, Store, StoreError};
use loopforge_testing::postgres::Server;

/// Runs that are written to at once.
const WRITERS: usize = 8;

/// Writers that append one record after the other, as hard as it gets.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    writers: Vec<tokio::task::JoinHandle<Written>>,
}

/// What a writer was told.
struct Written {
    lease: Lease,
    acknowledged: Vec<Record>,
    already: usize,
}

impl Load {
    async fn start(store: &PostgresStore) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut writers = Vec::new();
        for _ in 0..WRITERS {
            let lease = store.create_run(samples::new_run(), &samples::worker("a")).await.unwrap();
            let (store, stop, count) = (store.clone(), Arc::clone(&stop), Arc::clone(&acknowledged));
            writers.push(tokio::spawn(async move {
                let mut written = Written { lease, acknowledged: Vec::new(), already: 0 };
                let mut step = 0;
                while !stop.load(Ordering::Acquire) {
                    step += 1;
                    written.append(&store, step).await;
                    count.fetch_add(1, Ordering::AcqRel);
                }
                written
            }));
        }
        Self { stop, acknowledged, writers }
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Waits until this many more were acknowledged.
    async fn more(&self, more: usize) {
        let wanted = self.acknowledged() + more;
        while self.acknowledged() < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends the load, and looks for everything that was acknowledged. Returns how many appends were found to be written already.
    async fn finish(self, store: &dyn Store) -> usize {
        self.stop.store(true, Ordering::Release);
        let mut already = 0;
        for writer in self.writers {
            let written = writer.await.unwrap();
            let records = store.records(written.lease.run, Seq(1), usize::MAX).await.unwrap();
            assert_eq!(records, written.acknowledged, "each acknowledged record once, in order, and no other");
            already += written.already;
        }
        assert_eq!(store.check().await.unwrap(), []);
        already
    }
}

impl Written {
    /// Appends until the store says what became of it, as the engine does.
    async fn append(&mut self, store: &PostgresStore, step: u64) {
        let mut append = samples::append(&self.lease, vec![samples::step_started(step)]);
        append.durability = Durability::Hard;
        loop {
            match store.append(&self.lease, append.clone()).await {
                Ok(Appended::Written) => break,
                Ok(Appended::AlreadyMine) => {
                    self.already += 1;
                    break;
                }
                Ok(Appended::Fenced) => panic!("nobody else wants this run"),
                Err(StoreError::Unavailable(_) | StoreError::ReadOnly(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.lease.head = append.records[0].seq;
        self.acknowledged.extend(append.records);
    }
}

/// STO-03: the server ends at once, in the middle of the load, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_loses_nothing_that_was_acknowledged() {
    let mut server = Server::start(&[]);
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let load = Load::start(&store).await;
    for crash in [false, true] {
        load.more(100).await;
        if crash {
            server.crash();
        } else {
            server.stop_immediately();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.start_again();
    }
    load.more(100).await;
    load.finish(&store).await;
}

/// The primary dies under load, and its copy, which every commit waited for, goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_with_a_synchronous_copy_loses_nothing() {
    let mut primary = Server::start(&[]);
    let standby = primary.standby("copy");
    primary.sql("alter system set synchronous_standby_names = 'copy'");
    primary.sql("select pg_reload_conf()");
    let store = PostgresStore::open(&both(&primary, &standby)).await.unwrap();
    wait_until(|| primary.sql("select count(*) from pg_stat_replication where sync_state = 'sync'") == "1").await;
    let server = store.server().await.unwrap();
    assert!(
        !server.waits_for_a_copy && server.durable == Some(Durable::Nothing),
        "tests don't wait for disks: {server:?}"
    );
    let load = Load::start(&store).await;
    load.more(200).await;
    primary.crash();
    standby.promote();
    load.more(100).await;
    load.finish(&store).await;
}

/// While the copy that commits must wait for is away, nothing is acknowledged; when it is back, all goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_while_the_synchronous_copy_is_away() {
    let primary = Server::start(&[]);
    let mut standby = primary.standby("copy");
    let store = PostgresStore::open(&primary.url()).await.unwrap();
    primary.sql("alter system set synchronous_standby_names = 'copy'");
    primary.sql("select pg_reload_conf()");
    wait_until(|| primary.sql("select count(*) from pg_stat_replication where sync_state = 'sync'") == "1").await;
    let load = Load::start(&store).await;
    load.more(100).await;
    standby.stop_immediately();
    wait_until(|| primary.sql("select count(*) from pg_stat_replication") == "0").await;
    // What was on its way may still be told; then it stands.
    let stuck = || primary.sql("select count(*) from pg_stat_activity where wait_event = 'SyncRep'") != "0";
    wait_until(stuck).await;
    assert!(store.server().await.unwrap().waits_for_a_copy);
    let told = load.acknowledged();
    wait_until(stuck).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(load.acknowledged() <= told + WRITERS, "acknowledged without the copy: {} {told}", load.acknowledged());
    standby.start_again();
    load.more(50).await;
    load.finish(&store).await;
}

/// The copy was behind: claims and records are gone with the primary, and the same epoch is given out again. Whoever had it before
/// is refused all the same, since lease ids aren't.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_a_failover_lost_are_refused() {
    let mut primary = Server::start(&[]);
    let standby = primary.standby("copy");
    let store = PostgresStore::open(&both(&primary, &standby)).await.unwrap();
    let first = store.create_run(samples::new_run(), &samples::worker("a")).await.unwrap();
    store.release_lease(&first).await.unwrap();
    let place = primary.sql("select pg_current_wal_insert_lsn()");
    wait_until(|| standby.sql(&format!("select pg_last_wal_replay_lsn() >= '{place}'")) == "t").await;
    standby.sql("alter system set primary_conninfo = ''");
    standby.sql("select pg_reload_conf()");
    wait_until(|| primary.sql("select count(*) from pg_stat_replication") == "0").await;

    let lost = store.claim_run(first.run, &samples::worker("b")).await.unwrap();
    let mut acknowledged = samples::append(&lost, vec![samples::step_started(1)]);
    acknowledged.durability = Durability::Hard;
    assert_eq!(store.append(&lost, acknowledged).await, Ok(Appended::Written));
    primary.crash();
    standby.promote();

    let again = claim(&store, first.run, "c").await;
    assert_eq!(again.epoch, lost.epoch, "issued twice");
    let late = samples::append(&lost, vec![samples::step_started(1)]);
    assert_eq!(store.append(&lost, late).await, Ok(Appended::Fenced), "the head is the same, the lease is not");
    let next = samples::append(&again, vec![samples::step_started(1)]);
    assert_eq!(store.append(&again, next).await, Ok(Appended::Written));
    assert_eq!(store.check().await.unwrap(), []);
}

/// A transaction that stays open for long keeps dead rows alive. Claims go on, find what is due, and find it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_go_on_beside_a_transaction_that_stays_open() {
    let server = Server::start(&[]);
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("begin isolation level repeatable read; select count(*) from loopforge.run").await.unwrap();
    let worker = samples::worker("w");
    for round in 0..300 {
        let new = samples::new_run();
        let id = new.id;
        store.queue_run(new).await.unwrap();
        let claimed = store.claim_due(&worker, 10, &[]).await.unwrap();
        assert_eq!(claimed.iter().map(|lease| lease.run).collect::<Vec<_>>(), [id], "round {round}");
        let mut append = samples::append(&claimed[0], vec![samples::step_started(1)]);
        append.status = loopforge_core::record::RunStatus::Succeeded;
        assert_eq!(store.append(&claimed[0], append).await, Ok(Appended::Written));
        store.release_lease(&claimed[0]).await.unwrap();
    }
    let open = store.server().await.unwrap();
    assert!(open.oldest_transaction < Duration::from_secs(600), "{open:?}");
    client.batch_execute("commit").await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

/// Connections that were cut while nobody used them cost a moment, and no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_were_cut_are_made_anew() {
    let server = Server::start(&[]);
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let mut lease = store.create_run(samples::new_run(), &samples::worker("a")).await.unwrap();
    for step in 1..=5 {
        server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'loopforge'");
        let append = samples::append(&lease, vec![samples::step_started(step)]);
        let head = append.records[0].seq;
        let appended = store.append(&lease, append).await;
        assert!(matches!(appended, Ok(Appended::Written | Appended::AlreadyMine)), "{appended:?}");
        lease.head = head;
        server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'loopforge'");
        assert_eq!(store.records(lease.run, Seq(0), usize::MAX).await.unwrap().len() as u64, step + 1);
    }
    let fresh = samples::new_run();
    server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'loopforge'");
    store.create_run(fresh, &samples::worker("a")).await.unwrap();
}

/// A claim is asked again while the copy becomes the primary.
async fn claim(store: &PostgresStore, run: loopforge_core::id::RunId, name: &str) -> Lease {
    loop {
        match store.claim_run(run, &samples::worker(name)).await {
            Ok(lease) => return lease,
            Err(StoreError::Unavailable(_) | StoreError::ReadOnly(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn both(primary: &Server, standby: &Server) -> String {
    let host = |server: &Server| server.host().display().to_string().replace('/', "%2F");
    format!("postgres:///postgres?host={},{}&user=loopforge", host(primary), host(standby))
}

async fn wait_until(holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "it doesn't come to that");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
