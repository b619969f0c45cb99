//! `import`, `gc`, and how much runs take up.

use std::process::Stdio;

use serde_json::Value;

use super::{Place, Said, until};

/// A run that is killed at a record, in the middle of a list with large values.
const LARGE: &str = r#"
name: large
goal: Keep much.
inputs: { items: { value: [1, 2, 3, 4] } }
tools:
  much: { process: [sh, much.sh, "{n}"], sandbox: off, effect: read, input_schema: { type: object, properties: { n: { type: integer } } } }
  tally: { process: [sh, -c, "echo $LOOPFORGE_STEP_TOKEN >>tally.txt; echo {}"], sandbox: off }
loop: { checkpoint_interval: 2 }
subgoals:
  - id: keep
    foreach: { in: inputs.items, as: n }
    steps:
      - { call: much, with: { n: "${ n }" }, save: "kept[string(n)]" }
      - { call: tally }
"#;

/// Text and bytes that are none, different for each number.
const MUCH: &str = r#"
i=0; while [ $i -lt 800 ]; do printf 'line %s of %s, ' $i $1; i=$((i+1)); done
[ "$1" = 1 ] && printf '\377\376\000'
exit 0
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("task.yaml", LARGE);
    place.write("much.sh", MUCH);
    place
}

fn export(place: &Place, run: &str) -> String {
    let said = place.loopforge(&["export", run]);
    assert_eq!(said.code, 0, "{said:?}");
    said.out
}

fn import(place: &Place, text: &str) -> Said {
    place.write("export.jsonl", text);
    place.loopforge(&["import", "export.jsonl", "--json"])
}

fn tallied(place: &Place) -> usize {
    std::fs::read_to_string(place.path().join("tally.txt")).unwrap_or_default().lines().count()
}

#[test]
fn a_run_moves_to_another_store_byte_for_byte_and_goes_on_there() {
    let place = place();
    let status =
        place.command(&["run", "task.yaml"]).env("LOOPFORGE_KILL_AT", "record:20:after").output().unwrap().status;
    assert!(!status.success());
    let done = tallied(&place);
    let run = place.run();
    let exported = export(&place, &run);
    assert!(exported.contains("\"base64\":"), "bytes that are no text are among it");

    let other = Place::new();
    let said = import(&other, &exported);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.json()["run"], run.as_str());
    assert_eq!(export(&other, &run), exported);
    assert_eq!(other.loopforge(&["doctor"]).code, 0);
    // It is refused where it is already, and nothing changes.
    let again = import(&other, &exported);
    assert!(again.code == 2 && again.err.contains("exists already"), "{again:?}");
    assert_eq!(export(&other, &run), exported);

    // It goes on where it is now; what was done is not done again.
    assert_eq!(other.loopforge(&["resume", &run]).code, 0);
    assert_eq!(tallied(&place), 4, "{done} were made before");
    let ended = export(&other, &run);
    let third = Place::new();
    let mut child =
        third.command(&["import"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), ended.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "through a pipe");
    assert_eq!(export(&third, &run), ended);
    assert_eq!(
        third.loopforge(&["state", "get", "kept", "--json"]).out,
        other.loopforge(&["state", "get", "kept", "--json"]).out
    );
}

/// With its own hash made right again, so that the checks behind it are reached.
fn sealed(lines: &[String]) -> String {
    let (end, rest) = lines.split_last().unwrap();
    let mut text: String = rest.iter().map(|line| format!("{line}\n")).collect();
    let mut end: Value = serde_json::from_str(end).unwrap();
    end["end"]["hash"] = blake3::hash(text.as_bytes()).to_hex().as_str().into();
    text.push_str(&format!("{end}\n"));
    text
}

#[test]
fn an_export_that_is_not_whole_is_refused_and_nothing_is_written() {
    let place = place();
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 0);
    let lines: Vec<String> = export(&place, &place.run()).lines().map(str::to_owned).collect();
    let of = |name: &str| lines.iter().position(|line| line.starts_with(&format!("{{\"{name}\""))).unwrap();
    let record = of("record") + 5;
    let changed = |at: usize, from: &str, to: &str| {
        let mut lines = lines.clone();
        assert!(lines[at].contains(from), "{from} in {}", lines[at]);
        lines[at] = lines[at].replacen(from, to, 1);
        lines
    };
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat();
    let plain = |lines: Vec<String>| lines.join("\n") + "\n";
    let cases: Vec<(&str, String, &str)> = vec![
        ("no export", "{}\n".to_owned(), "line 1"),
        ("empty", String::new(), "doesn't begin with a `header`"),
        ("cut off", plain(lines[..lines.len() - 1].to_vec()), "cut off"),
        ("cut off within a line", lines.join("\n")[..3000].to_owned(), "line"),
        ("a later format", plain(changed(0, "\"format\":1", "\"format\":9")), "format 9"),
        ("a changed word", plain(changed(record, "\"at\":1", "\"at\":2")), "the file was changed"),
        ("another task", sealed(&changed(0, "Keep much", "Keep more")), "the task doesn't have the hash"),
        ("another head", sealed(&changed(0, "\"head\":", "\"head\":1")), "is the last"),
        (
            "a run that goes on again",
            sealed(&changed(0, "\"status\":\"succeeded\"", "\"status\":\"running\"")),
            "the header says",
        ),
        ("a missing record", sealed(&without(record)), "must come next"),
        ("a missing blob", sealed(&without(of("blob"))), "blobs"),
        ("another blob", sealed(&changed(of("blob"), "line 7 of", "line 8 of")), "the content of blob"),
        ("something behind the end", plain([&lines[..], &lines[1..2]].concat()), "follows the `end`"),
    ];
    let other = Place::new();
    for (case, text, problem) in cases {
        let said = import(&other, &text);
        assert_eq!(said.code, 2, "{case}: {said:?}");
        assert!(said.err.contains(problem), "{case}: {said:?}");
        assert!(said.json()["error"]["message"].is_string());
        assert!(!other.store().exists(), "{case}: nothing was made");
    }
    let said = other.loopforge(&["import", "nowhere.jsonl"]);
    assert!(said.code == 2 && said.err.contains("nowhere.jsonl"), "{said:?}");
}

