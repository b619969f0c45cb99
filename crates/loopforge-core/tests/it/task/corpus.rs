//! Files kept for reading: the good ones are read, the bad ones have the problems that they say.

use std::path::{Path, PathBuf};
use std::time::Instant;

use loopforge_core::task;

use super::catalog;

fn files(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/task").join(kind);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[expect(clippy::disallowed_methods, reason = "the core reads no files; its tests may")]
fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn good_files_are_read() {
    for file in files("good") {
        let result = task::read_bytes(&bytes(&file), &file.display().to_string(), &catalog());
        assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}

/// The name of a bad file begins with the code of a problem that it has: `cycle.three.yaml`.
#[test]
fn bad_files_have_the_problem_of_their_name() {
    for file in files("bad") {
        let name = file.file_name().unwrap().to_str().unwrap();
        let code = name.split('.').next().unwrap();
        let problems = task::read_bytes(&bytes(&file), name, &catalog()).map(|_| ()).unwrap_err();
        let codes: Vec<String> = problems.all().iter().map(|problem| problem.code.to_string()).collect();
        assert!(codes.iter().any(|found| found == code), "{name} has {codes:?}:\n{problems}");
    }
}

/// A file of a kilobyte that stands for gigabytes, a deep one, a wide one: each is refused, and soon.
#[test]
fn bombs_are_refused_soon() {
    let mut laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        laughs += &format!("a{level}: &a{level} [{before}]\n");
    }
    let mut merges = "b0: &b0 { x0: 1 }\n".to_owned();
    for level in 1..60 {
        merges += &format!("b{level}: &b{level} {{ <<: *b{}, x{level}: *b{} }}\n", level - 1, level - 1);
    }
    let many_keys: String = (0..200_000).map(|key| format!("k{key}: 1\n")).collect();
    let long_key = format!("name: a\n\"{}\": 1\n", "k".repeat(1_000_000));
    let deep_expression = format!(
        "name: a\ngoal: b\nsubgoals: [{{ id: x, when: \"{}1\", steps: [{{ wait: 1s }}] }}]",
        "(".repeat(50_000)
    );
    let deep_tail = format!(
        "name: a\ngoal: b\nsubgoals: [{{ id: x, when: \"a{}\", steps: [{{ wait: 1s }}] }}]",
        ".a".repeat(50_000)
    );
    let many_dollars =
        format!("name: a\ngoal: b\nsubgoals: [{{ id: x, steps: [{{ set: {{ y: \"{}\" }} }}] }}]", "${a}".repeat(5_000));
    let many_subgoals: String = (0..900)
        .map(|id| format!("- {{ id: s{id}, needs: [s{}], steps: [{{ wait: 1s }}] }}\n", (id + 1) % 900))
        .collect();
    let many_subgoals = format!("name: a\ngoal: b\nsubgoals:\n{many_subgoals}");
    let expression =
        |text: &str| format!("name: a\ngoal: b\nsubgoals: [{{ id: x, when: \"{text}\", steps: [{{ wait: 1s }}] }}]");
    let [deep, chained, summed, negated, signed, chosen, listed] = [
        "(".repeat(4000),
        format!("a{}", ".a".repeat(2000)),
        format!("1{}", "+1".repeat(2000)),
        "!".repeat(4000) + "true",
        "-".repeat(4000) + "1",
        "true?1:".repeat(500) + "1",
        "[".repeat(2000),
    ]
    .map(|text| expression(&text));
    // As long as the reader lets them be: these reach the parser.
    let long = [
        "a".to_owned() + &".a".repeat(399),
        "!".repeat(399) + "x",
        "-".repeat(399) + "x",
        "1?1:".repeat(199) + "x",
        "x".to_owned() + &" in x".repeat(800),
    ];
    for text in long {
        assert!(task::read(&expression(&text), "long.yaml", &catalog()).is_err());
    }
    let bombs = [
        deep,
        chained,
        summed,
        negated,
        signed,
        chosen,
        listed,
        laughs,
        merges,
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        many_keys,
        long_key,
        deep_expression,
        deep_tail,
        many_dollars,
        many_subgoals,
    ];
    for bomb in bombs {
        #[expect(clippy::disallowed_methods, reason = "the core has no clock; its tests may")]
        let begin = Instant::now();
        let problems = task::read(&bomb, "bomb.yaml", &catalog()).unwrap_err();
        assert!(begin.elapsed().as_secs() < 10, "{} took {:?}", &bomb[..bomb.len().min(60)], begin.elapsed());
        assert!(problems.all().len() <= 101);
        assert!(problems.to_string().len() < 1_000_000);
    }
}

#[test]
fn large_files_are_refused_by_their_size() {
    let file = vec![b'#'; task::MAX_TASK_BYTES + 1];
    let problems = task::read_bytes(&file, "task.yaml", &catalog()).unwrap_err();
    insta::assert_snapshot!(problems, @r#"
task.yaml:1:1: the task file is 5 MB large, at most 4 MB are read
  = help: put data into a file of its own and name it under `inputs`
"#);
    insta::assert_snapshot!(task::read_bytes(b"name: a\ngoal: \xe4\n", "task.yaml", &catalog()).unwrap_err(), @r#"
task.yaml:2:7: not UTF-8 at byte 14 (0xe4)
  |
2 | goal:
  |       ^
  = help: save it as UTF-8
"#);
    insta::assert_snapshot!(task::read_bytes(b"\xef\xbb\xbfname: a\ngoal: b\0\n", "task.yaml", &catalog()).unwrap_err(), @r#"
task.yaml:2:8: a NUL character at byte 18
  |
2 | goal: b�
  |        ^
  = help: save it as UTF-8 text (UTF-16 looks like this)
"#);
}
