//! The page patrol's rules against the shop's pages, through the tools that the task really calls.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use loopforge_cli::demo::shop::{Behaviour, Day, Layout, Product, Shop, ShopOptions, products};
use loopforge_core::id::{ActionNo, StepNo};
use loopforge_core::json::Json;
use loopforge_core::record::ActionId;
use loopforge_core::task::Task;
use loopforge_core::tool::{Code, ToolResult};
use loopforge_tools::CallContext;
use loopforge_tools::builtin::{self, BuiltinConfig};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::examples;

/// Calls a tool of the task with what the task always gives it, and `arguments`.
async fn call(task: &Task, tool: &str, arguments: Json) -> ToolResult {
    let spec = &task.tools[tool];
    let config = BuiltinConfig { allow: spec.allow.clone() };
    let mut all = arguments;
    for (name, value) in &spec.with {
        assert!(value.expressions().is_empty(), "`{name}` of `{tool}` is a constant");
        all[name] = value.source().clone();
    }
    let context = CallContext {
        run: "run_01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap(),
        action: ActionId { step: StepNo::default(), action: ActionNo::default() },
        attempt: 1,
        step_token: None,
        timeout: Duration::from_secs(10),
        cancel: CancellationToken::new(),
        workspace: Arc::new(std::env::temp_dir()),
        base: Arc::new(examples::folder("page-patrol")),
    };
    builtin::find(spec.builtin.as_deref().unwrap(), &config).unwrap().call(all, &context).await
}

/// Fetches a product's page as often as it takes.
async fn fetch(task: &Task, shop: &Shop, product: &Product) -> Json {
    let url = format!("{}{}", shop.base_url(), product.path);
    for _ in 0..3 {
        let result = call(task, "fetch", json!({ "url": url })).await;
        if result.is_ok() {
            return result.data;
        }
        assert!(result.code.is_transient(), "{url}: {:?}", result.error);
    }
    panic!("{url} fails again and again");
}

async fn open(day: Day) -> Shop {
    Shop::start(day, ShopOptions { slow: Duration::from_millis(20), ..ShopOptions::default() }).await.unwrap()
}

#[tokio::test]
async fn the_first_rules_read_every_page_of_the_known_layouts() {
    let task = examples::task("page-patrol");
    let shop = open(Day::First).await;
    for day in [Day::First, Day::Second] {
        shop.set_day(day);
        for product in products(day).iter().filter(|product| product.is_sold_on(day)) {
            if product.layout == Layout::Relaunched {
                continue;
            }
            let page = fetch(&task, &shop, product).await;
            let read = call(&task, "extract_shown", json!({ "html": page })).await;
            assert!(read.is_ok(), "{}: {:?}", product.path, read.error);
            let fields = read.data;
            assert_eq!(fields["title"], product.name.as_str(), "{}", product.path);
            assert_eq!(fields["description"], product.description.as_str(), "{}", product.path);
            assert_eq!(fields["stock"]["value"], product.stock, "{}", product.path);
            let text = fields["price"]["text"].as_str().unwrap();
            assert!(text.contains(&product.price), "{}: {text}", product.path);
            let cents = product.cents();
            assert_eq!(fields["price"]["amount"], format!("{}.{:02}", cents / 100, cents % 100), "{}", product.path);
            let currency = match product.price.chars().next().unwrap() {
                '$' => "USD",
                '€' => "EUR",
                '£' => "GBP",
                _ => "CNY",
            };
            assert_eq!(fields["price"]["currency"], currency, "{}", product.path);
            assert_eq!(fields["missing"], json!([]), "{}", product.path);
        }
    }
}

#[tokio::test]
async fn only_the_last_rules_read_the_restructured_page() {
    let task = examples::task("page-patrol");
    let shop = open(Day::Second).await;
    let product =
        products(Day::Second).iter().find(|product| product.behaviour == Some(Behaviour::Restructured)).unwrap();
    let page = fetch(&task, &shop, product).await;
    for rules in ["extract_shown", "extract_meta"] {
        assert_eq!(call(&task, rules, json!({ "html": page })).await.code, Code::MalformedOutput, "{rules}");
    }
    let read = call(&task, "extract_loose", json!({ "html": page })).await;
    assert!(read.is_ok(), "{:?}", read.error);
    assert!(read.data["title"].as_str().unwrap().starts_with(&product.name));
    assert_eq!(read.data["missing"], json!(["description", "price"]));
}

#[tokio::test]
async fn pages_that_only_machines_can_read_are_read_too() {
    let task = examples::task("page-patrol");
    let open_graph = r#"<html><head><meta property="og:title" content="Kettle">
        <meta property="product:price:amount" content="12.50"></head><body><div>Kettle</div></body></html>"#;
    let read = call(&task, "extract_meta", json!({ "html": open_graph })).await;
    assert_eq!((&read.data["title"], &read.data["price"]["amount"]), (&json!("Kettle"), &json!("12.50")));

    let json_ld = r#"<html><head><title>Kettle</title><script type="application/ld+json">
        {"@type": "Product", "offers": {"price": "12.50", "priceCurrency": "EUR"}}</script></head><body></body></html>"#;
    let read = call(&task, "extract_loose", json!({ "html": json_ld })).await;
    assert_eq!((&read.data["title"], &read.data["price"]["amount"]), (&json!("Kettle"), &json!("12.50")));
}

#[tokio::test]
async fn the_shop_s_faults_look_like_faults_to_the_tool() {
    let task = examples::task("page-patrol");
    let shop = open(Day::Second).await;
    for (behaviour, code, asked) in [
        (Behaviour::RateLimited, Code::RateLimited, Some(Duration::from_secs(2))),
        (Behaviour::UnavailableOnce, Code::Unavailable, None),
        (Behaviour::CutOff, Code::Unavailable, None),
        (Behaviour::Gone, Code::NotFound, None),
    ] {
        let product = products(Day::Second).iter().find(|product| product.behaviour == Some(behaviour)).unwrap();
        let url = format!("{}{}", shop.base_url(), product.path);
        let result = call(&task, "fetch", json!({ "url": url })).await;
        assert_eq!((result.code, result.retry_after), (code, asked), "{behaviour:?}: {:?}", result.error);
    }
}
