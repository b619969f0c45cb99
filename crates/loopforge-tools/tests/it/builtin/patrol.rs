//! The tools of the page patrol, one after the other: what one answers, the next one takes.

use std::path::Path;

use loopforge_core::tool::Code;
use loopforge_tools::CallContext;
use serde_json::{Map, Value, json};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{network_tool, step_of, tool};

async fn serve(pages: &[(&str, &str)]) -> MockServer {
    let server = MockServer::start().await;
    for (at, html) in pages {
        let answer = ResponseTemplate::new(200).set_body_raw(*html, "text/html; charset=utf-8");
        Mock::given(path(*at)).respond_with(answer).mount(&server).await;
    }
    server
}

async fn call(name: &str, arguments: Value, context: &CallContext) -> Value {
    let result = tool(name).call(arguments, context).await;
    assert!(result.is_ok(), "{name}: {:?}", result.error);
    result.data
}

/// One day's run; returns its differences and the text of its report.
async fn patrol(base: &Path, run: u128, pages: &[(&str, &str)]) -> (Value, String) {
    let server = serve(pages).await;
    let context = |step| step_of(base, run, step);
    let mut records = Map::new();
    for (number, (at, _)) in pages.iter().enumerate() {
        let url = format!("{}{at}", server.uri());
        let page =
            network_tool("http_get", &["127.0.0.1:*"]).call(json!({ "url": url }), &context(number as u64)).await;
        let rules = |css: &str| json!({ "title": "h1", "price": { "css": css, "kind": "price", "required": true } });
        let strict = tool("extract").call(json!({ "html": page.data, "fields": rules(".price") }), &context(20)).await;
        let record = match strict.code {
            Code::Success => strict.data,
            code => {
                assert_eq!(code, Code::MalformedOutput);
                call("extract", json!({ "html": page.data, "fields": rules("[class*=price]") }), &context(21)).await
            }
        };
        records.insert((*at).to_owned(), record);
    }
    let latest = call("archive_get", json!({ "collection": "pages" }), &context(30)).await;
    let diffs = call("diff", json!({ "before": latest["entry"], "after": records }), &context(31)).await;
    call("archive_put", json!({ "collection": "pages", "entry": records }), &context(32)).await;
    let sections = json!([
        { "heading": "Changed", "table": { "columns": ["key", "field", "from", "to"], "rows": diffs["changed"] } },
        { "heading": "New", "list": diffs["added"].as_array().unwrap().iter().map(|new| &new["key"]).collect::<Vec<_>>() },
    ]);
    let report = call("report", json!({ "title": "Patrol", "sections": sections }), &context(33)).await;
    let file = call("file_read", json!({ "path": report["markdown"]["path"] }), &context(34)).await;
    (diffs, file["content"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn two_days_of_a_patrol() {
    let base = tempfile::tempdir().unwrap();
    let first =
        [("/p/1", "<h1>Kettle</h1><b class=price>￥399.00</b>"), ("/p/2", "<h1>Pot</h1><b class=price>¥1.2万</b>")];
    let (diffs, _) = patrol(base.path(), 1, &first).await;
    assert_eq!(diffs["added"].as_array().unwrap().len(), 2);

    // The next day one price fell, one page was built anew, and one is new.
    let second = [
        ("/p/1", "<h1>Kettle</h1><b class=price>￥349.00</b>"),
        ("/p/2", "<main><h1>Pot</h1><i class=new-price>12,000元</i></main>"),
        ("/p/3", "<h1>Pan</h1><b class=price>99元</b>"),
    ];
    let (diffs, report) = patrol(base.path(), 2, &second).await;
    assert_eq!((&diffs["unchanged"], diffs["changed"].as_array().unwrap().len()), (&json!(1), 1), "{diffs}");
    assert_eq!(
        report,
        "# Patrol\n\n## Changed\n\n| key | field | from | to |\n| --- | --- | --- | --- |\n\
         | /p/1 | price | ￥399.00 | ￥349.00 |\n\n## New\n\n- /p/3\n"
    );
}
