//! Stores that fail, break off, or come from another version; readers that stay.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rusqlite::Connection;

use super::{killed, kinds, place, positions, records, told};
use crate::look::{Place, until};

/// STO-03, STO-06: while another program locks the store for longer than is waited for, no call is made, and the fault is in nobody's
/// result; once it is free, the run goes on.
#[test]
fn a_locked_store_stops_the_work_and_is_no_result() {
    let place = place(
        r#"
tools:
  TOOLS
  hold: { process: [sh, -c, "touch held; while [ ! -e go ]; do sleep 0.05; done"], sandbox: off, effect: read, timeout: 5m }
subgoals:
  - id: tell
    steps:
      - { call: hold }
      - { call: tally, with: { text: first } }
      - { call: tally, with: { text: second } }
"#,
    );
    let mut run = place.command(&["run", "task.yaml"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("a held call", || place.path().join("held").exists());
    let other = Connection::open(place.store()).unwrap();
    other.execute_batch("begin immediate").unwrap();
    place.write("go", "");
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let warned = lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("until this is archived"));
    assert!(warned.is_some_and(|line| line.contains("locked") && line.contains("not available")), "the right cause");
    assert_eq!(told(&place), [""; 0]);
    other.execute_batch("rollback").unwrap();
    let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert!(run.wait().unwrap().success(), "{rest:?}");
    assert_eq!(told(&place), ["first", "second"]);
    let all = records(&place, &place.run());
    assert_eq!(positions(&all, "attempt_failed").len() + positions(&all, "run_resumed").len(), 0);
    assert!(
        all.iter().filter(|record| record["kind"] == "action_finished").all(|one| one["result"]["code"] == "success")
    );
}

const READS: &str = "
inputs: { items: { value: [1, 2, 3, 4] } }
tools:
  look: { process: [echo, '{}'], sandbox: off, effect: read }
loop: { checkpoint_interval: 2 }
subgoals:
  - id: look
    foreach: { in: inputs.items, as: item }
    steps: [{ call: look, save: 'seen[string(item)]' }]
";

/// CKP-02: the log breaks off in the middle of the last record. What was whole before it is there, however often the next processes
/// die before they have written anything, and the run ends as if nothing had happened.
#[test]
fn a_log_that_breaks_off_loses_its_last_record_only() {
    let undisturbed = place(READS);
    assert_eq!(undisturbed.loopforge(&["run", "task.yaml"]).code, 0);
    let recorded = records(&undisturbed, &undisturbed.run());

    let place = place(READS);
    let at = positions(&recorded, "action_finished")[2];
    killed(&place, &["run", "task.yaml"], &format!("record:{at}:after"));
    let log = place.path().join(".loopforge/loopforge.db-wal");
    let file = OpenOptions::new().write(true).open(&log).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(size - 1000).unwrap();
    drop(file);
    for _ in 0..3 {
        killed(&place, &["resume"], "record:2:before");
        let left = records(&place, &place.run());
        assert!(left.len() as u64 >= at / 2 && (left.len() as u64) < at, "{} records of {at}", left.len());
        assert_eq!(kinds(&left), kinds(&recorded)[..left.len()]);
        let looked = place.loopforge(&["doctor"]);
        assert_eq!(looked.code, 0, "{looked:?}");
    }
    let said = place.loopforge(&["resume"]);
    assert_eq!(said.code, 0, "{said:?}");
    let all = records(&place, &place.run());
    let path: Vec<_> = kinds(&all).into_iter().filter(|kind| *kind != "run_resumed").collect();
    assert_eq!(path, kinds(&recorded));
}

/// A run that was killed after its second step.
fn half_done() -> Place {
    let place = place(READS);
    killed(&place, &["run", "task.yaml"], "record:12:after");
    place
}

fn change(place: &Place, sql: &str) {
    let connection = Connection::open(place.store()).unwrap();
    assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
}

/// CKP-07: what can't be read stops the run by name, each time, and nothing is put in its place.
#[test]
fn records_that_cannot_be_read_stop_a_resume_and_change_nothing() {
    for (spoil, mend, problem) in [
        ("update record set format = 3 where seq = 4", Some("update record set format = 2 where seq = 4"), "newer"),
        (
            "update record set kind = (select number from kind where name = 'run_paused') where seq = 4",
            None,
            "record 4",
        ),
        ("update record set body = zeroblob(length(body)) where seq = 4", None, "record 4"),
    ] {
        let place = half_done();
        Connection::open(place.store()).unwrap().execute("delete from checkpoint", []).unwrap();
        change(&place, spoil);
        let run = place.run();
        let head = || place.loopforge(&["ls", "--json"]).json()["runs"][0]["head"].clone();
        let before = head();
        for _ in 0..3 {
            let said = place.loopforge(&["resume", &run]);
            assert_eq!(said.code, 5, "{spoil}: {said:?}");
            assert!(said.err.contains(problem), "{spoil}: {said:?}");
            assert_eq!(head(), before);
        }
        if let Some(mend) = mend {
            change(&place, mend);
            assert_eq!(place.loopforge(&["resume", &run]).code, 0);
        }
    }
}

/// CKP-07: a checkpoint is a shortcut. One that can't be read is passed over, and the run goes on from its records.
#[test]
fn a_damaged_checkpoint_costs_time_only() {
    for spoil in [
        "update checkpoint set content = zeroblob(length(content))",
        "update checkpoint set content = substr(content, 1, length(content) / 2)",
    ] {
        let place = half_done();
        let count: i64 = Connection::open(place.store())
            .unwrap()
            .query_row("select count(*) from checkpoint", [], |row| row.get(0))
            .unwrap();
        assert!(count > 0, "there is one to be spoilt");
        change(&place, spoil);
        let said = place.loopforge(&["resume"]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.err.contains("from the first record"), "{said:?}");
        let seen = place.loopforge(&["state", &place.run(), "get", "seen", "--json"]).json();
        assert_eq!(seen.as_object().unwrap().len(), 4);
    }
}

/// STO-02: somebody watches all the time, and the log stays small while a hundred megabytes are written.
#[test]
fn the_log_stays_small_while_somebody_watches() {
    const MEGABYTES: u64 = 100;
    const BOUND: u64 = 40 << 20;
    let items: Vec<String> = (1..=MEGABYTES).map(|item| item.to_string()).collect();
    let place = place(&format!(
        r#"
inputs: {{ items: {{ value: [{}] }} }}
loop: {{ max_steps: 1000 }}
tools:
  bytes: {{ process: [sh, -c, "head -c 750000 /dev/urandom | base64 -w0"], sandbox: off, effect: read }}
subgoals:
  - id: fetch
    foreach: {{ in: inputs.items, as: item }}
    steps: [{{ call: bytes, save: 'pages[string(item)]' }}]
"#,
        items.join(", ")
    ));
    let mut run = super::spawned(&place, &["run", "task.yaml"]);
    until("a run", || place.loopforge(&["ls"]).out.contains("running"));
    let mut watch = super::spawned(&place, &["watch"]);
    let log = place.path().join(".loopforge/loopforge.db-wal");
    let mut largest = 0;
    while run.try_wait().unwrap().is_none() {
        largest = largest.max(std::fs::metadata(&log).map_or(0, |log| log.len()));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(run.wait().unwrap().success());
    assert!(watch.wait().unwrap().success());
    assert!(largest > 0 && largest < BOUND, "{largest} bytes");
    let stored = std::fs::metadata(place.store()).unwrap().len();
    assert!(stored > MEGABYTES * 700_000, "{stored} bytes");
    let left = std::fs::metadata(&log).map_or(0, |log| log.len());
    assert!(left < 20 << 20, "{left} bytes are left");
}
