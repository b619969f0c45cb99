//! Workers killed again and again.

use std::time::{Duration, Instant};

use super::{Fleet, wait_for};

/// Two writes: one that may be made again with its token, one that can be asked for.
const TASK: &str = r#"
name: storm
goal: Append two lines, and neither twice.
tools:
  repeatable:
    process: [sh, tally.sh, idempotent, "{text}"]
    idempotent: true
    retry: { max_attempts: 50, backoff: [10ms] }
    sandbox: off
  askable:
    process: [sh, tally.sh, plain, "{text}"]
    status: { process: [sh, tally.sh, status, "{text}"] }
    retry: { max_attempts: 50, backoff: [10ms] }
    sandbox: off
subgoals:
  - id: write
    steps:
      - { call: repeatable, with: { text: first }, save: first }
      - { call: askable, with: { text: second } }
"#;

fn fleet() -> Fleet {
    let fleet = Fleet::new(&[("task.yaml", TASK), ("tally.sh", include_str!("../crash/tally.sh"))]);
    std::fs::create_dir(fleet.path().join("out")).unwrap();
    fleet
}

/// R17, R40, R67, QUE: a worker is killed every second while two of them carry out 200 runs. Every run ends, and no effect is made
/// twice.
#[test]
fn a_worker_killed_every_second_loses_no_run_and_repeats_no_effect() {
    const RUNS: usize = 200;
    let fleet = fleet();
    let runs = fleet.queue("task.yaml", RUNS);
    let mut workers = [fleet.worker("here"), fleet.worker("here")];
    let (begun, mut kills) = (Instant::now(), 0);
    while fleet.is_busy() {
        assert!(begun.elapsed() < Duration::from_secs(280), "the runs don't end");
        std::thread::sleep(Duration::from_secs(1));
        // Killed by what stands behind it, and another takes its place.
        workers[kills % 2] = fleet.worker("here");
        kills += 1;
    }
    fleet.assert_succeeded(&runs);
    let tally = fleet.tally();
    let twice: Vec<_> = tally.iter().filter(|(_, times)| **times > 1).collect();
    assert_eq!((tally.len(), twice), (RUNS * 2, Vec::new()), "after {kills} kills");
    assert!(kills > 3, "it was over too soon to tell anything: {kills}");
}

/// Killed between a call and the record of its outcome; another worker goes on from there once the lease has lapsed.
#[test]
fn another_worker_goes_on_with_the_run_of_one_that_was_killed() {
    for place in ["call:1:before", "call:1:after", "call:2:after", "record:2:after", "record:4:before"] {
        let fleet = fleet();
        let run = fleet.queue("task.yaml", 1)[0];
        let killed =
            fleet.command("one", &["worker", "--until-idle"]).env("LOOPFORGE_KILL_AT", place).status().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed), Some(9), "{place}");
        let before = fleet.records(run);
        fleet.worker("other").ends();
        fleet.assert_succeeded(&[run]);
        assert_eq!(fleet.records(run)[..before.len()], before, "{place}: what was recorded stays");
        assert_eq!(fleet.tally().values().collect::<Vec<_>>(), [&1, &1], "{place}");
    }
}

/// What `run --detach` says is what a worker carries out; one that is asked to stop leaves its runs to others.
#[test]
fn a_detached_run_is_carried_out_by_whatever_worker_comes() {
    let fleet = fleet();
    let task = fleet.path().join("task.yaml");
    let mut detach = fleet.command("here", &["run", task.to_str().unwrap(), "--detach"]);
    let said = detach.stdout(std::process::Stdio::piped()).output().unwrap();
    assert!(said.status.success());
    let run = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(fleet.status(run), loopforge_core::record::RunStatus::Queued);
    let worker = fleet.worker("here");
    worker.ends();
    fleet.assert_succeeded(&[run]);
    assert_eq!(fleet.tally().len(), 2);

    // Looking is the same as with a file.
    let id = run.to_string();
    for look in [&["ls"][..], &["show"], &["effects"], &["trace", &id], &["state", &id], &["graph"], &["export"]] {
        let said = fleet.command("here", look).stdout(std::process::Stdio::piped()).output().unwrap();
        assert!(said.status.success() && !said.stdout.is_empty(), "{look:?}");
    }
    let said = fleet.command("here", &["doctor"]).stdout(std::process::Stdio::piped()).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success() && text.contains("PostgreSQL 1") && text.contains("no damage"), "{text}");

    // One without an end: it stops when it is told to, in order.
    let staying = super::Worker(fleet.command("here", &["worker"]).spawn().unwrap());
    let next = fleet.queue("task.yaml", 3);
    wait_for("the runs end", || !fleet.is_busy());
    staying.signal("-TERM");
    staying.ends();
    fleet.assert_succeeded(&next);
}
