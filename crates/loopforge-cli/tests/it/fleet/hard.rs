//! Failures that look like something else: a worker that is stopped and comes back, one that is cut off, one whose clock is wrong.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use loopforge_testing::postgres::{Server, with_schema};

use super::{Fleet, LEASE, Worker, wait_for};

/// A command that takes as long as the test wants. It says when it began and that it lives, and tells the tally once for a token.
const SLOW: &str = r#"
set -eu
echo "$$" >>out/begun
while [ ! -e out/go ]; do touch "out/alive-$$"; sleep 0.05; done
exec 9>>out/lock
flock 9
grep -q "^$LOOPFORGE_STEP_TOKEN" out/tally.txt 2>/dev/null || echo "$LOOPFORGE_STEP_TOKEN" >>out/tally.txt
echo '{}'
"#;

const TASK: &str = "
name: slow
goal: Do something that takes its time, once.
tools:
  slow:
    process: [sh, slow.sh]
    idempotent: true
    timeout: 60s
    sandbox: off
subgoals: [{ id: a, steps: [{ call: slow }] }]
";

fn fleet(url: Option<String>) -> Fleet {
    let files = [("task.yaml", TASK), ("slow.sh", SLOW)];
    let fleet = match url {
        Some(url) => Fleet::on(url, &files),
        None => Fleet::new(&files),
    };
    std::fs::create_dir(fleet.path().join("out")).unwrap();
    fleet
}

impl Fleet {
    /// The processes of the command, in the order in which they began.
    fn processes(&self) -> Vec<String> {
        let begun = std::fs::read_to_string(self.path().join("out/begun")).unwrap_or_default();
        begun.lines().map(str::to_owned).collect()
    }

    /// How often the command was begun.
    fn begun(&self) -> usize {
        self.processes().len()
    }

    fn go(&self) {
        std::fs::write(self.path().join("out/go"), "").unwrap();
    }

    /// When the first process of the command last showed that it lives.
    fn first_alive(&self) -> Option<SystemTime> {
        let alive = format!("out/alive-{}", self.processes().first()?);
        std::fs::metadata(self.path().join(alive)).ok()?.modified().ok()
    }
}

/// A worker that was stopped inside a call, for longer than its lease, finds its run taken over: its first append is refused, and it
/// does nothing more for it.
#[test]
fn a_worker_that_was_stopped_past_its_lease_is_refused() {
    let fleet = fleet(None);
    let run = fleet.queue("task.yaml", 1)[0];
    let stopped = fleet.worker("one");
    wait_for("the call begins", || fleet.begun() == 1);
    stopped.signal("-STOP");
    let other = fleet.worker("other");
    wait_for("the other takes it up", || fleet.begun() == 2);
    fleet.go();
    other.ends();
    fleet.assert_succeeded(&[run]);
    let records = fleet.records(run);
    stopped.signal("-CONT");
    stopped.ends();
    assert_eq!(fleet.records(run), records, "it wrote nothing more");
    assert_eq!((fleet.count(run, "run_resumed"), fleet.begun()), (2, 2));
    // The command ran twice, with the same token: so it happened once.
    assert_eq!(fleet.tally().values().collect::<Vec<_>>(), [&1]);
}

/// Times come from the database, so a worker whose clock is an hour off takes nothing early and keeps nothing long.
#[test]
fn a_wrong_clock_neither_takes_runs_early_nor_keeps_them_long() {
    let Some(library) = faketime() else {
        eprintln!(
            "NOT TESTED: libfaketime isn't installed (Debian: `apt-get install faketime`), so no clock can be wrong here"
        );
        return;
    };
    let task = "
name: short
goal: Append a line.
tools: { tally: { process: [sh, tally.sh, plain, x], sandbox: off } }
subgoals: [{ id: a, steps: [{ call: tally }] }]
";
    let fleet = Fleet::new(&[("task.yaml", task), ("tally.sh", include_str!("../crash/tally.sh"))]);
    std::fs::create_dir(fleet.path().join("out")).unwrap();
    let runs = fleet.queue("task.yaml", 24);
    let skewed = |machine: &str, offset: &str| {
        let mut command = fleet.command(machine, &["worker", "--until-idle", "--parallel", "2"]);
        command.env("LD_PRELOAD", &library).env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Worker(command.spawn().unwrap())
    };
    let workers = [skewed("ahead", "+1h"), skewed("behind", "-1h"), fleet.worker("right")];
    for worker in workers {
        worker.ends();
    }
    fleet.assert_succeeded(&runs);
    assert_eq!(fleet.tally().len(), runs.len());
    for run in &runs {
        assert_eq!(fleet.count(*run, "run_resumed"), 1, "{run} was taken up once");
    }
}

fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join("faketime/libfaketime.so.1")).find(|path| path.is_file())
}

/// A network of its own for one worker, gone with this value.
struct Cable {
    name: String,
}

impl Cable {
    /// None where this process may not make one; the reason is told.
    fn lay(number: u8) -> Option<Self> {
        let cable = Self { name: format!("lf{}x{number}", std::process::id() % 10_000) };
        let name = &cable.name;
        let steps = [
            format!("netns add {name}"),
            format!("link add {name}a type veth peer name {name}b"),
            format!("link set {name}b netns {name}"),
            format!("addr add 10.213.{number}.1/24 dev {name}a"),
            format!("link set {name}a up"),
            format!("-n {name} addr add 10.213.{number}.2/24 dev {name}b"),
            format!("-n {name} link set {name}b up"),
        ];
        for step in steps {
            let made = Command::new("ip").args(step.split(' ')).output();
            if !made.as_ref().is_ok_and(|made| made.status.success()) {
                eprintln!("NOT TESTED: a network can't be parted here (it needs root and `ip`): `ip {step}`: {made:?}");
                return None;
            }
        }
        Some(cable)
    }

    fn set(&self, state: &str) {
        assert!(
            Command::new("ip").args(["link", "set", &format!("{}a", self.name), state]).status().unwrap().success()
        );
    }

    /// The same command, in this network.
    fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.name]).arg(command.get_program()).args(command.get_args());
        inside.current_dir(command.get_current_dir().unwrap_or(Path::new("/")));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", &format!("{}a", self.name)]).output();
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// A worker that is cut off from the database stops by its own clock, and ends its commands, before its lease ends: so the
/// next owner's command never runs beside it.
#[test]
fn a_worker_that_is_cut_off_stops_before_its_lease_ends() {
    let Some(cable) = Cable::lay(17) else { return };
    let server = Server::start(&["listen_addresses=10.213.17.1"]);
    server.trust("10.213.17.0/24");
    let url = with_schema("postgres://loopforge@10.213.17.1/postgres");
    let fleet = fleet(Some(url));
    let run = fleet.queue("task.yaml", 1)[0];
    let cut_off = Worker(cable.inside(&fleet.command("one", &["worker", "--until-idle"])).spawn().unwrap());
    wait_for("the call begins", || fleet.begun() == 1);
    cable.set("down");
    let other = fleet.worker("other");
    wait_for("the other takes it up", || fleet.begun() == 2);
    let last = fleet.first_alive().unwrap();
    // As long again as a sign of life takes, and longer: none comes any more.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(fleet.first_alive().unwrap(), last, "its command had ended before the other's began");
    fleet.go();
    other.ends();
    fleet.assert_succeeded(&[run]);
    let records = fleet.records(run);
    cable.set("up");
    std::thread::sleep(LEASE);
    assert_eq!(fleet.records(run), records, "it wrote nothing more");
    assert_eq!(fleet.tally().values().collect::<Vec<_>>(), [&1]);
    drop(cut_off);
}
