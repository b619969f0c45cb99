//! Characters and numbers that stores, terminals and JSON can't hold.

use serde_json::json;

use super::{asked_step, place, records};

/// ENC-01, ENC-02, ENC-04, ENC-05: through a whole run and two processes, into state, trace and export.
#[test]
fn odd_results_are_mended_by_one_rule_marked_and_kept() {
    let place = place(
        r#"
inputs: { odd: {} }
tools:
  TOOLS
  odd: { process: [cat, odd.json], sandbox: off, effect: read }
  echo: { process: [cat], sandbox: off, effect: read, input_schema: { type: object } }
  send: { process: [cat], sandbox: off, effect_key: [text], input_schema: { type: object } }
  pages: { process: [cat, pages.txt], sandbox: off, effect: read }
  fails: { process: [sh, fails.sh], sandbox: off, effect: read }
  keep: { builtin: file_write }
subgoals:
  - id: before
    steps:
      - { call: odd, save: odd }
      - { call: echo, with: { value: "${ inputs.odd }" }, save: echoed }
      - { call: pages, save: pages }
      - { call: odd, save: "named[inputs.odd.text]" }
  - id: fails
    foreach: { in: "['says', 'file']", as: item }
    steps:
      - { call: fails, when: "item == 'says'" }
      - { call: keep, when: "item == 'file'", with: { path: "${ inputs.odd.text + '.txt' }", content: x } }
    on_failure: defer
  - id: pause
    needs: [before, fails]
    on_failure: ask
    steps: [{ call: gate, with: { name: a } }]
  - id: after
    needs: [pause]
    steps:
      - { call: echo, with: { value: "${ state.odd }" }, save: again }
      - { call: send, with: { text: "${ inputs.odd.text }" }, save: sent }
      - { call: send, with: { text: "${ inputs.odd.text }" }, save: sent_again }
      - { call: keep, with: { path: odd.txt, content: "${ state.pages.text }" } }
"#,
    );
    place.write(
        "odd.json",
        r#"{"nan": NaN, "infinite": [Infinity, -Infinity, 1e999], "high": "\ud83d", "low": "\udc00 x",
            "reversed": "\udc00\ud83d", "pair": "\ud83d\ude00", "nul": "a\u0000b", "ke\u0000y": 1,
            "ordinary": "\\u0000 \\\\u0000 \\ud83d", "fine": [5, 0.1, 9007199254740993]}"#,
    );
    // A line in GBK and one in CP1251.
    std::fs::write(place.path().join("pages.txt"), b"\xd6\xd0\xce\xc4 399\n\xcf\xf0\xe8\xe2\xe5\xf2 \xf0\n").unwrap();
    place.write("fails.sh", "printf 'no\\000such\\377thing\\n' >&2; exit 1");
    let input = r#"odd={"text":"a\u0000b","ke\u0000y":"\\u0000","pair":"\ud83d\ude00"}"#;
    let said = place.loopforge(&["run", "task.yaml", "--input", input, "--json"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(!said.out.contains("\\u0000\"") || said.out.contains("\\\\u0000"), "{said:?}");
    place.write("open-a", "");
    let run = place.run();
    assert_eq!(place.loopforge(&["resolve", &run, &asked_step(&said), "--continue"]).code, 0);
    let said = place.loopforge(&["resume", &run]);
    assert_eq!(said.code, 0, "{said:?}");

    let get = |key: &str| place.loopforge(&["state", &run, "get", key, "--json"]).json();
    let odd = json!({
        "nan": null, "infinite": [null, null, null], "high": "\u{fffd}", "low": "\u{fffd} x", "reversed": "\u{fffd}\u{fffd}",
        "pair": "😀", "nul": "a␀b", "ke␀y": 1, "ordinary": r"\u0000 \\u0000 \ud83d", "fine": [5, 0.1, 9_007_199_254_740_993_u64],
    });
    assert_eq!(get("odd"), odd);
    assert_eq!(get("named"), json!({ "a␀b": odd }));
    assert_eq!(get("echoed"), json!({ "value": { "text": "a␀b", "ke␀y": r"\u0000", "pair": "😀" } }));
    assert_eq!(get("again"), json!({ "value": odd }), "mended once, it goes through a tool unchanged");
    assert_eq!(get("sent"), get("sent_again"));
    let pages = get("pages")["text"].as_str().unwrap().to_owned();
    assert!(pages.contains('\u{fffd}') && pages.contains(" 399\n"), "{pages:?}");

    let all = records(&place, &run);
    let finished: Vec<_> = all.iter().filter(|record| record["kind"] == "action_finished").collect();
    let marks = |at: usize| finished[at]["result"]["marks"].to_string();
    let with = |needle: &str| (0..finished.len()).filter(|&at| marks(at).contains(needle)).count();
    assert!(
        with("NUL") >= 2 && with("surrogate") >= 2,
        "{:?}",
        finished.iter().map(|one| &one["result"]["marks"]).collect::<Vec<_>>()
    );
    let failed = finished.iter().find(|one| one["result"]["code"] == "permanent").unwrap();
    assert_eq!(failed["result"]["error"].as_str().unwrap().matches("no␀such\u{fffd}thing").count(), 1, "{failed}");
    // No file has such a name, and that is said.
    let refused = finished.iter().find(|one| one["result"]["code"] == "invalid_argument").unwrap();
    assert!(refused["result"]["error"].as_str().unwrap().contains("a␀b.txt"), "{refused}");
    // One effect: both calls have the same name in business terms.
    let effects = place.loopforge(&["effects", &run, "--json"]).json()["effects"].clone();
    assert_eq!(effects.as_array().unwrap().iter().filter(|effect| effect["tool"] == "send").count(), 1, "{effects}");

    for arguments in [&["show", &run][..], &["trace", &run], &["graph", &run], &["export", &run], &["effects", &run]] {
        let said = place.loopforge(arguments);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.is_safe() && !said.out.contains('\0'), "{arguments:?}");
    }
    let exported = place.loopforge(&["export", &run]).json_lines();
    assert_eq!(exported[exported.len() - 1]["end"]["problems"], 0);
    // The bytes as they came are kept beside what was made of them.
    assert!(exported.iter().any(|line| line["blob"]["text"].as_str().is_some_and(|text| text.contains("NaN"))));
}

/// ENC-02: what a person gives is not mended. In a JSON file half a pair is a mistake, with its place; on the command line it is the text
/// that was typed.
#[test]
fn half_a_pair_in_an_input_is_not_mended() {
    let half = r#"{"text":"\ud83d"}"#;
    let place =
        place("inputs: { odd: { json: odd.json } }\nsubgoals: [{ id: a, steps: [{ set: { x: '${ inputs.odd }' } }] }]");
    place.write("odd.json", half);
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("odd.json:1:16") && said.err.contains("is not JSON"), "{said:?}");

    let task = std::fs::read_to_string(place.path().join("task.yaml")).unwrap();
    place.write("task.yaml", &task.replace("{ json: odd.json }", "{}"));
    assert_eq!(place.loopforge(&["run", "task.yaml", "--input", &format!("odd={half}")]).code, 0);
    assert_eq!(place.loopforge(&["state", &place.run(), "get", "x", "--json"]).json(), half);
}
