use loopforge_core::id::{ActionNo, StepNo, StepToken};
use loopforge_core::record::ActionId;
use loopforge_core::tool::Code;
use loopforge_tools::EffectStatus;
use serde_json::{Value, json};

use super::{step_of, tool};

const COLLECTION: &str = "product-pages";

fn put(entry: Value) -> Value {
    json!({ "collection": COLLECTION, "entry": entry })
}

#[tokio::test]
async fn each_run_reads_what_the_one_before_it_left() {
    let base = tempfile::tempdir().unwrap();
    let (get, archive) = (tool("archive_get"), tool("archive_put"));
    let first = get.call(json!({ "collection": COLLECTION }), &step_of(base.path(), 1, 1)).await;
    assert_eq!(first.data, json!({ "found": false, "id": null, "entry": null }));
    assert_eq!(first.meaning_of_empty.as_deref(), Some("no entry yet: this run is the first"));

    for (run, step) in [(1, 9), (2, 10), (2, 9), (16, 9)] {
        let written = archive.call(put(json!({ "run": run, "step": step })), &step_of(base.path(), run, step)).await;
        assert!(written.is_ok(), "{:?}", written.error);
        assert!(base.path().join(written.data["path"].as_str().unwrap()).is_file());
    }
    for (run, sees) in [
        (2, json!({ "run": 1, "step": 9 })),
        (3, json!({ "run": 2, "step": 10 })),
        (17, json!({ "run": 16, "step": 9 })),
    ] {
        let latest = get.call(json!({ "collection": COLLECTION }), &step_of(base.path(), run, 20)).await;
        assert_eq!(latest.data["entry"], sees, "run {run}");
        // By its id it is the same entry, for any run.
        let again =
            get.call(json!({ "collection": COLLECTION, "id": latest.data["id"] }), &step_of(base.path(), 1, 1)).await;
        assert_eq!(again.data, latest.data);
    }
    let missing = get.call(json!({ "collection": COLLECTION, "id": "run_x" }), &step_of(base.path(), 3, 1)).await;
    assert_eq!(missing.code, Code::NotFound);
}

#[tokio::test]
async fn an_effect_is_archived_once_and_never_overwritten() {
    let base = tempfile::tempdir().unwrap();
    let archive = tool("archive_put");
    let context = step_of(base.path(), 1, 9);
    assert_eq!(archive.status(put(json!(1)), &context).await, EffectStatus::NotHappened);
    let written = archive.call(put(json!(1)), &context).await;
    assert_eq!(archive.status(put(json!(1)), &context).await, EffectStatus::Happened(written.data.clone()));
    assert_eq!(archive.call(put(json!(1)), &context).await.data, written.data);

    // The same step after a rollback: another effect.
    let mut anew = context.clone();
    anew.step_token = Some(StepToken::of(context.run, 1, StepNo(9), ActionNo(0)));
    assert_eq!(archive.status(put(json!(2)), &anew).await, EffectStatus::NotHappened);
    let second = archive.call(put(json!(2)), &anew).await;
    assert_ne!(second.data["id"], written.data["id"]);
    let mut beside = context.clone();
    beside.action = ActionId { step: StepNo(9), action: ActionNo(1) };
    beside.step_token = Some(StepToken::of(context.run, 0, StepNo(9), ActionNo(1)));
    assert!(archive.call(put(json!(3)), &beside).await.is_ok());

    let folder = base.path().join("archive").join(COLLECTION);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
    let get = tool("archive_get");
    let latest = async |id: Option<&Value>| {
        let arguments = match id {
            Some(id) => json!({ "collection": COLLECTION, "id": id }),
            None => json!({ "collection": COLLECTION }),
        };
        get.call(arguments, &step_of(base.path(), 2, 1)).await
    };
    assert_eq!(latest(None).await.data["entry"], 3);
    assert_eq!(latest(Some(&written.data["id"])).await.data["entry"], 1);
    // What a killed write leaves, and files of others, are no entries.
    std::fs::write(folder.join(".loopforge-t-1-0"), "{").unwrap();
    std::fs::write(folder.join("readme.json"), "{").unwrap();
    assert_eq!(latest(None).await.data["entry"], 3);
    let path = base.path().join(second.data["path"].as_str().unwrap());
    std::fs::write(path, "{\"half").unwrap();
    assert_eq!(latest(Some(&second.data["id"])).await.code, Code::MalformedOutput);
}

#[tokio::test]
async fn names_that_are_no_names_are_refused() {
    let base = tempfile::tempdir().unwrap();
    let context = step_of(base.path(), 1, 1);
    for arguments in [
        json!({ "collection": "a/b", "entry": 1 }),
        json!({ "collection": "..", "entry": 1 }),
        json!({ "collection": "a", "entry": 1, "dir": "/tmp" }),
        json!({ "collection": "a", "entry": 1, "dir": "../x" }),
    ] {
        let result = tool("archive_put").call(arguments.clone(), &context).await;
        assert_eq!(result.code, Code::InvalidArgument, "{arguments}");
    }
    let result = tool("archive_get").call(json!({ "collection": "a", "id": "../../x" }), &context).await;
    assert_eq!(result.code, Code::InvalidArgument);
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
}
