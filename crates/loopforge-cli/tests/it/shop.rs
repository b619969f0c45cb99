#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use encoding_rs::GBK;
use loopforge_cli::demo::shop::{
    Behaviour, Change, Day, Layout, Outcome, Product, Shop, ShopOptions, expected_differences, products,
};

use crate::http::{Answer, get, request};

const SLOW: Duration = Duration::from_millis(80);

async fn open(day: Day) -> Shop {
    Shop::start(day, ShopOptions { slow: SLOW, ..ShopOptions::default() }).await.unwrap()
}

fn with(behaviour: Behaviour) -> &'static Product {
    products(Day::First).iter().find(|product| product.behaviour == Some(behaviour)).unwrap()
}

/// Gets a product's page until it comes whole.
async fn whole(shop: &Shop, product: &Product) -> Answer {
    let url = format!("{}{}", shop.base_url(), product.path);
    let first = get(&url).await;
    if first.status == 200 && first.body.len() == first.promised() { first } else { get(&url).await }
}

fn decoded(answer: &Answer, layout: Layout) -> String {
    if layout == Layout::ChineseGbk {
        let (text, _, bad) = GBK.decode(&answer.body);
        assert!(!bad, "a page that isn't GBK");
        text.into_owned()
    } else {
        answer.text().to_owned()
    }
}

/// Undoes the shop's escaping of text.
fn unescaped(page: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&#x2f;", "/"), ("&amp;", "&")]
        .iter()
        .fold(page.to_owned(), |page, (entity, character)| page.replace(entity, character))
}

#[tokio::test]
async fn every_page_shows_its_product_of_the_day() {
    let shop = open(Day::First).await;
    for day in [Day::First, Day::Second] {
        shop.set_day(day);
        assert_eq!(shop.product_urls().len(), products(day).len());
        for product in products(day).iter().filter(|product| product.is_sold_on(day)) {
            let answer = whole(&shop, product).await;
            assert_eq!(answer.status, 200, "{}", product.path);
            assert!(answer.header("content-type").starts_with("text/html"), "{}", product.path);
            let page = unescaped(&decoded(&answer, product.layout));
            for shown in [&product.name, &product.description] {
                assert!(page.contains(shown), "{} doesn't show {shown:?} on {day:?}", product.path);
            }
            if product.layout == Layout::Relaunched {
                assert!(!page.contains(&product.price), "{} shows its price", product.path);
            } else {
                assert!(page.contains(&product.price), "{} doesn't show {}", product.path, product.price);
                assert!(page.contains(&product.stock.to_string()), "{} doesn't show its stock", product.path);
            }
        }
    }
}

#[tokio::test]
async fn pages_of_a_day_are_the_same_each_time() {
    let shop = open(Day::First).await;
    let product = products(Day::First).iter().find(|product| product.behaviour.is_none()).unwrap();
    let url = format!("{}{}", shop.base_url(), product.path);
    assert_eq!(get(&url).await.body, get(&url).await.body);
}

