//! The examples that people start with, killed and resumed.

use std::collections::BTreeMap;
use std::time::Duration;

use loopforge_cli::demo::shop::{Day, Outcome, Shop, ShopOptions};
use tokio::runtime::Runtime;

use super::bench::Bench;
use crate::examples;

pub(super) fn example(name: &str, file: &str) -> String {
    std::fs::read_to_string(examples::folder(name).join(file)).unwrap()
}

/// Sandboxed commands, as the README shows them.
#[test]
fn the_example_of_writes_survives_a_kill_after_each_of_its_calls() {
    let (task, tally) = (example("writes", "task.yaml"), example("writes", "tally.py"));
    let bench = || Bench::new(&[("task.yaml", &task), ("tally.py", &tally)], &["slow_ms=0"]);
    let undisturbed = bench();
    assert_eq!(undisturbed.run(None).status.code(), Some(0));
    let reference = undisturbed.summary();
    for call in 1..=6 {
        let place = format!("call:{call}:after");
        let bench = bench();
        let ended = bench.run(Some(&place));
        assert!(ended.was_killed(), "{place}: {}", ended.said);
        let recorded = bench.records();
        bench.finish();
        assert_eq!(bench.written(), undisturbed.written(), "{place}");
        assert_eq!(bench.summary(), reference, "{place}");
        bench.assert_kept(&recorded);
    }
}

struct Patrol {
    shop: Shop,
    bench: Bench,
    _runtime: Runtime,
}

impl Patrol {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let options = ShopOptions { slow: Duration::from_millis(20), retry_after: Duration::from_secs(1) };
        let shop = runtime.block_on(Shop::start(Day::First, options)).unwrap();
        // The waits of the example are for real shops.
        let task = example("page-patrol", "task.yaml").replace("backoff: [500ms, 2s]", "backoff: [5ms, 10ms]");
        assert!(task.contains("backoff: [5ms, 10ms]"));
        let pages = shop.product_urls().join("\n");
        let deliver_to = format!("deliver_to={}", shop.reports_url());
        let bench = Bench::new(&[("task.yaml", &task), ("urls.txt", &pages)], &["pages=@urls.txt", &deliver_to]);
        Self { shop, bench, _runtime: runtime }
    }

    /// How often each page was fetched in full.
    fn fetched(&self) -> BTreeMap<String, usize> {
        let mut fetched = BTreeMap::new();
        for entry in self.shop.log() {
            if entry.method == "GET" && entry.outcome == Outcome::Status(200) {
                *fetched.entry(entry.path).or_default() += 1;
            }
        }
        fetched
    }

    /// What was read of each page, without the address of this shop.
    fn pages(&self) -> String {
        self.bench.state("pages").replace(self.shop.base_url(), "")
    }
}

/// R16, R17, R39: a patrol of all pages, killed at places spread over it.
#[test]
fn the_example_of_a_patrol_reads_each_page_once_and_delivers_one_report() {
    /// Pages that are on their way when a patrol is killed, and may be fetched again: `parallel` of the example, and as many as there
    /// may be appends on their way to the disk.
    const ON_THEIR_WAY: usize = 4 + 8;
    let undisturbed = Patrol::new();
    assert_eq!(undisturbed.bench.run(None).status.code(), Some(0));
    let records = undisturbed.bench.records().len();
    let pages = undisturbed.pages();
    assert!(undisturbed.fetched().values().all(|times| *times == 1));
    for part in 1..=5 {
        let places = [format!("record:{}:before", records * part / 6), format!("record:{}:after", records * part / 6)];
        for place in places {
            let patrol = Patrol::new();
            let ended = patrol.bench.run(Some(&place));
            assert!(ended.was_killed(), "{place}: {}", ended.said);
            let recorded = patrol.bench.records();
            patrol.bench.finish();
            assert_eq!(patrol.pages(), pages, "{place}");
            patrol.bench.summary();
            patrol.bench.assert_kept(&recorded);
            let again: Vec<_> = patrol.fetched().into_iter().filter(|(_, times)| *times > 1).collect();
            assert!(again.len() <= ON_THEIR_WAY && again.iter().all(|(_, times)| *times == 2), "{place}: {again:?}");
            assert_eq!(patrol.shop.deliveries().len(), 1, "{place}");
        }
    }
    // The last places of all: around the delivery of the report, which is a write.
    for place in [format!("record:{}:before", records - 4), format!("record:{records}:before")] {
        let patrol = Patrol::new();
        assert!(patrol.bench.run(Some(&place)).was_killed(), "{place}");
        patrol.bench.finish();
        assert_eq!(patrol.shop.deliveries().len(), 1, "{place}");
    }
}
