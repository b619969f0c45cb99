//! Documents: what they point to exists, and what they tell people to type can be typed.

use std::collections::{BTreeMap, BTreeSet};

use clap::CommandFactory;

use super::File;
use super::code::is_word;

/// Commands that the README begins and ends with. CI starts both.
const PROMISED: &[&str] = &["cargo run --release -- demo", "cargo xtask test"];

/// The two places that must show them.
const PROMISE_IN: &[&str] = &["README.md", "README.zh-CN.md", ".ci/run"];

/// Where the commands of `loopforge` are listed.
const COMMANDS: &str = "crates/loopforge-cli/src/cli.rs";

pub(super) fn problems(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let paths = paths(files);
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        files.iter().filter(|file| file.is("md")).map(|file| (file.path.as_str(), anchors(&file.text))).collect();
    let loopforge =
        files.iter().find(|file| file.path == COMMANDS).map(|file| variants(&file.text)).unwrap_or_default();
    let xtask: BTreeSet<String> =
        crate::Cli::command().get_subcommands().map(|own| own.get_name().to_owned()).collect();

    for file in files.iter().filter(|file| file.is("md")) {
        for (line, target) in links(&file.text) {
            if let Some(problem) = broken(&file.path, &target, &paths, &anchors) {
                problems.push(format!("{}:{line}: {problem}", file.path));
            }
        }
        for (line, program, command) in commands(&file.text) {
            let known = if program == "loopforge" { &loopforge } else { &xtask };
            if command != "help" && !known.contains(&command) {
                problems.push(format!("{}:{line}: there is no `{program} {command}`", file.path));
            }
        }
    }
    let sources =
        files.iter().filter(|file| ["rs", "toml", "sql", "yaml", "py"].iter().any(|extension| file.is(extension)));
    // Tidy's own tests name pages that are made up.
    for file in sources.filter(|file| !file.path.starts_with("xtask/src/tidy/")) {
        for (index, line) in file.text.lines().enumerate() {
            for page in pages(line).filter(|page| !paths.contains(*page)) {
                problems.push(format!("{}:{}: there is no {page}", file.path, index + 1));
            }
        }
    }
    for place in PROMISE_IN {
        let text = files.iter().find(|file| file.path == *place).map_or("", |file| file.text.as_str());
        for command in PROMISED.iter().filter(|command| !text.contains(*command)) {
            problems.push(format!("{place}: `{command}` is not in it"));
        }
    }
    problems
}

/// All files and folders.
fn paths(files: &[File]) -> BTreeSet<&str> {
    let mut paths = BTreeSet::new();
    for file in files {
        let mut path = file.path.as_str();
        paths.insert(path);
        while let Some((folder, _)) = path.rsplit_once('/') {
            paths.insert(folder);
            path = folder;
        }
    }
    paths
}

fn broken(
    from: &str,
    target: &str,
    paths: &BTreeSet<&str>,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let full = if path.is_empty() { from.to_owned() } else { join(from, path) };
    if !paths.contains(full.as_str()) {
        return Some(format!("the link `{target}` leads nowhere"));
    }
    let known = anchors.get(full.as_str())?;
    let anchor = anchor.filter(|anchor| !known.contains(*anchor))?;
    Some(format!("the link `{target}`: {full} has no heading `{anchor}`"))
}

/// A path as it is meant in the file `from`.
fn join(from: &str, path: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = if path.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}

/// Lines outside fenced code, and those inside with the name of its language.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, Option<&str>)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.trim()) };
            return None;
        }
        Some((index + 1, line, fence))
    })
}

fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line, fence) in lines(text) {
        if fence.is_some() {
            continue;
        }
        // Every second part stands between backticks.
        for prose in line.split('`').step_by(2) {
            for part in prose.split("](").skip(1) {
                if let Some((target, _)) = part.split_once(')') {
                    found.push((number, target.split(' ').next().unwrap_or_default().to_owned()));
                }
            }
        }
        // A link whose text is code is cut by the backticks: `[`name`](target)`.
        for part in line.split("`](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The anchors of headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line, fence) in lines(text) {
        let title = line.trim_start_matches('#');
        if fence.is_some() || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|letter| is_word(*letter) || matches!(letter, ' ' | '-'))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        found.insert(slug);
    }
    found
}