/// A damaged run is written out as far as it is whole, and that is no run any more.
#[test]
fn a_damaged_run_is_exported_and_not_imported() {
    let place = place();
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 0);
    rusqlite::Connection::open(place.store())
        .unwrap()
        .execute("update record set note = 'x' where seq = 9", [])
        .unwrap();
    let exported = place.loopforge(&["export"]);
    assert_eq!(exported.code, 5);
    let said = import(&Place::new(), &exported.out);
    assert!(said.code == 2 && said.err.contains("record 9 was damaged"), "{said:?}");
    let told = place.loopforge(&["doctor"]).out;
    assert!(
        told.contains("record 9") && told.contains("`loopforge export` writes it out as far as it is whole"),
        "{told}"
    );
    let listed = place.loopforge(&["ls", "--size"]).out;
    assert!(listed.contains("damaged"), "{listed}");
    let said = place.loopforge(&["gc", "--keep", "0", "--apply"]);
    assert_eq!(said.code, 0, "a damaged run can go: {said:?}");
}

#[test]
fn gc_removes_what_the_rule_says_and_nothing_that_a_resumable_run_needs() {
    let place = place();
    for _ in 0..3 {
        assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 0);
    }
    let killed = place.command(&["run", "task.yaml"]).env("LOOPFORGE_KILL_AT", "record:20:after").output().unwrap();
    assert!(!killed.status.success());
    let open = place.run();
    let sizes = place.loopforge(&["ls", "--size", "--json"]).json();
    for run in sizes["runs"].as_array().unwrap() {
        let size = &run["size"];
        assert!(size["records"].as_u64() > Some(1000) && size["blobs"].as_u64() > Some(1000), "{run}");
    }
    assert!(place.loopforge(&["show", &open, "--size"]).out.contains("in the store: "));
    assert!(place.loopforge(&["doctor"]).out.contains("the largest run is"));

    // Looking changes nothing.
    let before = export(&place, &open);
    for arguments in
        [&["gc"][..], &["gc", "--keep", "1"], &["gc", "--keep", "1", "--dry-run"], &["gc", "--older-than", "30d"]]
    {
        let said = place.loopforge(arguments);
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert_eq!(place.loopforge(&["ls", "--json"]).json()["runs"].as_array().unwrap().len(), 4);
    let expected = place.loopforge(&["gc", "--keep", "1", "--json"]).json();
    assert_eq!((&expected["applied"], expected["runs"].as_array().unwrap().len()), (&false.into(), 2));

    let folders: Vec<String> =
        expected["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect();
    let there = |run: &String| place.path().join(".loopforge/runs").join(run).exists();
    assert!(folders.iter().all(there));
    let done = place.loopforge(&["gc", "--keep", "1", "--files", "--apply", "--json"]).json();
    assert_eq!(done["removed"], expected["removed"], "what it said before");
    assert!(!folders.iter().any(there));
    assert_eq!(place.loopforge(&["ls", "--json"]).json()["runs"].as_array().unwrap().len(), 2);
    assert_eq!(export(&place, &open), before, "the one that can be resumed is as it was");
    assert_eq!(place.loopforge(&["doctor"]).code, 0);
    assert_eq!(place.loopforge(&["resume", &open]).code, 0);

    let all = place.loopforge(&["gc", "--keep", "0", "--apply", "--json"]).json();
    assert_eq!(all["removed"]["runs"], 2);
    let store = rusqlite::Connection::open(place.store()).unwrap();
    for table in ["run", "record", "state", "effect", "blob", "task", "checkpoint"] {
        let rows: i64 = store.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

/// While runs are removed, another process works, with values that the removed runs had, too.
#[test]
fn gc_beside_a_run_that_works_takes_nothing_from_it() {
    let place = place();
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 0);
    let hold = LARGE.replace("      - { call: tally }", "      - { call: tally }\n      - { call: hold }").replace(
        "loop:",
        "  hold: { process: [sh, -c, 'echo >>held; while [ ! -e go ]; do sleep 0.02; done; echo {}'], sandbox: off, effect: read, timeout: 5m }\nloop:",
    );
    place.write("hold.yaml", &hold);
    let mut run = place.command(&["run", "hold.yaml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a held run", || place.path().join("held").exists());
    let said = place.loopforge(&["gc", "--keep", "0", "--apply", "--json"]).json();
    assert_eq!(said["removed"]["runs"], 1);
    place.write("go", "");
    assert!(run.wait().unwrap().success());
    assert_eq!(place.loopforge(&["doctor"]).code, 0);
}
