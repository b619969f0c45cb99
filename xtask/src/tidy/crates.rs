//! Who may use whom, and what must not come in.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::File;
use super::code::{lines_with, only_code};
use crate::shell;

/// Crates of the workspace, and those of them that each may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("loopforge-core", &[]),
    ("loopforge-store", &["loopforge-core", "loopforge-testing"]),
    ("loopforge-tools", &["loopforge-core"]),
    ("loopforge-models", &["loopforge-core"]),
    ("loopforge", &["loopforge-core", "loopforge-models", "loopforge-store", "loopforge-testing", "loopforge-tools"]),
    (
        "loopforge-cli",
        &["loopforge", "loopforge-core", "loopforge-models", "loopforge-store", "loopforge-testing", "loopforge-tools"],
    ),
    ("loopforge-bench", &["loopforge", "loopforge-core", "loopforge-store", "loopforge-tools"]),
    ("loopforge-testing", &[]),
    ("xtask", &["loopforge-testing"]),
];

/// Crates that bring a runtime, a clock of their own, the network or a database. The core depends on none, however far away.
const NOT_UNDER_CORE: &[&str] = &[
    "async-std",
    "async-trait",
    "cap-std",
    "curl",
    "futures-core",
    "futures-util",
    "hyper",
    "libsqlite3-sys",
    "mio",
    "polling",
    "reqwest",
    "rusqlite",
    "rustix",
    "smol",
    "socket2",
    "tokio",
    "tokio-util",
    "tracing",
    "ureq",
];

/// Features of serde_json that change what a JSON value is, in every crate of a program, once any of them asks for it.
const NOT_IN_JSON: &[(&str, &str)] = &[
    ("preserve_order", "the order of members would depend on who wrote them, and with it every hash"),
    ("arbitrary_precision", "numbers would become maps for serde, and archives unreadable"),
    ("unbounded_depth", "a reply nested a million deep would overflow the stack"),
];

/// The system for which dependencies are looked at.
const SYSTEM: &str = "x86_64-unknown-linux-gnu";

/// Dependencies that no source names, and why they are there.
const UNNAMED: &[(&str, &str)] = &[];

