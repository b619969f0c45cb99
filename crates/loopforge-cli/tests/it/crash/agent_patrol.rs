//! The page patrol with a model, over real HTTP, killed and resumed.

use std::time::Duration;

use loopforge_cli::demo::shop::{Day, Outcome, Shop, ShopOptions};
use loopforge_core::record::Event;
use tokio::runtime::Runtime;

use super::bench::Bench;
use super::tasks::example;

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
        let task = example("page-patrol", "agent.yaml").replace("backoff: [500ms, 2s]", "backoff: [5ms, 10ms]");
        let pages = shop.product_urls().join("\n");
        let deliver_to = format!("deliver_to={}", shop.reports_url());
        let files = [
            ("task.yaml", task.as_str()),
            ("agent-script.yaml", &example("page-patrol", "agent-script.yaml")),
            ("urls.txt", &pages),
        ];
        let bench = Bench::new(&files, &["pages=@urls.txt", &deliver_to]);
        Self { shop, bench, _runtime: runtime }
    }

    fn pages(&self) -> usize {
        let read = self.bench.state("pages");
        self.shop.product_urls().iter().filter(|url| read.contains(&format!("{url:?}"))).count()
    }

    fn fetched(&self) -> usize {
        self.shop.log().iter().filter(|entry| entry.method == "GET" && entry.outcome == Outcome::Status(200)).count()
    }
}

/// R13, R70: within its 60 steps, with a prompt that stays small however many pages were read.
#[test]
fn a_model_reads_all_pages_and_the_workflow_reports_also_after_kills() {
    let undisturbed = Patrol::new();
    let ended = undisturbed.bench.run(None);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    let pages = undisturbed.pages();
    assert!(pages >= 40, "{pages}");
    let records = undisturbed.bench.records();
    let steps = records.iter().filter(|record| matches!(record.event, Event::StepEvaluated(_))).count();
    assert!((30..=60).contains(&steps), "{steps}");
    let prompts: Vec<u64> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::ModelCalled(called) => Some(called.prompt.tokens),
            _ => None,
        })
        .collect();
    assert!(prompts.iter().all(|tokens| *tokens <= 32_000), "{prompts:?}");
    let fetched = undisturbed.fetched();
    for part in 1..=3 {
        let patrol = Patrol::new();
        let place = format!("record:{}:after", records.len() * part / 4);
        assert!(patrol.bench.run(Some(&place)).was_killed(), "{place}");
        let recorded = patrol.bench.records();
        patrol.bench.finish();
        patrol.bench.assert_kept(&recorded);
        assert_eq!(patrol.pages(), pages, "{place}");
        assert_eq!(patrol.shop.deliveries().len(), 1, "{place}");
        // The four pages of one reply, and no other, may have been on their way.
        assert!(patrol.fetched() <= fetched + 4, "{place}: {} of {fetched}", patrol.fetched());
    }
}
