//! Answers as they come: large, empty, with characters that stores can't hold (ENC).

use loopforge_core::json::Json;
use loopforge_core::record::RunOutcome;
use loopforge_core::tool::ToolResult;
use loopforge_store::sqlite::SqliteStore;
use serde_json::json;
use std::sync::Arc;
use tempfile::TempDir;

use crate::bench::{Bench, Scripted};

const ONE_CALL: &str = "
tools: { get: { builtin: get } }
subgoals: [{ id: a, steps: [{ call: get, save: got }, { set: { size: '${ size(state.got.text) }' } }] }]
";

/// Runs `ONE_CALL` with this answer in both kinds of store; what state holds after it.
async fn stored(answer: Json) -> (Json, Vec<String>) {
    let folder = TempDir::new().unwrap();
    let mut states = Vec::new();
    let mut marks = Vec::new();
    let sqlite = SqliteStore::open(&folder.path().join("store.db")).unwrap();
    for bench in [Bench::new(ONE_CALL), Bench::on(Arc::new(sqlite), ONE_CALL)] {
        let data = answer.clone();
        let get = Scripted::read(move |_| {
            let data = data.clone();
            async move { ToolResult::success(data) }
        });
        let bench = bench.tool("get", &get);
        let story = bench.run().await;
        assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{}", story.end().reason);
        marks.clone_from(&story.finished()[0].result.marks);
        states.push(bench.state(story.report.run, "got").await);
    }
    assert_eq!(states[0], states[1], "both stores by the same rule");
    (states.swap_remove(0), marks)
}

#[tokio::test]
async fn a_result_of_fifty_megabytes_goes_through_unchanged() {
    let answer = json!({ "text": "x".repeat(50 << 20) });
    let (state, marks) = stored(answer.clone()).await;
    assert!(state == answer);
    assert!(marks.is_empty());
}

/// ENC-01
#[tokio::test]
async fn nul_is_replaced_by_its_picture_and_marked() {
    let (state, marks) = stored(json!({ "text": "a\0b", "ke\0y": ["\0\0"] })).await;
    assert_eq!(state, json!({ "text": "a\u{2400}b", "ke\u{2400}y": ["\u{2400}\u{2400}"] }));
    assert_eq!(marks, ["4 NUL characters were replaced by U+2400"]);
}

/// ENC-01, ENC-02
#[tokio::test]
async fn text_that_only_looks_like_an_escape_stays() {
    for text in [r"\u0000", r"\\u0000", r"\ud83d", "😀", "\u{fffd}", "\u{202e}\u{200b}", "１２ 元"] {
        let answer = json!({ "text": text });
        let (state, marks) = stored(answer.clone()).await;
        assert_eq!(state, answer);
        assert!(marks.is_empty());
    }
}

#[tokio::test]
async fn numbers_stay_as_they_are() {
    let answer = json!({ "text": "", "n": [u64::MAX, i64::MIN, 9_007_199_254_740_993_u64, 0.1, -0.0, 1.0, 1e308] });
    let (state, _) = stored(answer.clone()).await;
    assert_eq!(state.to_string(), answer.to_string());
}

#[tokio::test]
async fn an_empty_answer_says_what_it_means() {
    let get = Scripted::read(|_| async { ToolResult::success(json!([])) });
    let task = "
tools: { get: { builtin: get, meaning_of_empty: no such order } }
subgoals: [{ id: a, steps: [{ call: get }] }]
";
    let story = Bench::new(task).tool("get", &get).run().await;
    assert_eq!(story.finished()[0].result.meaning_of_empty.as_deref(), Some("no such order"));
}

#[tokio::test]
async fn key_fields_are_kept_verbatim() {
    let get =
        Scripted::read(|_| async { ToolResult::success(json!({ "price": "399.00元", "text": "x".repeat(5000) })) });
    let task = "
tools: { get: { builtin: get, key_fields: [/price, /absent] } }
subgoals: [{ id: a, steps: [{ call: get }] }]
";
    let story = Bench::new(task).tool("get", &get).run().await;
    let fields = &story.finished()[0].result.key_fields;
    assert_eq!(fields.len(), 1);
    assert_eq!(fields["/price"], "399.00元");
}
