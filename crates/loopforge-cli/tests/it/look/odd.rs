//! Results that are large, binary, or written to move a terminal; readers that go away.

use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use super::Place;

const TASK: &str = r#"
name: odd
goal: Look at odd results.
inputs:
  kinds: { value: [escape, binary, "big\e[2J\u009b31m", fail] }
tools:
  odd:
    description: Prints something odd.
    process: [sh, odd.sh, "{kind}"]
    sandbox: off
    effect: read
    input_schema: { type: object, properties: { kind: { type: string } } }
subgoals:
  - id: fetch
    foreach: { in: inputs.kinds, as: kind }
    steps:
      - call: odd
        with: { kind: "${ kind }" }
        save: "results[kind]"
    on_failure: defer
"#;

const ODD: &str = r#"
case "$1" in
  escape) printf '\033[2J\033]0;owned\007 hello \342\200\256 evil \302\233 \000 end\r' ;;
  binary) head -c 4096 /dev/zero | tr '\0' '\220' ;;
  big*) head -c 50000000 /dev/zero | tr '\0' 'x' ;;
  fail) printf '\033[31mno such thing\033[0m\n' >&2; exit 1 ;;
esac
"#;

#[test]
fn nothing_moves_the_terminal_and_nobody_is_flooded() {
    let place = Place::new();
    place.write("odd.sh", ODD);
    place.write("task.yaml", TASK);
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.is_safe(), "{said:?}");
    let run = place.run();
    let run = run.as_str();
    let commands: Vec<Vec<&str>> = vec![
        vec!["ls"],
        vec!["show"],
        vec!["graph"],
        vec!["graph", "--format", "mermaid"],
        vec!["graph", "--format", "dot"],
        vec!["trace", run],
        vec!["trace", run, "1"],
        vec!["trace", run, "2"],
        vec!["trace", run, "3"],
        vec!["trace", run, "4"],
        vec!["state", run],
        vec!["state", run, "get", "results", "escape"],
        vec!["state", run, "get", "results", "binary"],
        vec!["effects", run],
        vec!["watch", run],
    ];
    for mut command in commands {
        let said = place.loopforge(&command);
        assert_eq!(said.code, 0, "{command:?}: {}", said.err);
        assert!(said.is_safe(), "{command:?}: {said:?}");
        assert!(said.out.len() < 30_000, "{command:?} says {} bytes", said.out.len());
        if command.contains(&"--format") || command.contains(&"3") {
            continue;
        }
        command.push("--json");
        let said = place.loopforge(&command);
        assert_eq!(said.code, 0, "{command:?}: {}", said.err);
        assert!(said.is_safe(), "{command:?}: {said:?}");
        assert!(!said.json_lines().is_empty(), "{command:?}");
    }
    // For programs, the text is the one that came, but for NUL, which no archive holds.
    let value = place.loopforge(&["state", run, "get", "results", "escape", "--json"]).json();
    let text = "\u{1b}[2J\u{1b}]0;owned\u{7} hello \u{202e} evil \u{9b} \u{2400} end\r";
    assert_eq!(value, json!({ "text": text }));
    let full = place.loopforge(&["trace", run, "3", "--full"]);
    assert!(full.out.len() > 50_000_000 && full.is_safe(), "{}", full.out.len());

    // A reader that has seen enough is no reason to panic.
    for arguments in [&["export"][..], &["trace", run, "3", "--full"], &["state", run, "--json"]] {
        let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}
