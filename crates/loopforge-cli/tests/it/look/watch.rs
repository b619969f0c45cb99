//! Following another process, and what is left of one that was killed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use super::{Place, Said, until};

/// Its tool works until there is a file `go`.
const TASK: &str = r#"
name: slow
goal: Wait for the word.
tools:
  wait:
    description: Waits.
    process: [sh, -c, "while [ ! -e go ]; do sleep 0.05; done"]
    sandbox: off
    # A write is archived before it is made, so that others see it; this one can be made again.
    effect: write
    idempotent: true
    timeout: 5m
    input_schema: { type: object }
subgoals:
  - id: wait
    steps:
      - call: wait
"#;

fn started(place: &Place, lease: &str) -> Child {
    place.write("task.yaml", TASK);
    let child = place
        .command(&["run", "task.yaml"])
        .env("LOOPFORGE_LEASE_SECONDS", lease)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("a step", || {
        place.loopforge(&["ls"]).out.contains("slow")
            && place.loopforge(&["trace", &place.run()]).out.contains("action_started")
    });
    child
}

#[test]
fn another_process_is_followed_to_its_end() {
    let place = Place::new();
    let mut run = started(&place, "60");
    assert!(place.loopforge(&["ls"]).out.contains("running"));
    let mut watch = place.command(&["watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    while !seen.iter().any(|line: &String| line.contains("action_started")) {
        seen.push(lines.next().unwrap().unwrap());
    }
    // It doesn't hold up the one that it watches.
    place.write("go", "");
    assert!(run.wait().unwrap().success());
    seen.extend(lines.map(|line| line.unwrap()));
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    let all = place.loopforge(&["trace", &place.run(), "--json"]).out;
    assert_eq!(seen, all.lines().collect::<Vec<_>>());

    // What has ended is told, and that was all.
    let said = place.loopforge(&["watch"]);
    assert_eq!(said.code, 0, "{said:?}");
    insta::assert_snapshot!("watch", place.masked(&said.out));
}

/// The lease lasts for minutes, but the process is gone, and everybody says so at once.
#[test]
fn a_killed_run_is_interrupted_at_once_on_the_same_machine() {
    let place = Place::new();
    let mut run = started(&place, "600");
    let pid = run.id();
    assert!(place.loopforge(&["ls"]).out.contains("running"));
    run.kill().unwrap();
    run.wait().unwrap();
    let id = place.run();
    let listed = place.loopforge(&["ls"]).out;
    let resume = format!("loopforge resume {} (process {pid} is gone)", &id[id.len() - 6..]);
    assert!(listed.contains("interrupted") && listed.contains(&resume), "{listed}");
    let shown = place.loopforge(&["show"]).out;
    assert!(shown.contains(&format!("owner     none: process {pid} is gone")), "{shown}");
    assert!(shown.contains(&format!("go on with: loopforge resume {id}")), "{shown}");
    assert!(place.loopforge(&["doctor"]).out.contains("remedy:  loopforge resume --all"));
    let document = place.loopforge(&["show", "--json"]).json();
    assert_eq!((&document["owner"], &document["status"]), (&serde_json::Value::Null, &"interrupted".into()));
    let mut watch = place.command(&["watch"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(watch.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let told = said.into_iter().find(|line| line.contains("nobody works on it")).unwrap();
    assert!(told.contains(&format!("(interrupted: process {pid} is gone)")), "{told}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    place.write("go", "");
    assert_eq!(place.loopforge(&["resume"]).code, 0);
}

#[test]
fn ending_a_watch_leaves_the_run_alone() {
    let place = Place::new();
    let mut run = started(&place, "60");
    let mut watch = place.command(&["watch"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(watch.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("started    slow"), "{line}");
    let pid = watch.id().to_string();
    // The signal may come before the watch listens for it; then it ends it all the same.
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let code = watch.wait().unwrap().code();
    assert!(matches!(code, Some(130) | None), "{code:?}");
    assert!(place.loopforge(&["ls"]).out.contains("running"));
    place.write("go", "");
    assert!(run.wait().unwrap().success());
}

#[test]
fn a_killed_run_is_interrupted_once_its_lease_has_lapsed() {
    let place = Place::new();
    let mut run = started(&place, "0.5");
    run.kill().unwrap();
    run.wait().unwrap();
    until("the end of the lease", || place.loopforge(&["ls"]).out.contains("interrupted"));
    let id = place.run();
    let listed = place.loopforge(&["ls"]).out;
    assert!(listed.contains(&format!("loopforge resume {}", &id[id.len() - 6..])), "{listed}");
    let shown = place.loopforge(&["show"]).out;
    assert!(shown.contains(&format!("go on with: loopforge resume {id}")), "{shown}");
    assert!(place.loopforge(&["doctor"]).out.contains("remedy:  loopforge resume --all"));

    // A watch says why nothing comes, and follows whoever takes it up.
    let watch = place.command(&["watch"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    place.write("go", "");
    assert_eq!(place.loopforge(&["resume"]).code, 0);
    let said = Said::of(watch.wait_with_output().unwrap());
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("resumed    "), "{said:?}");
    assert!(said.out.contains("succeeded  "), "{said:?}");
}
