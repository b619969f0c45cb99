use loopforge_core::tool::Code;
use loopforge_tools::EffectStatus;
use serde_json::json;

use super::{step_of, tool};

#[tokio::test]
async fn a_report_is_two_files_written_once() {
    let base = tempfile::tempdir().unwrap();
    let context = step_of(base.path(), 1, 12);
    let report = tool("report");
    let arguments = json!({ "title": "Patrol <today>", "sections": [
        { "heading": "Changes", "table": [{ "page": "https://shop.example/p/1", "to": { "value": 349, "text": "￥349" } }] },
    ]});
    assert_eq!(report.status(arguments.clone(), &context).await, EffectStatus::NotHappened);
    let written = report.call(arguments.clone(), &context).await;
    assert!(written.is_ok(), "{:?}", written.error);
    let stem = format!("report-{}-12", context.run);
    assert_eq!(written.data["markdown"]["path"], format!("{stem}.md"));
    let markdown = std::fs::read_to_string(context.workspace.join(format!("{stem}.md"))).unwrap();
    assert!(markdown.starts_with("# Patrol \\<today\\>\n\n## Changes\n\n| page | to |"), "{markdown}");
    let html = std::fs::read_to_string(context.workspace.join(format!("{stem}.html"))).unwrap();
    assert!(html.contains("<h1>Patrol &lt;today&gt;</h1>") && html.contains("<td>￥349</td>"), "{html}");
    assert!(html.contains("<a href=\"https://shop.example/p/1\">"));
    assert_eq!(written.data["html"]["bytes"], html.len());

    assert_eq!(report.status(arguments.clone(), &context).await, EffectStatus::Happened(written.data.clone()));
    assert_eq!(report.call(arguments.clone(), &context).await.data, written.data);
    // Killed between the two files: the call completes the report.
    std::fs::remove_file(context.workspace.join(format!("{stem}.html"))).unwrap();
    assert_eq!(report.status(arguments.clone(), &context).await, EffectStatus::NotHappened);
    assert_eq!(report.call(arguments, &context).await.data, written.data);

    // Another content under the same name gets a name of its own.
    let other =
        report.call(json!({ "title": "Other", "template": "{{ data }}", "data": { "data": 1 } }), &context).await;
    assert_eq!(other.data["markdown"]["path"], format!("{stem}-r002.md"), "{:?}", other.error);
    assert_eq!(std::fs::read_dir(context.workspace.as_path()).unwrap().count(), 4);
    let named = report.call(json!({ "title": "T", "name": "out/day-{step}" }), &context).await;
    assert_eq!(named.data["html"]["path"], "out/day-12.html");
}

#[tokio::test]
async fn bad_reports_are_refused_before_anything_is_written() {
    let base = tempfile::tempdir().unwrap();
    let context = step_of(base.path(), 1, 12);
    for (arguments, word) in [
        (json!({ "title": "T", "template": "{{ nobody }}" }), "`template`"),
        (json!({ "title": "T", "template": "x", "sections": [{ "text": "y" }] }), "one of them"),
        (json!({ "title": "T", "name": "../x" }), "`..`"),
    ] {
        let result = tool("report").call(arguments, &context).await;
        assert_eq!((result.code, result.effect_possible), (Code::InvalidArgument, false));
        assert!(result.error.as_deref().unwrap().contains(word), "{:?}", result.error);
    }
    assert!(!context.workspace.exists());
}
