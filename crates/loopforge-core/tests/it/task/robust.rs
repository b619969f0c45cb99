//! Whatever the text, the reader answers: a task, or problems with places in the file. It never panics.

use loopforge_core::task::{self, Problems};
use proptest::prelude::*;

use super::catalog;

const PATROL: &str = include_str!("../../corpus/task/good/patrol.yaml");

fn places_are_in_the_file(text: &str, problems: &Problems) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(!problems.all().is_empty());
    for problem in problems.all() {
        assert!((1..=lines.len()).contains(&problem.line), "{problem:?}");
        let length = lines[problem.line - 1].chars().count();
        assert!((1..=length + 1).contains(&problem.column), "{problem:?}");
        assert!(!problem.message.is_empty() && problem.snippet.width >= 1);
        assert!(serde_json::to_string(problem).is_ok());
        assert!(
            !problem.to_string().chars().any(|character| character.is_control() && character != '\n'),
            "{problem:?}"
        );
    }
}

fn reads(text: &str) {
    match task::read(text, "task.yaml", &catalog()) {
        Ok(task) => {
            // What is read can be written and read again.
            let json = serde_json::to_string(&task).unwrap();
            assert_eq!(task::read(&json, "task.json", &catalog()).map_err(|problems| problems.to_string()), Ok(task));
        }
        Err(problems) => places_are_in_the_file(text, &problems),
    }
}

/// A good task with a piece of it cut out, doubled, moved or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::new()),
        Just("\n".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("${".to_owned()),
        Just("null".to_owned()),
        Just("- ".to_owned()),
        Just(": ".to_owned()),
        Just("'".to_owned()),
        Just("*a".to_owned()),
        Just("&a ".to_owned()),
        Just("<<: ".to_owned()),
        Just("\t".to_owned()),
        Just("\r".to_owned()),
        Just("名".to_owned()),
        Just("1e999".to_owned()),
        Just("!!int ".to_owned()),
        any::<String>(),
        (0..PATROL.len(), 0..80_usize).prop_map(|(start, length)| {
            let start = PATROL.floor_char_boundary(start);
            PATROL[start..PATROL.floor_char_boundary(start + length).max(start)].to_owned()
        }),
    ];
    prop::collection::vec((0..PATROL.len(), 0..30_usize, piece), 1..4).prop_map(|changes| {
        let mut text = PATROL.to_owned();
        for (start, length, piece) in changes {
            let start = text.floor_char_boundary(start.min(text.len()));
            let end = text.floor_char_boundary((start + length).min(text.len())).max(start);
            text.replace_range(start..end, &piece);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        reads(&text);
    }

    #[test]
    fn any_yaml_like_text_is_answered(text in r#"[-a-z0-9:,\[\]{}&*!|>'"%@` \n#?<~$.]{0,80}"#) {
        reads(&text);
    }

    #[test]
    fn a_changed_task_is_answered(text in mutated()) {
        reads(&text);
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(problems) = task::read_bytes(&bytes, "task.yaml", &catalog()) {
            prop_assert!(problems.all().iter().all(|problem| problem.line >= 1 && problem.column >= 1));
        }
    }

    #[test]
    fn any_expression_is_answered(text in r#"[a-z0-9.()\[\]{}'"\\?:+*/!&|<>=, \n$-]{0,60}"#) {
        let file = serde_json::json!({
            "name": "a", "goal": "b",
            "subgoals": [{ "id": "x", "when": text, "steps": [{ "set": { "y": text, "z": format!("${{{text}}}") } }] }]
        });
        reads(&file.to_string());
    }
}
