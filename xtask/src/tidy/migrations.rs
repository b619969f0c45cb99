//! Migrations: each is listed with its hash, so that none changes by accident once people's archives were made with it.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::File;

/// Where migrations are, and beside them the list, as `sha256sum` writes it.
const FOLDERS: [&str; 2] = ["crates/loopforge-store/migrations/sqlite/", "crates/loopforge-store/migrations/postgres/"];
const LIST: &str = "SHA256SUMS";

pub(super) fn problems(files: &[File]) -> Vec<String> {
    let mut problems: Vec<String> = FOLDERS.iter().flat_map(|folder| problems_in(folder, files)).collect();
    let [names, others] = FOLDERS.map(|folder| names(folder, files));
    if names != others {
        problems.push(format!(
            "migrations: the same number is the same change for both databases; {names:?} and {others:?} differ"
        ));
    }
    problems
}

fn names<'a>(folder: &str, files: &'a [File]) -> Vec<&'a str> {
    files.iter().filter_map(|file| file.path.strip_prefix(folder)).filter(|name| *name != LIST).collect()
}

fn problems_in(folder: &str, files: &[File]) -> Vec<String> {
    let mut listed: Vec<(&str, &str)> = files
        .iter()
        .find(|file| file.path.strip_prefix(folder) == Some(LIST))
        .map(|file| file.text.lines().filter_map(|line| line.split_once("  ")).collect())
        .unwrap_or_default();
    let mut problems = Vec::new();
    let migrations = files.iter().filter_map(|file| Some((file.path.strip_prefix(folder)?, file)));
    for (position, (name, file)) in migrations.filter(|(name, _)| *name != LIST).enumerate() {
        if !name.starts_with(&format!("{:04}_", position + 1)) {
            problems.push(format!(
                "{folder}{name}: migrations are numbered without a gap; this is number {}",
                position + 1
            ));
        }
        let hash = hash(&file.text);
        match listed.iter().position(|(_, known)| *known == name) {
            None => problems.push(format!("{folder}{LIST}: add `{hash}  {name}`")),
            Some(at) if listed.remove(at).0 != hash => problems.push(format!(
                "{folder}{name}: it is another than the listed one. Archives were made with that: write a new migration. Only if no \
                 release had it, put `{hash}` into {LIST}"
            )),
            Some(_) => {}
        }
    }
    problems.extend(listed.iter().map(|(_, name)| format!("{folder}{LIST}: {name} is listed once too often, or gone")));
    problems
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String can't fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = FOLDERS[0];

    fn file(name: &str, text: &str) -> File {
        File { path: format!("{FOLDER}{name}"), text: text.to_owned() }
    }

    #[test]
    fn a_migration_that_changes_is_told() {
        let list = format!("{}  0001_a.sql\n", hash("create table a"));
        let kept = [file("0001_a.sql", "create table a"), file(LIST, &list)];
        assert_eq!(problems_in(FOLDER, &kept), [] as [&str; 0]);
        let changed = problems_in(FOLDER, &[file("0001_a.sql", "create table b"), file(LIST, &list)]);
        assert!(changed.len() == 1 && changed[0].contains("0001_a.sql: it is another"), "{changed:?}");
        let unlisted =
            problems_in(FOLDER, &[file("0001_a.sql", "create table a"), file("0003_b.sql", "x"), file(LIST, &list)]);
        assert!(
            unlisted.len() == 2 && unlisted[0].contains("without a gap") && unlisted[1].contains("add `"),
            "{unlisted:?}"
        );
        let gone = problems_in(FOLDER, &[file(LIST, &list)]);
        assert!(gone.len() == 1 && gone[0].contains("gone"), "{gone:?}");
    }

    #[test]
    fn hashes_are_those_of_sha256sum() {
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
