//! Archives that are damaged, or newer than this program: shown as far as they go.

use rusqlite::{Connection, params};

use super::Place;

fn damaged(sql: &str) -> Place {
    let place = Place::with_small_run();
    // The log first: what is changed then is the database itself.
    let connection = Connection::open(place.store()).unwrap();
    assert!(connection.execute(sql, params![]).unwrap() > 0, "{sql}");
    connection.execute("delete from checkpoint", params![]).unwrap();
    place
}

fn is_shown_beyond(place: &Place, seq: u64, problem: &str) {
    let run = place.run();
    let count =
        usize::try_from(place.loopforge(&["ls", "--json"]).json()["runs"][0]["head"].as_u64().unwrap()).unwrap();
    let said = place.loopforge(&["trace", &run]);
    assert_eq!(said.code, 5, "{said:?}");
    assert_eq!(said.out.lines().count(), count, "{said:?}");
    assert!(said.out.lines().any(|line| line.trim() == format!("{seq}  damaged")), "{said:?}");
    assert!(said.out.contains("run_ended"), "{said:?}");
    assert!(said.err.contains(problem), "{said:?}");

    let shown = place.loopforge(&["show"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.out.contains(&format!("what follows record {} is not shown", seq - 1)), "{shown:?}");
    assert!(shown.out.contains("succeeded"), "{shown:?}");

    let drawn = place.loopforge(&["graph"]);
    assert_eq!(drawn.code, 0, "{drawn:?}");
    assert!(drawn.err.contains(&format!("record {seq} is not drawn")), "{drawn:?}");
    assert!(drawn.out.contains("[2] Grace"), "{drawn:?}");

    let exported = place.loopforge(&["export"]);
    assert_eq!(exported.code, 5, "{exported:?}");
    let lines = exported.json_lines();
    assert!(lines.iter().any(|line| line["unreadable"]["seq"] == seq), "{exported:?}");
    assert_eq!(lines[lines.len() - 1]["end"]["problems"], 1);
    assert_eq!(lines[lines.len() - 1]["end"]["records"], count - 1);
}

#[test]
fn a_damaged_record_is_named_and_passed_over() {
    let place = damaged("update record set body = zeroblob(length(body)) where seq = 5");
    is_shown_beyond(&place, 5, "record 5");
    let said = place.loopforge(&["doctor"]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.out.contains("problem") && said.out.contains("remedy:"), "{said:?}");
    assert_eq!(place.loopforge(&["doctor", "--json"]).json()["ok"], false);
}

#[test]
fn a_newer_record_is_named_and_passed_over() {
    let place = damaged("update record set format = 3 where seq = 6");
    is_shown_beyond(&place, 6, "newer");
}

#[test]
fn missing_records_are_named() {
    let place = damaged("delete from record where seq in (4, 5)");
    let said = place.loopforge(&["trace", &place.run()]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("record 4 of ") && said.err.contains("record 5 of "), "{said:?}");
    assert!(said.out.contains("run_ended"), "{said:?}");

    let place = damaged("delete from record where seq >= 30");
    let said = place.loopforge(&["trace", &place.run()]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("record 30 of ") && said.err.contains("record 31 of "), "{said:?}");
}

#[test]
fn a_missing_task_leaves_the_records_to_be_read() {
    let place = damaged("update task set content = x'00'");
    let shown = place.loopforge(&["show"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.out.contains("problem") && shown.out.contains("ended     succeeded"), "{shown:?}");
    assert_eq!(place.loopforge(&["trace", &place.run()]).code, 0);
    assert!(place.loopforge(&["graph"]).out.contains("[0] Ada"));
    let listed = place.loopforge(&["ls"]);
    assert_eq!(listed.code, 0, "{listed:?}");
}
