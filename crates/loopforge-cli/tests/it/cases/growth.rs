//! Long runs.

use std::fmt::Write as _;
use std::time::Duration;

use rusqlite::Connection;

use super::place;
use crate::look::{Place, Said, until};

/// The numbers from 1, as a list of a task file.
fn numbers(count: u64) -> String {
    (1..=count).fold(String::new(), |mut list, number| {
        let _ = write!(list, "{number},");
        list
    })
}

fn stored(place: &Place) -> u64 {
    std::fs::metadata(place.store()).unwrap().len()
}

/// CKP-10: a fresh 20 KB result each step that nothing can shrink. The store grows with what is new.
#[test]
fn four_hundred_steps_cost_twice_what_two_hundred_do() {
    const NEW: u64 = 15_000;
    let place = place(&format!(
        r#"
inputs: {{ items: {{ value: [{}] }} }}
loop: {{ max_steps: 100 }}
tools:
  page: {{ process: [sh, -c, "head -c {NEW} /dev/urandom | base64 -w0"], sandbox: off, effect: read }}
subgoals:
  - id: fetch
    foreach: {{ in: inputs.items, as: item }}
    steps: [{{ call: page, save: 'pages[string(item)]' }}]
"#,
        numbers(400)
    ));
    assert_eq!(place.loopforge(&["run", "task.yaml"]).code, 4);
    let at_100 = stored(&place);
    assert_eq!(place.loopforge(&["resume", "--max-steps", "200"]).code, 4);
    let at_200 = stored(&place);
    assert_eq!(place.loopforge(&["resume", "--max-steps", "1000"]).code, 0);
    let at_400 = stored(&place);
    // Base64 can be shrunk to what it is made of, and not below.
    assert!(at_100 > 100 * NEW, "{at_100}");
    let (second, third) = (at_200 - at_100, (at_400 - at_200) / 2);
    for (what, grown) in [("the first", at_100), ("the second", second), ("each of the last two", third)] {
        assert!(grown < 100 * NEW * 13 / 10, "{what} hundred steps: {grown} bytes");
    }
    assert!(third * 10 <= second * 11, "{at_100}, {at_200}, {at_400} bytes");
}

/// A task with `steps` small steps and `large` results of 10 MB, and then a wait.
fn long(steps: u64, large: u64) -> Place {
    place(&format!(
        r#"
inputs:
  items: {{ value: [{}] }}
  large: {{ value: [{}] }}
loop: {{ max_steps: 1000000, checkpoint_interval: 1000 }}
tools:
  large: {{ process: [sh, -c, "head -c 10000000 /dev/zero | tr '\\0' x; cat"], sandbox: off, effect: read, input_schema: {{ type: object }} }}
subgoals:
  - id: small
    foreach: {{ in: inputs.items, as: item }}
    steps: [{{ set: {{ newest: "${{ item }}" }} }}]
  - id: large
    needs: [small]
    foreach: {{ in: inputs.large, as: item }}
    steps: [{{ call: large, with: {{ n: "${{ item }}" }}, save: large }}]
  - id: wait
    needs: [large]
    steps: [{{ wait: 1h }}]
"#,
        numbers(steps),
        numbers(large)
    ))
}

fn head(place: &Place) -> u64 {
    place.loopforge(&["ls", "--json"]).json()["runs"][0]["head"].as_u64().unwrap()
}

/// Runs until the wait, and dies there.
fn run_to_the_wait(place: &Place) {
    let mut run = super::spawned(place, &["run", "task.yaml"]);
    let waits = || place.loopforge(&["ls", "--json"]).out.contains(r#""status":"waiting""#);
    while !place.store().exists() || !waits() {
        assert!(run.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    run.kill().unwrap();
    run.wait().unwrap();
}

/// Resumes with at most `megabytes` of address space, until the run waits; returns the most memory that it had, in kilobytes.
fn resumed_within(place: &Place, megabytes: u64) -> u64 {
    let plain = place.command(&["resume"]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("ulimit -v {}; exec \"$0\" resume", megabytes * 1024)]).arg(plain.get_program());
    command.current_dir(place.path()).stdin(std::process::Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // The C library sets 64 MB of addresses aside for each thread that allocates, used or not: that is no memory.
    command.env("MALLOC_ARENA_MAX", "2");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let before = head(place);
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    // Being taken up is the only thing that can be added while it waits.
    until("the wait", || head(place) > before || child.try_wait().unwrap().is_some());
    let status = std::fs::read_to_string(status).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    let _ = child.kill();
    let said = Said::of(child.wait_with_output().unwrap());
    peak.unwrap_or_else(|| panic!("{said:?}"))
}

/// With three records each, and those of the large results, more than a hundred thousand records.
const STEPS: u64 = 34_000;

/// CKP-11: a hundred thousand records and 600 MB of results, resumed within 512 MB of address space; with its newest checkpoint, and
/// from its first record when there is none. What memory it takes doesn't depend on the length.
#[test]
fn a_very_long_archive_is_resumed_in_little_memory() {
    let short = long(10, 1);
    run_to_the_wait(&short);
    let usual = resumed_within(&short, 512);

    let place = long(STEPS, 60);
    run_to_the_wait(&place);
    let records = head(&place);
    assert!(records > 100_000, "{records}");
    let with_checkpoint = resumed_within(&place, 512);
    Connection::open(place.store()).unwrap().execute("delete from checkpoint", []).unwrap();
    let without = resumed_within(&place, 512);
    for peak in [with_checkpoint, without] {
        assert!(peak < usual + 150_000, "{peak} kB, and {usual} kB for a short run");
    }
}
