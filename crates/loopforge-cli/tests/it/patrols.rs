//! The page patrol as a whole: two patrols of the shop, the second one interrupted and resumed.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loopforge::gateway::Registry;
use loopforge::{Engine, Options, Prepared, Report, Resume, Start};
use loopforge_cli::demo::shop::{
    Behaviour, Change, Day, Field, Outcome, Shop, ShopOptions, expected_differences, products,
};
use loopforge_core::expression::StateValue;
use loopforge_core::json::Json;
use loopforge_core::payload::{BlobCache, NotLoaded};
use loopforge_core::record::{Event, RunOutcome};
use loopforge_store::memory::MemoryStore;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::examples;

/// A shop, and what patrols it.
struct Patrol {
    shop: Shop,
    engine: Engine,
    task: Arc<Prepared>,
    folder: tempfile::TempDir,
}

impl Patrol {
    async fn new() -> Self {
        let options = ShopOptions { slow: Duration::from_millis(50), ..ShopOptions::default() };
        let shop = Shop::start(Day::First, options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("task.yaml");
        std::fs::copy(examples::folder("page-patrol").join("task.yaml"), &file).unwrap();
        let task = Prepared::from_file(&file, &Registry::default()).unwrap();
        let engine = Engine::new(Arc::new(MemoryStore::new()), Options::new(folder.path().join("runs")));
        Self { shop, engine, task, folder }
    }

    fn start(&self) -> Start {
        let inputs = BTreeMap::from([
            ("pages".to_owned(), json!(self.shop.product_urls())),
            ("deliver_to".to_owned(), json!(self.shop.reports_url())),
        ]);
        Start { inputs, watcher: None }
    }

    /// The value of a key of state, with everything that was kept apart.
    async fn state(&self, report: &Report, key: &str) -> Json {
        let Some(StateValue::Single(payload)) = self.engine.store().state_value(report.run, key, None).await.unwrap()
        else {
            panic!("state has no single value `{key}`");
        };
        let mut blobs = BlobCache::default();
        loop {
            match payload.open(&blobs) {
                Ok(value) => return value,
                Err(NotLoaded::Blob(blob)) => blobs.insert(blob, &self.engine.store().blob(&blob).await.unwrap()),
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// How often each path was fetched in full on `day`.
    fn fetched(&self, day: Day) -> BTreeMap<String, usize> {
        let mut fetched = BTreeMap::new();
        for entry in self.shop.log() {
            if entry.day == day && entry.method == "GET" && entry.outcome == Outcome::Status(200) {
                *fetched.entry(entry.path).or_default() += 1;
            }
        }
        fetched
    }

    fn path_of<'a>(&self, url: &'a str) -> &'a str {
        url.strip_prefix(self.shop.base_url()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_patrols_find_every_difference_and_repeat_nothing() {
    let patrol = Patrol::new().await;
    let run = patrol.engine.start(Arc::clone(&patrol.task), patrol.start()).await.unwrap();
    let first = run.drive(CancellationToken::new()).await.unwrap();
    assert_eq!(first.outcome, Some(RunOutcome::Succeeded), "{first:?}");
    let differences = patrol.state(&first, "differences").await;
    assert_eq!(differences["added"].as_array().unwrap().len(), products(Day::First).len());

    patrol.shop.set_day(Day::Second);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let mut steps = 0;
    let watcher = Box::new(move |record: &loopforge_core::record::Record| {
        if matches!(record.event, Event::StepEvaluated(_)) {
            steps += 1;
            if steps == 20 {
                stopping.cancel();
            }
        }
    });
    let start = Start { watcher: Some(watcher), ..patrol.start() };
    let run = patrol.engine.start(Arc::clone(&patrol.task), start).await.unwrap();
    let id = run.id();
    let interrupted = run.drive(stop).await.unwrap();
    assert!(interrupted.interrupted, "{interrupted:?}");
    let before_the_break = patrol.fetched(Day::Second).len();
    assert!((10..40).contains(&before_the_break), "{before_the_break} pages before the break");
    let second =
        patrol.engine.resume(id, Resume::default()).await.unwrap().drive(CancellationToken::new()).await.unwrap();
    assert_eq!(second.outcome, Some(RunOutcome::Succeeded), "{second:?}");

    check_differences(&patrol, &patrol.state(&second, "differences").await);
    check_report(&patrol, &patrol.state(&second, "report").await, &second);
    // Only pages that were on their way at the break may have been asked for again, and four are worked on at once.
    let again: Vec<_> = patrol.fetched(Day::Second).into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(again.len() <= 4 && again.iter().all(|(_, times)| *times == 2), "{again:?}");
    assert_eq!(patrol.shop.deliveries().iter().map(|delivery| delivery.times).collect::<Vec<_>>(), [1, 1]);
}

/// The patrol finds what the shop changed, and the price that the restructured page hides; nothing else.
fn check_differences(patrol: &Patrol, found: &Json) {
    let text = |value: &Json, field: &str| match value {
        Json::Object(reading) if field == "stock" => reading["value"].to_string(),
        Json::Object(reading) => reading["text"].as_str().unwrap().to_owned(),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    let keys = |list: &str| -> BTreeSet<String> {
        found[list]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| patrol.path_of(item["key"].as_str().unwrap()).to_owned())
            .collect()
    };
    let hidden =
        &products(Day::Second).iter().find(|page| page.behaviour == Some(Behaviour::Restructured)).unwrap().path;
    let changed: BTreeMap<(String, String), (String, String)> = found["changed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            let field = change["field"].as_str().unwrap();
            let path = patrol.path_of(change["key"].as_str().unwrap());
            ((path.to_owned(), field.to_owned()), (text(&change["from"], field), text(&change["to"], field)))
        })
        .filter(|((path, _), _)| path != hidden)
        .collect();
    let mut expected = 0;
    for difference in expected_differences() {
        match &difference.change {
            Change::Added => assert!(keys("added").contains(&difference.path)),
            Change::Removed => assert!(keys("removed").contains(&difference.path)),
            Change::Changed { field, before, after } => {
                expected += 1;
                let name = match field {
                    Field::Name => "title",
                    Field::Description => "description",
                    Field::Price => "price",
                    Field::Stock => "stock",
                };
                let (from, to) = &changed[&(difference.path.clone(), name.to_owned())];
                assert!(from.contains(before) && to.contains(after), "{} {name}: {from} to {to}", difference.path);
            }
        }
    }
    assert_eq!((changed.len(), keys("added").len(), keys("removed").len()), (expected, 1, 1), "{changed:#?}");
}

fn check_report(patrol: &Patrol, report: &Json, run: &Report) {
    let workspace = patrol.folder.path().join("runs").join(run.run.to_string());
    let read = |kind: &str| {
        std::fs::read_to_string(workspace.join(Path::new(report[kind]["path"].as_str().unwrap()))).unwrap()
    };
    let markdown = read("markdown");
    for part in
        ["43 of 44 pages were read", "Compared with the patrol of", "￥1,099.00", "Brass Rain Gauge", "answered 404"]
    {
        assert!(markdown.contains(part), "no {part:?} in\n{markdown}");
    }
    assert!(read("html").contains("￥1,099.00"));
    let deliveries = patrol.shop.deliveries();
    assert!(
        deliveries.iter().any(|delivery| delivery.body == markdown.as_bytes()),
        "the report was delivered as it is"
    );
}