#[tokio::test]
async fn layouts_differ_in_what_a_parser_finds() {
    let shop = open(Day::First).await;
    for (layout, mark) in [
        (Layout::Classic, r#"<span class="price">"#),
        (Layout::Table, r#"<TD itemprop="price">"#),
        (Layout::Chinese, r#"<dl class="goods-price"><dt>价格：</dt>"#),
        (Layout::ChineseGbk, r#"<span id="price">"#),
        (Layout::Modern, r#"data-testid="price""#),
    ] {
        for product in products(Day::First).iter().filter(|product| product.layout == layout) {
            let page = decoded(&whole(&shop, product).await, layout);
            assert!(page.contains(mark), "{} has no {mark}", product.path);
        }
    }
}

#[tokio::test]
async fn chinese_pages_show_stock_and_sales_as_chinese_shops_do() {
    let shop = open(Day::First).await;
    let product = products(Day::First).iter().find(|product| product.path == "/goods/100213.html").unwrap();
    let page = decoded(&whole(&shop, product).await, product.layout);
    for shown in ["价格：", "￥1,299.00", "库存 12 件", "1.2万人付款"] {
        assert!(page.contains(shown), "no {shown}");
    }
}

#[tokio::test]
async fn gbk_pages_say_so_in_the_header_or_in_the_document() {
    let shop = open(Day::First).await;
    let (mut by_header, mut by_document) = (0, 0);
    for product in products(Day::First).iter().filter(|product| product.layout == Layout::ChineseGbk) {
        let answer = whole(&shop, product).await;
        assert!(std::str::from_utf8(&answer.body).is_err(), "{} is UTF-8", product.path);
        match answer.header("content-type") {
            "text/html; charset=GBK" => by_header += 1,
            "text/html" => by_document += 1,
            other => panic!("{other}"),
        }
        assert!(decoded(&answer, product.layout).contains("charset=gb2312"));
    }
    assert!(by_header > 0 && by_document > 0, "{by_header} and {by_document}");
}

#[tokio::test]
async fn the_second_day_shows_every_expected_difference() {
    let shop = open(Day::Second).await;
    for difference in expected_differences() {
        let url = format!("{}{}", shop.base_url(), difference.path);
        let first = get(&url).await;
        let answer = if matches!(first.status, 429 | 503) { get(&url).await } else { first };
        match &difference.change {
            Change::Added => assert_eq!(answer.status, 200, "{}", difference.path),
            Change::Removed => assert_eq!(answer.status, 404, "{}", difference.path),
            Change::Changed { after, .. } => {
                let product = products(Day::Second).iter().find(|product| product.path == difference.path).unwrap();
                assert!(decoded(&answer, product.layout).contains(after), "{} without {after}", difference.path);
            }
        }
    }
}

#[tokio::test]
async fn the_restructured_page_keeps_its_title_and_hides_its_price() {
    let shop = open(Day::First).await;
    let product = with(Behaviour::Restructured);
    let before = whole(&shop, product).await;
    shop.set_day(Day::Second);
    let after = whole(&shop, product).await;
    assert!(before.text().contains("goods-price") && before.text().contains("<h1"));
    assert!(!after.text().contains("goods-price") && !after.text().contains("<h1"));
    assert!(after.text().contains(&format!("<title>{}", product.name)));
    assert!(!after.text().contains(&product.price));
}

#[tokio::test]
async fn the_rate_limited_page_asks_to_wait_once_a_day() {
    let shop = open(Day::First).await;
    let url = format!("{}{}", shop.base_url(), with(Behaviour::RateLimited).path);
    for day in [Day::First, Day::Second] {
        shop.set_day(day);
        let first = get(&url).await;
        assert_eq!((first.status, first.header("retry-after")), (429, "2"));
        assert_eq!(get(&url).await.status, 200);
        assert_eq!(get(&url).await.status, 200);
    }
}

#[tokio::test]
async fn the_failing_page_fails_once_a_day() {
    let shop = open(Day::First).await;
    let url = format!("{}{}", shop.base_url(), with(Behaviour::UnavailableOnce).path);
    assert_eq!([get(&url).await.status, get(&url).await.status], [503, 200]);
    shop.set_day(Day::Second);
    assert_eq!([get(&url).await.status, get(&url).await.status], [503, 200]);
}

#[tokio::test]
async fn the_slow_page_is_slow_and_whole() {
    let shop = open(Day::First).await;
    let started = Instant::now();
    let answer = get(&format!("{}{}", shop.base_url(), with(Behaviour::Slow).path)).await;
    assert!(started.elapsed() >= SLOW);
    assert_eq!((answer.status, answer.body.len()), (200, answer.promised()));
}

#[tokio::test]
async fn the_cut_page_breaks_off_in_the_middle_once_a_day() {
    let shop = open(Day::First).await;
    let path = &with(Behaviour::CutOff).path;
    let url = format!("{}{path}", shop.base_url());
    let first = get(&url).await;
    assert_eq!(first.status, 200);
    assert_eq!(first.body.len(), first.promised() / 2);
    let second = get(&url).await;
    assert_eq!(second.body.len(), second.promised());
    assert_eq!(second.body[..first.body.len()], first.body);
    let outcomes: Vec<_> =
        shop.log().into_iter().filter(|entry| entry.path == *path).map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, [Outcome::CutOff, Outcome::Status(200)]);
}

#[tokio::test]
async fn the_gone_page_is_gone_on_the_second_day() {
    let shop = open(Day::First).await;
    let url = format!("{}{}", shop.base_url(), with(Behaviour::Gone).path);
    assert_eq!(get(&url).await.status, 200);
    shop.set_day(Day::Second);
    assert_eq!(get(&url).await.status, 404);
    assert!(shop.product_urls().contains(&url), "the list still holds it");
}

#[tokio::test]
async fn what_was_never_sold_is_not_found() {
    let shop = open(Day::First).await;
    assert_eq!(get(&format!("{}/p/no-such-thing", shop.base_url())).await.status, 404);
    let early = products(Day::Second).iter().find(|product| product.since == Day::Second).unwrap();
    assert_eq!(get(&format!("{}{}", shop.base_url(), early.path)).await.status, 404);
}

#[tokio::test]
async fn the_list_of_urls_can_be_fetched() {
    let shop = open(Day::Second).await;
    let list = get(&format!("{}/urls.txt", shop.base_url())).await;
    assert_eq!(list.text().lines().collect::<Vec<_>>(), shop.product_urls());
    let index = unescaped(get(&format!("{}/", shop.base_url())).await.text());
    assert!(products(Day::Second).iter().all(|product| index.contains(&product.path)));
}

#[tokio::test]
async fn a_report_is_kept_once_and_counted() {
    let shop = open(Day::First).await;
    let url = shop.reports_url();
    let status = format!("{url}/token-1");
    assert_eq!(get(&status).await.status, 404);

    let first = request("POST", &url, &[("Idempotency-Key", "token-1")], b"report").await;
    assert_eq!((first.status, first.json()["deliveries"].as_u64()), (201, Some(1)));
    let told = get(&status).await;
    assert_eq!(told.status, 200);
    assert_eq!(told.json()["happened"], true);
    assert_eq!(told.json()["result"]["id"], "token-1");

    let again = request("POST", &url, &[("Idempotency-Key", "token-1")], b"another report").await;
    assert_eq!((again.status, again.json()["deliveries"].as_u64()), (200, Some(2)));
    let deliveries = shop.deliveries();
    assert_eq!(deliveries.len(), 1);
    assert_eq!((deliveries[0].body.as_slice(), deliveries[0].times), (&b"report"[..], 2));
}

#[tokio::test]
async fn a_report_without_a_key_is_refused() {
    let shop = open(Day::First).await;
    assert_eq!(request("POST", &shop.reports_url(), &[], b"report").await.status, 400);
    assert!(shop.deliveries().is_empty());
}

#[tokio::test]
async fn other_methods_are_refused() {
    let shop = open(Day::First).await;
    assert_eq!(request("DELETE", &format!("{}/", shop.base_url()), &[], b"").await.status, 405);
}

#[tokio::test]
async fn the_log_tells_every_request_in_order() {
    let shop = open(Day::First).await;
    get(&format!("{}/urls.txt", shop.base_url())).await;
    shop.set_day(Day::Second);
    request("POST", &shop.reports_url(), &[("Idempotency-Key", "token-2")], b"{}").await;
    let log: Vec<_> = shop
        .log()
        .into_iter()
        .map(|entry| (u8::from(entry.day), entry.method, entry.path, entry.idempotency_key, entry.outcome))
        .collect();
    assert_eq!(
        log,
        [
            (1, "GET".to_owned(), "/urls.txt".to_owned(), None, Outcome::Status(200)),
            (2, "POST".to_owned(), "/reports".to_owned(), Some("token-2".to_owned()), Outcome::Status(201)),
        ]
    );
}

#[tokio::test]
async fn a_dropped_shop_stops() {
    let shop = open(Day::First).await;
    let host = shop.base_url().trim_start_matches("http://").to_owned();
    drop(shop);
    let refused = async {
        while tokio::net::TcpStream::connect(&host).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), refused).await.expect("the port is closed soon after");
}
