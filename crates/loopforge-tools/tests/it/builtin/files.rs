use std::time::Duration;

use loopforge_core::tool::{Code, Effect};
use loopforge_tools::EffectStatus;
use serde_json::json;

use super::{context_in, step_of, tool};

#[tokio::test]
async fn a_file_is_written_read_listed_and_asked_about() {
    let base = tempfile::tempdir().unwrap();
    let context = context_in(base.path());
    let write = tool("file_write");
    assert!(write.contract().effect == Effect::Write && write.contract().idempotent);
    let arguments = json!({ "path": "notes/{run}-{step}.md", "content": "价格\n" });
    assert_eq!(write.status(arguments.clone(), &context).await, EffectStatus::NotHappened);
    let result = write.call(arguments.clone(), &context).await;
    let path = format!("notes/{}-3.md", context.run);
    assert_eq!(
        (result.data["path"].as_str(), result.data["bytes"].as_u64()),
        (Some(path.as_str()), Some(7)),
        "{:?}",
        result.error
    );
    assert_eq!(std::fs::read_to_string(context.workspace.join(&path)).unwrap(), "价格\n");

    // The same call again, as after a crash between writing and recording it.
    assert_eq!(write.status(arguments.clone(), &context).await, EffectStatus::Happened(result.data.clone()));
    assert_eq!(write.call(arguments, &context).await, result);

    let value = write.call(json!({ "path": "v.json", "content": { "a": [1] } }), &context).await;
    assert!(value.is_ok());
    let read = tool("file_read");
    let text = read.call(json!({ "path": "v.json" }), &context).await;
    assert_eq!(text.data["content"], "{\n  \"a\": [\n    1\n  ]\n}\n");
    let cut = read.call(json!({ "path": path, "max_bytes": 4 }), &context).await;
    assert_eq!((&cut.data["content"], &cut.data["truncated"]), (&json!("价"), &json!(true)));
    let listed = tool("file_list").call(json!({ "recursive": true }), &context).await;
    assert_eq!(
        listed.data["files"],
        json!([{ "path": "notes", "kind": "folder", "bytes": 0 }, { "path": path, "kind": "file", "bytes": 7 },
               { "path": "v.json", "kind": "file", "bytes": text.data["bytes"] }])
    );
}

#[tokio::test]
async fn another_step_does_not_overwrite() {
    let base = tempfile::tempdir().unwrap();
    let write = tool("file_write");
    let (first, second) = (step_of(base.path(), 1, 3), step_of(base.path(), 1, 4));
    assert!(write.call(json!({ "path": "r.md", "content": "one" }), &first).await.is_ok());
    let arguments = json!({ "path": "r.md", "content": "two" });
    let refused = write.call(arguments.clone(), &second).await;
    assert_eq!(refused.code, Code::InvalidArgument);
    assert!(refused.error.unwrap().contains("`replace: true`"));
    assert_eq!(write.status(arguments, &second).await, EffectStatus::NotHappened);
    assert!(write.call(json!({ "path": "r.md", "content": "two", "replace": true }), &second).await.is_ok());
    assert_eq!(std::fs::read_to_string(second.workspace.join("r.md")).unwrap(), "two");
}

#[tokio::test]
async fn no_path_leads_out_of_the_workspace() {
    let base = tempfile::tempdir().unwrap();
    let context = context_in(base.path());
    std::fs::create_dir_all(context.workspace.as_path()).unwrap();
    std::fs::write(base.path().join("secret"), "s").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(base.path(), context.workspace.join("link")).unwrap();
    for path in ["../x", "/tmp/x", "a/../../x", "link/x", "a\0b"] {
        let written = tool("file_write").call(json!({ "path": path, "content": "x" }), &context).await;
        assert_eq!(written.code, Code::InvalidArgument, "{path:?}");
        assert!(!tool("file_read").call(json!({ "path": path }), &context).await.is_ok());
        assert!(!tool("file_list").call(json!({ "path": path }), &context).await.is_ok());
    }
    assert_eq!(tool("file_read").call(json!({ "path": "link/secret" }), &context).await.code, Code::InvalidArgument);
    let listed = tool("file_list").call(json!({ "recursive": true }), &context).await;
    assert_eq!(listed.data["files"], json!([{ "path": "link", "kind": "link", "bytes": 0 }]));
}

#[tokio::test]
async fn what_is_not_there_or_no_text_is_said() {
    let base = tempfile::tempdir().unwrap();
    let context = context_in(base.path());
    assert_eq!(tool("file_read").call(json!({ "path": "a" }), &context).await.code, Code::NotFound);
    let nothing = tool("file_list").call(json!({}), &context).await;
    assert!(nothing.is_ok() && nothing.meaning_of_empty.is_some());
    assert_eq!(tool("file_list").call(json!({ "path": "a" }), &context).await.code, Code::NotFound);

    std::fs::create_dir_all(context.workspace.join("d")).unwrap();
    assert_eq!(tool("file_read").call(json!({ "path": "d" }), &context).await.code, Code::InvalidArgument);
    std::fs::write(context.workspace.join("b"), [0xf0, 0, 0xff, 1, 2, 3]).unwrap();
    let binary = tool("file_read").call(json!({ "path": "b" }), &context).await;
    assert_eq!(binary.data["binary"], true);
    assert_eq!(binary.raw.unwrap().bytes.len(), 6);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt;
        std::fs::write(context.workspace.join(std::ffi::OsStr::from_bytes(b"odd\xff")), "").unwrap();
        let listed = tool("file_list").call(json!({}), &context).await;
        assert!(listed.marks[0].contains("no UTF-8") && listed.data.to_string().contains("odd\u{fffd}"));
    }
}

#[tokio::test]
async fn a_write_given_up_in_time_changes_nothing() {
    let base = tempfile::tempdir().unwrap();
    let mut context = context_in(base.path());
    context.timeout = Duration::ZERO;
    context.cancel.cancel();
    let write = tool("file_write");
    let arguments = json!({ "path": "a", "content": "x".repeat(10_000_000) });
    let result = write.call(arguments.clone(), &context).await;
    // The file system may be faster than the check; then the write counts, and says so.
    let there = context.workspace.join("a").exists();
    assert_eq!(result.is_ok(), there);
    assert!(!result.leaves_effect_unknown());
}