pub(super) fn problems(files: &[File]) -> Result<Vec<String>> {
    // What other systems would bring (a browser's clock, say) is nobody's dependency here.
    let text = shell::output(shell::cargo()?.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        SYSTEM,
    ]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    let graph = Graph::read(&metadata);
    let mut problems = Vec::new();
    for own in &graph.workspace {
        let name = graph.names[own].as_str();
        match ARROWS.iter().find(|(known, _)| *known == name) {
            None => problems.push(format!("{name}: say in {} which crates of the workspace it may use", file!())),
            Some((_, allowed)) => {
                for used in
                    graph.declared[own].iter().filter(|used| graph.is_own(used) && !allowed.contains(&used.as_str()))
                {
                    problems.push(format!("{name} may not use {used}: arrows point towards the core"));
                }
            }
        }
        problems.extend(unnamed(name, &graph.folders[own], &graph.declared[own], files));
    }
    if let Some(core) = graph.workspace.iter().find(|id| graph.names[*id] == "loopforge-core") {
        for (name, through) in graph.below(core) {
            if NOT_UNDER_CORE.contains(&name) {
                problems.push(format!("loopforge-core depends on {name} (through {through}): the core is pure"));
            }
        }
    }
    for (feature, reason) in NOT_IN_JSON {
        if graph.features("serde_json").any(|own| own == *feature) {
            problems.push(format!(
                "serde_json has the feature `{feature}`: {reason} (`cargo tree -e features -i serde_json` says who asked)"
            ));
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml") && file.path != "Cargo.toml") {
        let lints = file.text.contains("[lints]\nworkspace = true\n");
        if !lints && !file.text.contains("\n[workspace]") {
            problems
                .push(format!("{}: add `[lints] workspace = true`: without it nothing forbids `unsafe`", file.path));
        }
    }
    Ok(problems)
}

/// Dependencies that a crate declares and never names.
fn unnamed(name: &str, folder: &str, declared: &BTreeSet<String>, files: &[File]) -> Vec<String> {
    let own: Vec<String> = files
        .iter()
        .filter(|file| file.is("rs") && file.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
        .map(|file| only_code(&file.text))
        .collect();
    let is_named = |dependency: &str| {
        let word = dependency.replace('-', "_");
        own.iter().any(|code| !lines_with(code, &word).is_empty())
    };
    declared
        .iter()
        .filter(|dependency| !UNNAMED.iter().any(|(known, _)| known == dependency) && !is_named(dependency))
        .map(|dependency| format!("{name}: `{dependency}` is declared and not used"))
        .collect()
}

/// What cargo tells of the packages.
struct Graph {
    workspace: Vec<String>,
    names: BTreeMap<String, String>,
    /// Folders from the repository's.
    folders: BTreeMap<String, String>,
    /// Names of the dependencies of all kinds.
    declared: BTreeMap<String, BTreeSet<String>>,
    /// Normal dependencies as resolved.
    resolved: BTreeMap<String, Vec<String>>,
    enabled: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn read(metadata: &Value) -> Self {
        let root = text(&metadata["workspace_root"]);
        let mut graph = Self {
            workspace: list(&metadata["workspace_members"]).map(text).collect(),
            names: BTreeMap::new(),
            folders: BTreeMap::new(),
            declared: BTreeMap::new(),
            resolved: BTreeMap::new(),
            enabled: BTreeMap::new(),
        };
        for package in list(&metadata["packages"]) {
            let id = text(&package["id"]);
            let manifest = text(&package["manifest_path"]);
            let folder =
                manifest.strip_prefix(&root).and_then(|path| path.strip_suffix("/Cargo.toml")).unwrap_or_default();
            graph.folders.insert(id.clone(), folder.trim_start_matches('/').to_owned());
            let declared = list(&package["dependencies"])
                .map(|dependency| match dependency["rename"].as_str() {
                    Some(name) => name.to_owned(),
                    None => text(&dependency["name"]),
                })
                .collect();
            graph.declared.insert(id.clone(), declared);
            graph.names.insert(id, text(&package["name"]));
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let id = text(&node["id"]);
            let normal = list(&node["deps"])
                .filter(|dependency| list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null()))
                .map(|dependency| text(&dependency["pkg"]))
                .collect();
            graph.resolved.insert(id.clone(), normal);
            graph.enabled.insert(id, list(&node["features"]).map(text).collect());
        }
        graph
    }

    fn is_own(&self, name: &str) -> bool {
        self.workspace.iter().any(|id| self.names[id] == name)
    }

    fn features(&self, name: &str) -> impl Iterator<Item = &str> {
        let packages = self.enabled.iter().filter(move |(id, _)| self.names.get(*id).is_some_and(|own| own == name));
        packages.flat_map(|(_, features)| features.iter().map(String::as_str))
    }

    /// All that a package needs, and the one through which each came first.
    fn below(&self, package: &str) -> BTreeMap<&str, &str> {
        let mut found = BTreeMap::new();
        let mut open = vec![package];
        let mut seen = BTreeSet::from([package]);
        while let Some(id) = open.pop() {
            for next in self.resolved.get(id).into_iter().flatten() {
                if seen.insert(next) {
                    found.insert(self.names[next].as_str(), self.names[id].as_str());
                    open.push(next);
                }
            }
        }
        found
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Graph;

    #[test]
    fn what_a_crate_needs_is_followed_to_the_end() {
        let package =
            |name: &str| json!({ "id": name, "name": name, "manifest_path": "/r/x/Cargo.toml", "dependencies": [] });
        let needs = |name: &str, kind: serde_json::Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "workspace_root": "/r",
            "workspace_members": ["core"],
            "packages": [package("core"), package("a"), package("tokio"), package("proptest")],
            "resolve": { "nodes": [
                { "id": "core", "deps": [needs("a", json!(null)), needs("proptest", json!("dev"))], "features": [] },
                { "id": "a", "deps": [needs("tokio", json!(null))], "features": ["x"] },
                { "id": "tokio", "deps": [], "features": [] },
                { "id": "proptest", "deps": [], "features": [] },
            ]},
        });
        let graph = Graph::read(&metadata);
        let below: Vec<(&str, &str)> = graph.below("core").into_iter().collect();
        assert_eq!(below, [("a", "core"), ("tokio", "a")]);
        assert_eq!(graph.features("a").collect::<Vec<_>>(), ["x"]);
        assert_eq!(graph.folders["core"], "x");
    }
}
