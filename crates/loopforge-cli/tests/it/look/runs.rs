//! `ls`, `show`, `effects`, `doctor`, `schema`, `completions`, and what is said when there is nothing to look at.

use serde_json::json;

use super::Place;

#[test]
fn a_run_is_listed_and_shown() {
    let place = Place::with_small_run();
    insta::assert_snapshot!("ls", place.masked(&place.loopforge(&["ls"]).out));
    insta::assert_snapshot!("show", place.masked(&place.loopforge(&["show"]).out));
    insta::assert_snapshot!("effects", place.masked(&place.loopforge(&["effects"]).out));
}

#[test]
fn programs_get_the_same() {
    let place = Place::with_small_run();
    let listed = place.loopforge(&["ls", "--json"]).json();
    assert_eq!(listed["runs"][0]["status"], "succeeded");
    assert_eq!(listed["runs"][0]["owner"], json!(null));
    assert_eq!(listed["more"], false);

    let shown = place.loopforge(&["show", "--json"]).json();
    assert_eq!(shown["subgoals"][0]["done"], 2);
    assert_eq!(shown["subgoals"][0]["given_up"][0]["item"], "nobody");
    assert_eq!(shown["subgoals"][0]["given_up"][0]["code"], "permanent");
    assert_eq!(shown["ended"]["checks"][0], json!({ "rule": "state.count >= 2", "holds": true }));
    assert_eq!(shown["files"], json!([{ "path": "report.md", "size": 9 }]));
    assert_eq!(shown["verdict"]["scores"]["completion"][0], 1.0);

    let effects = place.loopforge(&["effects", "--json"]).json();
    assert_eq!(effects["effects"][0]["state"], "confirmed");
    assert_eq!(effects["effects"][0]["code"], "success");
}

#[test]
fn an_end_of_an_id_is_enough_and_a_limit_is_held() {
    let place = Place::with_small_run();
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 0);
    let listed = place.loopforge(&["ls"]).out;
    for line in listed.lines().skip(1) {
        let end = line.split_whitespace().next().unwrap();
        let shown = place.loopforge(&["show", end, "--json"]).json();
        assert!(shown["run"].as_str().unwrap().ends_with(end));
    }
    let one = place.loopforge(&["ls", "--limit", "1"]);
    assert_eq!(one.out.lines().count(), 2, "{one:?}");
    assert!(one.err.contains("--limit"), "{one:?}");
    assert_eq!(place.loopforge(&["ls", "--limit", "1", "--json"]).json()["more"], true);
}

#[test]
fn what_is_not_there_is_said_with_a_way_out() {
    let place = Place::new();
    for command in [&["ls"][..], &["show"], &["trace", "run_x"], &["export"], &["watch"], &["graph"], &["effects"]] {
        let said = place.loopforge(command);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("there is no store at `.loopforge/loopforge.db`"), "{said:?}");
        assert!(said.err.contains("hint: `loopforge run FILE` makes one"), "{said:?}");
    }
    assert!(!place.store().exists(), "looking made a store");

    let place = Place::with_small_run();
    for command in [&["show", "zzzz"][..], &["trace", "run_00000000000000000000000000000000"], &["state", "zzzz"]] {
        let said = place.loopforge(command);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("there is no run"), "{said:?}");
        assert!(said.err.contains("`loopforge ls`"), "{said:?}");
    }
    let said = place.loopforge(&["trace", &place.run(), "99"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
    assert!(said.err.contains("has no step 99"), "{said:?}");
    let said = place.loopforge(&["show", "zzzz", "--json"]);
    assert_eq!(said.json()["error"]["exit"], 2);
}

#[test]
fn the_store_of_another_program_is_left_alone() {
    let place = Place::new();
    place.write("notes.txt", "not a database, but long enough to look like one: ".repeat(20).as_str());
    rusqlite::Connection::open(place.path().join("other.db"))
        .unwrap()
        .execute_batch("create table customer (name text); insert into customer values ('Ada')")
        .unwrap();
    for file in ["notes.txt", "other.db"] {
        let before = std::fs::read(place.path().join(file)).unwrap();
        for command in ["ls", "show", "doctor"] {
            let said = place.loopforge(&[command, "--store", file]);
            assert_eq!(said.code, 5, "{said:?}");
            let all = format!("{}{}", said.out, said.err);
            assert!(all.contains("not a LoopForge store"), "{said:?}");
            assert!(all.contains("choose another with `--store"), "{said:?}");
        }
        assert_eq!(std::fs::read(place.path().join(file)).unwrap(), before);
    }
}

#[test]
fn doctor_finds_nothing_wrong_with_a_good_place() {
    let place = Place::new();
    let said = place.loopforge(&["doctor"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("there is none at .loopforge/loopforge.db yet"), "{said:?}");
    assert!(!place.store().exists());

    let place = Place::with_small_run();
    let findings = place.loopforge(&["doctor", "--json"]).json();
    assert_eq!(findings["ok"], true, "{findings}");
    let about: Vec<_> = findings["findings"].as_array().unwrap().iter().map(|one| one["about"].clone()).collect();
    assert_eq!(json!(about), json!(["version", "sandbox", "folder", "disk", "store", "room"]));
}

#[test]
fn the_schema_and_completions_are_complete() {
    let place = Place::new();
    let schema = place.loopforge(&["schema"]).json();
    assert!(schema["properties"]["subgoals"].is_object(), "{schema}");
    for shell in ["bash", "zsh", "fish"] {
        let said = place.loopforge(&["completions", shell]);
        assert_eq!(said.code, 0);
        for command in ["ls", "show", "watch", "graph", "trace", "state", "effects", "export", "doctor", "schema"] {
            assert!(said.out.contains(command), "{shell}: {command}");
        }
    }
}
