//! `trace`, `state` and `export`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loopforge_core::id::ContentHash;
use serde_json::json;

use super::Place;

#[test]
fn every_record_is_one_line() {
    let place = Place::with_small_run();
    let said = place.loopforge(&["trace", &place.run()]);
    insta::assert_snapshot!("trace", place.masked(&said.out));
    let records = place.loopforge(&["trace", &place.run(), "--json"]).json_lines();
    assert_eq!(records.len(), said.out.lines().count());
    assert!(records.iter().enumerate().all(|(at, record)| record["seq"] == at + 1));

    let part = place.loopforge(&["trace", &place.run(), "--after", "3", "--limit", "2"]);
    assert_eq!(part.out.lines().collect::<Vec<_>>(), said.out.lines().skip(3).take(2).collect::<Vec<_>>());
    assert!(part.err.contains("`--after 5`"), "{part:?}");
}

#[test]
fn a_step_is_told_in_full() {
    let place = Place::with_small_run();
    for step in ["1", "2", "5", "6"] {
        let said = place.loopforge(&["trace", &place.run(), step]);
        insta::assert_snapshot!(format!("step_{step}"), place.masked(&said.out));
    }
    let document = place.loopforge(&["trace", &place.run(), "1", "--json"]).json();
    let opened = document["opened"].as_array().unwrap();
    assert_eq!(opened[0]["input"], "Ada");
    assert_eq!(opened[1]["arguments"], json!({ "name": "Ada" }));
    assert_eq!(opened[2]["data"], json!({ "greeting": "Hello, Ada" }));
    assert_eq!(opened[3]["before"], json!(null));
    assert_eq!(opened[3]["after"], json!({ "greeting": "Hello, Ada" }));
    let second = place.loopforge(&["trace", &place.run(), "5", "--json"]).json();
    assert_eq!(second["opened"][0]["before"], 1);
    assert_eq!(second["opened"][0]["after"], 2);
}

#[test]
fn state_is_read_as_it_is_and_as_it_was() {
    let place = Place::with_small_run();
    let run = place.run();
    insta::assert_snapshot!("state", place.masked(&place.loopforge(&["state", &run]).out));
    assert_eq!(place.loopforge(&["state", &run, "get", "count"]).out, "2\n");
    let versions = place.loopforge(&["state", &run, "get", "count", "--history", "--json"]).json_lines();
    let values: Vec<_> = versions.iter().map(|version| version["value"].clone()).collect();
    assert_eq!(values, [json!(1), json!(2)]);
    let first = versions[0]["seq"].to_string();
    assert_eq!(place.loopforge(&["state", &run, "get", "count", "--at", &first]).out, "1\n");
    let member = place.loopforge(&["state", &run, "get", "greetings", "Ada", "--json"]).json();
    assert_eq!(member, json!({ "greeting": "Hello, Ada" }));
    let whole = place.loopforge(&["state", &run, "--json"]).json();
    assert_eq!(whole["state"]["greetings"]["Grace"]["greeting"], "Hello, Grace");

    let missing = place.loopforge(&["state", &run, "get", "counts"]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("its keys are: count, greetings"), "{missing:?}");
    let missing = place.loopforge(&["state", &run, "get", "greetings", "nobody"]);
    assert!(missing.err.contains("its members are: Ada, Grace"), "{missing:?}");
    let late = place.loopforge(&["state", &run, "--at", "9999"]);
    assert_eq!(late.code, 2, "{late:?}");
}

#[test]
fn an_export_holds_everything_byte_for_byte() {
    let place = Place::with_small_run();
    let said = place.loopforge(&["export"]);
    assert_eq!(said.code, 0, "{said:?}");
    let lines = said.json_lines();
    let header = &lines[0]["header"];
    assert_eq!(header["run"], place.run().as_str());
    assert_eq!(header["task"]["text"], super::SMALL);
    assert_eq!(header["task_hash"], ContentHash::of(super::SMALL.as_bytes()).to_string());

    // The records, as they stand in the archive.
    let records: Vec<&str> = said.out.lines().filter_map(|line| line.strip_prefix(r#"{"record":"#)).collect();
    let traced = place.loopforge(&["trace", &place.run(), "--json"]).out;
    assert_eq!(records, traced.lines().map(|line| format!("{line}}}")).collect::<Vec<_>>());
    assert_eq!(header["head"], records.len());

    let end = &lines[lines.len() - 1]["end"];
    let before = &said.out[..said.out.trim_end().rfind('\n').unwrap() + 1];
    assert_eq!(end["hash"], blake3::hash(before.as_bytes()).to_hex().as_str());
    assert_eq!(end["records"], records.len());
    assert_eq!(end["problems"], 0);
}

#[test]
fn an_export_holds_bytes_that_are_no_text() {
    let place = Place::new();
    place.write(
        "task.yaml",
        r"
name: bytes
goal: Bring bytes.
tools:
  bytes:
    description: Prints bytes that are no text, and a long text.
    process: [sh, -c, 'head -c 3000 /dev/zero | tr \\0 \\377']
    sandbox: off
    effect: read
    input_schema: { type: object }
subgoals:
  - id: bring
    steps:
      - call: bytes
        save: bytes
",
    );
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 0);
    let blobs: Vec<_> =
        place.loopforge(&["export"]).json_lines().into_iter().filter(|line| line.get("blob").is_some()).collect();
    assert!(!blobs.is_empty());
    let mut bytes_seen = false;
    for line in &blobs {
        let blob = &line["blob"];
        let content = match (blob["text"].as_str(), blob["base64"].as_str()) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(encoded)) => STANDARD.decode(encoded).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(blob["hash"], ContentHash::of(&content).to_string());
        assert_eq!(blob["size"], content.len());
        bytes_seen |= content == [0xff; 3000];
    }
    assert!(bytes_seen, "the bytes as they came are not there");
}