/// Subcommands of `loopforge` and `cargo xtask` that stand in shell examples and in code inside of prose.
fn commands(text: &str) -> Vec<(usize, &'static str, String)> {
    let mut found = Vec::new();
    for (number, line, fence) in lines(text) {
        let pieces: Vec<&str> = match fence {
            None => line.split('`').skip(1).step_by(2).collect(),
            Some("sh" | "bash" | "console" | "") => vec![line.trim_start().trim_start_matches("$ ")],
            Some(_) => continue,
        };
        for piece in pieces {
            for (start, program) in [
                ("loopforge ", "loopforge"),
                ("cargo run --release -- ", "loopforge"),
                ("cargo run -- ", "loopforge"),
                ("cargo xtask ", "cargo xtask"),
            ] {
                let word = piece.strip_prefix(start).and_then(|rest| rest.split_whitespace().next());
                if let Some(word) =
                    word.filter(|word| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'))
                    && !word.starts_with('-')
                {
                    found.push((number, program, word.to_owned()));
                }
            }
        }
    }
    found
}

/// The variants of `enum Command`, as clap shows them.
fn variants(source: &str) -> BTreeSet<String> {
    let body = source.split("pub enum Command {").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap_or_default();
    let names =
        body.lines().map(str::trim_start).filter(|line| line.starts_with(|letter: char| letter.is_ascii_uppercase()));
    names.map(|line| kebab(line.split(|letter| !is_word(letter)).next().unwrap_or_default())).collect()
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// Pages of the documentation that a line of source names.
fn pages(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("docs/").filter_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|letter| is_word(letter) || matches!(letter, '/' | '.' | '-')) {
            return None;
        }
        let rest = &line[at..];
        let end =
            rest.find(|letter: char| !is_word(letter) && !matches!(letter, '/' | '-' | '.')).unwrap_or(rest.len());
        let page = rest[..end].trim_end_matches('.');
        page.ends_with(".md").then_some(page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Some `Page`: one\n\nSee [that](../b.md#a-part) and `[no](link)` and [`code`](c.rs).\n\n\
        ```sh\nloopforge run x.yaml\n# loopforge nothing\ncargo xtask test\n```\n\nUse `loopforge show --last` or `loopforge --help`.\n";

    #[test]
    fn links_are_found_and_code_is_not_searched() {
        assert_eq!(links(PAGE), [(3, "../b.md#a-part".to_owned()), (3, "c.rs".to_owned())]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_told() {
        let paths = BTreeSet::from(["docs", "docs/a.md", "b.md"]);
        let anchors = BTreeMap::from([("b.md", anchors("## A part!\n")), ("docs/a.md", anchors(PAGE))]);
        let broken = |target: &str| broken("docs/a.md", target, &paths, &anchors);
        assert_eq!(broken("../b.md#a-part"), None);
        assert_eq!(broken("#some-page-one"), None);
        assert_eq!(broken("https://example.com/x"), None);
        assert_eq!(broken("b.md").as_deref(), Some("the link `b.md` leads nowhere"));
        assert_eq!(broken("../b.md#other").as_deref(), Some("the link `../b.md#other`: b.md has no heading `other`"));
    }

    #[test]
    fn commands_are_found_in_shell_and_in_prose() {
        let found = commands(PAGE);
        let told: Vec<String> =
            found.iter().map(|(line, program, command)| format!("{line} {program} {command}")).collect();
        assert_eq!(told, ["6 loopforge run", "8 cargo xtask test", "11 loopforge show"]);
    }

    #[test]
    fn variants_become_commands() {
        let source =
            "/// x\npub enum Command {\n    /// See it\n    Demo(commands::Demo),\n    DryRun,\n}\nenum Other { X }\n";
        assert_eq!(variants(source).into_iter().collect::<Vec<_>>(), ["demo", "dry-run"]);
    }

    #[test]
    fn pages_that_sources_name_are_found() {
        assert_eq!(
            pages("/// Source: `docs/design/x.md`. See docs/y.md.").collect::<Vec<_>>(),
            ["docs/design/x.md", "docs/y.md"]
        );
        assert_eq!(pages("https://example.com/docs/y.md ../docs/z.md").count(), 0);
    }
}
