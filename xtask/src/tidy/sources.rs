//! What may not stand in sources.

use super::File;
use super::code::{lines_with, only_code};

/// Code that is unfinished, or looks away.
const NOWHERE: &[(&str, &str)] = &[
    ("todo!", "finish it, or say in an error what is missing"),
    ("unimplemented!", "finish it, or say in an error what is missing"),
    ("dbg!", "take it out"),
    ("#[ignore", "a test that doesn't run proves nothing: mend it or take it out"),
    ("#[allow(", "use `#[expect(..., reason = \"...\")]`: it says why, and is noticed when it isn't needed any more"),
    ("#![allow(", "use `#![expect(..., reason = \"...\")]`: it says why, and is noticed when it isn't needed any more"),
];

/// The core is told what happened and decides. `clippy.toml` there resolves names and knows the calls; this list is wider, and
/// needs no compiler.
const NOT_IN_CORE: &[(&str, &str)] = &[
    ("SystemTime", "the core has no clock: take `now` as an argument"),
    ("Instant", "the core has no clock: take `now` as an argument"),
    ("Timestamp::now", "the core has no clock: take `now` as an argument"),
    ("Zoned::now", "the core has no clock: take `now` as an argument"),
    ("new_v4", "the core draws nothing at random: take the id as an argument"),
    ("now_v7", "the core draws nothing at random: take the id as an argument"),
    ("rand::", "the core draws nothing at random: take the seed as an argument"),
    ("RandomState", "the core draws nothing at random: iterate over ordered maps"),
    ("std::fs", "the core reads and writes no files"),
    ("TcpStream", "the core has no network"),
    ("TcpListener", "the core has no network"),
    ("UdpSocket", "the core has no network"),
    ("ToSocketAddrs", "the core has no network"),
    ("std::env", "the core reads no environment"),
    ("std::process", "the core starts no processes"),
    ("std::thread", "the core starts no threads"),
    ("std::io", "the core does no input or output"),
    ("use std::{", "one `use` per module of std, so that what is used can be found"),
    ("println!", "the core prints nothing"),
    ("eprintln!", "the core prints nothing"),
    ("tokio::", "the core is synchronous"),
    ("async fn", "the core is synchronous"),
    (".await", "the core is synchronous"),
];

/// Lines from which on a source file should be split. Most have a fifth of it.
const LONGEST: usize = 600;

/// Files that are longer, and why.
const LONG: &[(&str, &str)] =
    &[("crates/loopforge-core/tests/it/task/bad.rs", "a table of bad task files and what is said of each")];

/// Parts of paths that exist on one machine only.
const MACHINES: &[&str] =
    &[concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

pub(super) fn problems(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let generated = file.path.ends_with(".lock");
        for needle in MACHINES.iter().filter(|_| !generated) {
            for (index, _) in file.text.lines().enumerate().filter(|(_, line)| line.contains(needle)) {
                problems.push(format!("{}:{}: `{needle}` is a path of one machine", file.path, index + 1));
            }
        }
        if !file.is("rs") {
            continue;
        }
        let code = only_code(&file.text);
        problems.extend(forbidden(&file.path, &code, NOWHERE));
        if file.path.starts_with("crates/loopforge-core/src/") {
            problems.extend(forbidden(&file.path, &code, NOT_IN_CORE));
        }
        let lines = file.text.lines().count();
        if lines > LONGEST && !LONG.iter().any(|(path, _)| *path == file.path) {
            problems.push(format!(
                "{}: {lines} lines are too many for one purpose (at most {LONGEST}): split it, or give the reason in {}",
                file.path,
                file!()
            ));
        }
    }
    for (path, _) in LONG {
        let lines = files.iter().find(|file| file.path == *path).map_or(0, |file| file.text.lines().count());
        if lines <= LONGEST {
            problems.push(format!("{}: {path} has {lines} lines now: take it off the list of long files", file!()));
        }
    }
    problems
}

fn forbidden(path: &str, code: &str, list: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (needle, remedy) in list {
        problems
            .extend(lines_with(code, needle).into_iter().map(|line| format!("{path}:{line}: `{needle}`: {remedy}")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{NOT_IN_CORE, NOWHERE, forbidden, only_code};

    #[test]
    fn a_core_that_reads_a_clock_is_found() {
        let pure =
            "/// Not `SystemTime::now()`: the caller says.\nfn late(now: Timestamp) -> bool { now > self.due }\n";
        assert_eq!(forbidden("core.rs", &only_code(pure), NOT_IN_CORE), [] as [&str; 0]);
        let impure = "use std::time::SystemTime;\nfn late() -> bool { SystemTime::now() > self.due }\n";
        let found = forbidden("core.rs", &only_code(impure), NOT_IN_CORE);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("core.rs:2: `SystemTime`: the core has no clock"), "{found:?}");
    }

    #[test]
    fn every_word_that_is_forbidden_is_found() {
        for (needle, _) in NOWHERE.iter().chain(NOT_IN_CORE) {
            let code = only_code(&format!("fn f() {{\n    {needle}\n}}\n"));
            assert!(!forbidden("x.rs", &code, NOWHERE).is_empty() || !forbidden("x.rs", &code, NOT_IN_CORE).is_empty());
        }
    }
}
