//! Disks that are full or can't be written to, under the real command (STO-03). They are small file systems of their own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{kinds, place, positions, records, signal, told};
use crate::look::{Place, Said, until};

/// A file system in memory, gone with this value.
struct Disk(PathBuf);

impl Disk {
    /// Mounts one of `size` where a place's store will be.
    fn under(place: &Place, size: &str) -> Self {
        let folder = place.path().join(".loopforge");
        std::fs::create_dir_all(&folder).unwrap();
        let disk = Self(folder);
        let mounted = disk.mount(&format!("size={size}"));
        assert!(
            mounted,
            "this test mounts a small file system, so it must run as root, or in a user namespace: `unshare -rm`"
        );
        disk
    }

    fn mount(&self, options: &str) -> bool {
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.0).status().unwrap().success()
    }

    fn remount(&self, options: &str) {
        assert!(self.mount(&format!("remount,{options}")));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Twenty steps, each with an effect and a large value that doesn't compress.
const LARGE: &str = r#"
inputs: { items: { value: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20] } }
tools:
  TOOLS
  noise: { process: [sh, -c, "head -c 150000 /dev/urandom | base64 -w0 | sed 's/.*/\"&\"/'"], sandbox: off, effect: read }
subgoals:
  - id: all
    foreach: { in: inputs.items, as: n }
    steps:
      - { call: noise, save: "kept[string(n)]" }
      - { call: tally, with: { text: "${ string(n) }" } }
"#;

fn numbers() -> Vec<String> {
    (1..=20).map(|number| number.to_string()).collect()
}

/// Starts the run, and reads what it says until it says `cause`.
fn until_said(
    mut run: Child,
    cause: &str,
) -> (Child, Vec<String>, std::io::Lines<BufReader<std::process::ChildStderr>>) {
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    for line in lines.by_ref() {
        said.push(line.unwrap());
        if said[said.len() - 1].contains("nothing is done until this is archived") {
            break;
        }
    }
    assert!(said.last().is_some_and(|line| line.contains(cause)), "{cause}: {said:?}");
    (run, said, lines)
}

fn started(place: &Place) -> Child {
    place.command(&["run", "task.yaml"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// While the disk is full no call is made, the cause is told, and looking works; once there is room, the same process goes on.
#[test]
fn a_full_disk_stops_the_work_and_room_lets_it_go_on() {
    let place = place(LARGE);
    let disk = Disk::under(&place, "1500k");
    let (mut run, _, lines) = until_said(started(&place), "the store is full");
    let made = told(&place);
    assert!(!made.is_empty() && made.len() < 20, "{made:?}");
    // What was archived can be read: every effect that was made was announced there before.
    let id = place.run();
    let archived = records(&place, &id);
    assert_eq!(positions(&archived, "action_started").len(), made.len());
    assert_eq!(told(&place), made, "nothing more was done");

    disk.remount("size=60m");
    let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert!(run.wait().unwrap().success(), "{rest:?}");
    assert_eq!(told(&place), numbers());
    let all = records(&place, &id);
    assert_eq!(all[..archived.len()], archived[..], "what was archived stays");
    assert!(!kinds(&all).contains(&"run_resumed"), "it was the same process");
    assert_eq!(place.loopforge(&["doctor"]).code, 0);
}

/// A person who can't make room at once ends the process; it says what is wrong, and the run goes on later, with every effect once.
#[test]
fn a_run_that_is_interrupted_on_a_full_disk_loses_nothing() {
    let place = place(LARGE);
    let disk = Disk::under(&place, "1500k");
    let (mut run, _, lines) = until_said(started(&place), "the store is full");
    signal("-INT", run.id());
    let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert_eq!(run.wait().unwrap().code(), Some(5), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("make room")), "{rest:?}");

    // Nor can anything else be begun.
    let said = place.loopforge(&["resume"]);
    assert!(said.code == 5 && said.err.contains("full"), "{said:?}");
    disk.remount("size=60m");
    let mut said = place.loopforge(&["resume", "--json"]);
    if said.code == 3 {
        // The last effect was made and could not be archived; whoever looks at its target sees it.
        let lines = said.json_lines();
        let question = &lines[lines.len() - 1]["end"]["questions"][0];
        let asked = question["text"].as_str().or(question["question"].as_str()).unwrap_or_default().to_owned();
        let happened = told(&place).iter().any(|text| asked.contains(&format!("\"text\":\"{text}\"")));
        let answer = if happened { "--happened" } else { "--not" };
        assert_eq!(place.loopforge(&["resolve", &place.run(), &question["step"].to_string(), answer]).code, 0);
        said = place.loopforge(&["resume"]);
    }
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(told(&place), numbers(), "every effect once");
    assert_eq!(place.loopforge(&["doctor"]).code, 0);
}

/// A file system that has turned read-only, as Linux does after an error of the disk: looking works, nothing is begun, and the cause is
/// told. Once it can be written to, the run goes on.
#[test]
fn a_read_only_disk_stops_the_work_and_a_writable_one_lets_it_go_on() {
    let place = place(&LARGE.replace("      - { call: tally", "      - { call: hold, when: n == 3 }\n      - { call: tally").replace(
        "  noise:",
        "  hold: { process: [sh, -c, \"touch held; while [ ! -e go ]; do sleep 0.02; done; echo {}\"], sandbox: off, effect: read, timeout: 5m }\n  noise:",
    ));
    let disk = Disk::under(&place, "60m");
    let mut run = started(&place);
    until("the third item", || place.path().join("held").exists());
    run.kill().unwrap();
    run.wait().unwrap();
    let before = records(&place, &place.run());
    disk.remount("ro");
    place.write("go", "");
    let looked: Vec<Said> = [&["show"][..], &["ls"], &["trace", "--last"]].map(|look| place.loopforge(look)).into();
    assert!(looked.iter().all(|said| said.code == 0), "{looked:?}");
    for arguments in
        [&["run", "task.yaml"][..], &["resume"], &["gc", "--keep", "0", "--apply"], &["state", "set", "a", "1"]]
    {
        let said = place.loopforge(arguments);
        assert!(said.code == 5 && said.err.contains("read-only") && said.err.contains("hint: "), "{said:?}");
    }
    let said = place.loopforge(&["doctor"]);
    assert!(said.code == 5 && said.out.contains("can't be written to"), "{said:?}");
    assert_eq!(told(&place), ["1", "2"], "nothing was done");
    assert_eq!(records(&place, &place.run()), before);

    disk.remount("rw");
    assert_eq!(place.loopforge(&["resume"]).code, 0);
    assert_eq!(told(&place), numbers());
    assert_eq!(place.loopforge(&["doctor"]).code, 0);
}
