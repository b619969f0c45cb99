#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn folder() -> (tempfile::TempDir, Folder) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::create(&temporary.path().join("run")).unwrap();
    (temporary, folder)
}

fn write(folder: &Folder, path: &str, content: &str, existing: Existing) -> Written {
    folder.write(Path::new(path), content.as_bytes(), existing, "tag", &Gate::default()).unwrap()
}

fn names(temporary: &tempfile::TempDir) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(temporary.path().join("run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_is_written_once_and_replaced_only_when_told() {
    let (temporary, folder) = folder();
    assert_eq!(write(&folder, "a/b.txt", "one", Existing::Keep), Written::Now);
    assert_eq!(write(&folder, "a/b.txt", "one", Existing::Keep), Written::Already);
    assert_eq!(write(&folder, "a/b.txt", "two", Existing::Keep), Written::Occupied);
    let path = temporary.path().join("run/a/b.txt");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    assert_eq!(write(&folder, "a/b.txt", "two", Existing::Replace), Written::Now);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
    // A folder of that name is no file to replace.
    assert!(folder.write(Path::new("a"), b"x", Existing::Replace, "tag", &Gate::default()).is_err());
    assert_eq!(names(&temporary), ["a"]);
}

#[test]
fn what_a_killed_write_left_is_removed_by_the_next() {
    let (temporary, folder) = folder();
    for (tag, left) in [("tag", ".loopforge-tag-1-0"), ("other", ".loopforge-other-1-0")] {
        std::fs::write(temporary.path().join("run").join(left), "half of th").unwrap();
        assert!(prepare(&folder.dir, b"whole", tag).is_ok());
    }
    assert_eq!(folder.holds(Path::new("f"), b"the whole").unwrap(), Holds::Nothing);
    assert_eq!(write(&folder, "f", "the whole", Existing::Keep), Written::Now);
    assert_eq!(std::fs::read_to_string(temporary.path().join("run/f")).unwrap(), "the whole");
    assert!(
        names(&temporary).iter().all(|name| name == "f" || name.starts_with(".loopforge-other-")),
        "{:?}",
        names(&temporary)
    );
}

#[test]
fn a_write_that_was_given_up_leaves_nothing() {
    let (temporary, folder) = folder();
    let gate = Gate::shut_for_tests();
    let written = folder.write(Path::new("f"), b"x", Existing::Keep, "tag", &gate).unwrap();
    assert_eq!(written, Written::GivenUp);
    assert!(names(&temporary).is_empty());
}

#[test]
fn of_two_writers_one_wins_and_the_file_is_whole() {
    let (temporary, folder) = folder();
    let folder = std::sync::Arc::new(folder);
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let folder = std::sync::Arc::clone(&folder);
            std::thread::spawn(move || {
                let content = number.to_string().repeat(100_000);
                folder
                    .write(Path::new("f"), content.as_bytes(), Existing::Keep, &format!("t{number}"), &Gate::default())
                    .unwrap()
            })
        })
        .collect();
    let ends: Vec<Written> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    assert_eq!(ends.iter().filter(|end| **end == Written::Now).count(), 1, "{ends:?}");
    let content = std::fs::read_to_string(temporary.path().join("run/f")).unwrap();
    assert_eq!((content.len(), content.replace(&content[..1], "").len()), (100_000, 0));
    assert_eq!(names(&temporary), ["f"]);
}

#[test]
fn paths_that_lead_elsewhere_are_refused_in_words() {
    for (path, word) in [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("../a", "`..`"),
        ("a/../../b", "`..`"),
        ("a\0b", "NUL"),
        ("a\u{2400}", "NUL"),
        ("a\nb", "control"),
        ("a\\b", "not every system"),
        ("C:/a", "not every system"),
        ("a/", "names a folder"),
        ("./a", "`.`"),
        (".loopforge-x", "keeps for itself"),
        ("x/.loopforge-x/y", "keeps for itself"),
    ] {
        let refusal = read_path("path", path).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidArgument);
        assert!(refusal.error.as_deref().unwrap().contains(word), "{path:?}: {:?}", refusal.error);
    }
    assert!(read_path("path", &"a".repeat(300)).is_err());
    for path in ["a", "a/b.md", "报告/今天.md", "a..b", ".hidden"] {
        assert!(read_path("path", path).is_ok(), "{path}");
    }
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_not_followed() {
    use std::os::unix::fs::symlink;
    let (temporary, folder) = folder();
    let outside = temporary.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "s").unwrap();
    let run = temporary.path().join("run");
    symlink(&outside, run.join("out")).unwrap();
    symlink("../outside/secret", run.join("file")).unwrap();
    for path in ["out/new", "out/secret", "file"] {
        let error = folder.write(Path::new(path), b"x", Existing::Replace, "tag", &Gate::default()).unwrap_err();
        assert!(failure("write", &error).error.unwrap().contains("leads out of the folder"), "{path}: {error:?}");
    }
    assert!(folder.dir().read("out/secret").is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "s");
}
