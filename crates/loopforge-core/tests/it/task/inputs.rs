//! Inputs: from bytes or an argument to a value.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use loopforge_core::task::Input;
use loopforge_core::task::inputs::{self, ArgumentValue, Given, InputKind, parse_argument, resolve_input};
use serde_json::{Value, json};

fn of(kind: InputKind) -> Input {
    let file = Some("f".to_owned());
    match kind {
        InputKind::Lines => Input { lines: file, ..Input::default() },
        InputKind::Text => Input { text: file, ..Input::default() },
        InputKind::Json => Input { json: file, ..Input::default() },
        InputKind::Value => Input::default(),
    }
}

fn file(kind: InputKind, bytes: &[u8]) -> Result<Value, String> {
    resolve_input("pages", &of(kind), Given::Bytes { origin: "pages.txt", bytes })
        .map_err(|problem| problem.to_string())
}

fn text(kind: InputKind, text: &str) -> Result<Value, String> {
    resolve_input("pages", &of(kind), Given::Text(text)).map_err(|problem| problem.to_string())
}

#[test]
fn lines_are_trimmed_and_comments_dropped() {
    let bytes = "\u{feff}# pages\r\n  http://a/?x=1#top \r\n\r\n\t\n商品 一\n #no\nlast".as_bytes();
    assert_eq!(file(InputKind::Lines, bytes), Ok(json!(["http://a/?x=1#top", "商品 一", "last"])));
    assert_eq!(text(InputKind::Lines, "one"), Ok(json!(["one"])));
}

#[test]
fn each_kind_reads_its_own_way() {
    assert_eq!(file(InputKind::Text, "\u{feff}a\r\n b".as_bytes()), Ok(json!("a\r\n b")));
    assert_eq!(file(InputKind::Json, b"\xef\xbb\xbf{ \"a\": [1, null] }\n"), Ok(json!({ "a": [1, null] })));
    assert_eq!(text(InputKind::Text, "[1]"), Ok(json!("[1]")));
    assert_eq!(text(InputKind::Text, ""), Ok(json!("")));
    assert_eq!(text(InputKind::Value, "[1, 2]"), Ok(json!([1, 2])));
    assert_eq!(text(InputKind::Value, "7"), Ok(json!(7)));
    assert_eq!(text(InputKind::Value, "seven, eight"), Ok(json!("seven, eight")));
}

#[test]
fn a_file_in_the_place_of_a_list_is_one() {
    let input = Input { value: Some(json!(["a"])), ..Input::default() };
    let file = |bytes| resolve_input("pages", &input, Given::Bytes { origin: "pages.txt", bytes }).unwrap();
    assert_eq!(file(b"http://a/\n# no\nhttp://b/\n"), json!(["http://a/", "http://b/"]));
    assert_eq!(file(b"[1, 2]"), json!([1, 2]));
    assert_eq!(resolve_input("pages", &input, Given::Text("b")).unwrap(), json!("b"));
}

#[test]
fn contents_that_are_wrong() {
    assert_snapshot!(file(InputKind::Lines, b"").unwrap_err(), @r#"
pages.txt:1:1: input `pages` is a list without anything in it
  = help: write one item on each line; blank lines and lines that begin with `#` don't count
"#);
    assert_snapshot!(file(InputKind::Lines, b"# only\n\n").unwrap_err(), @r#"
pages.txt:1:1: input `pages` is a list without anything in it
  |
1 | # only
  | ^
  = help: write one item on each line; blank lines and lines that begin with `#` don't count
"#);
    assert_snapshot!(file(InputKind::Text, b" \n").unwrap_err(), @r#"
pages.txt:1:1: the file of input `pages` is empty
  = help: write something into it, or name another file
"#);
    assert_snapshot!(file(InputKind::Json, b"").unwrap_err(), @r#"
pages.txt:1:1: the file of input `pages` is empty
  = help: write something into it, or name another file
"#);
    assert_snapshot!(file(InputKind::Lines, b"a\nb\xe4rlin\n").unwrap_err(), @r#"
pages.txt:2:2: not UTF-8 at byte 3 (0xe4)
  |
2 | b
  |  ^
  = help: save it as UTF-8
"#);
    assert_snapshot!(file(InputKind::Lines, b"\xff\xfea\0b\0").unwrap_err(), @r#"
pages.txt:1:1: not UTF-8 at byte 0 (0xff)
  = help: the file is UTF-16: save it as UTF-8
"#);
    assert_snapshot!(file(InputKind::Text, b"a\nb\0c").unwrap_err(), @r#"
pages.txt:2:2: a NUL character at byte 3
  |
2 | b�c
  |  ^
  = help: save it as UTF-8 text (UTF-16 looks like this)
"#);
    assert_snapshot!(file(InputKind::Json, "{\n  \"价格\": 1,\n  \"b\": 二\n}".as_bytes()).unwrap_err(), @r#"
pages.txt:3:8: input `pages` is not JSON: expected value
  |
3 |   "b": 二
  |        ^
  = help: for plain text write `text` instead of `json` in the task, for a list of lines `lines`
"#);
    assert_snapshot!(file(InputKind::Json, b"[1, 2").unwrap_err(), @r#"
pages.txt:1:5: input `pages` is not JSON: EOF while parsing a list
  |
1 | [1, 2
  |     ^
  = help: for plain text write `text` instead of `json` in the task, for a list of lines `lines`
"#);
}

#[test]
fn files_that_are_not_there_or_too_large() {
    assert_snapshot!(inputs::too_large("pages", "pages.txt", 200 * 1024 * 1024), @r#"
pages.txt:1:1: the file of input `pages` is 200 MB large, at most 64 MB are read
  = help: give a list of paths or keys, and let a tool read the parts when they are needed
"#);
    assert_snapshot!(inputs::no_file("pages", "pages.txt", "No such file or directory"), @r#"
pages.txt:1:1: the file of input `pages` can't be read: No such file or directory
  = help: paths start at the folder of the task file; or give another: `--input pages=@FILE`
"#);
    let input = Input { description: Some("one URL on each line".to_owned()), ..Input::default() };
    assert_snapshot!(inputs::not_given("pages", &input, "task.yaml"), @r#"
task.yaml:1:1: input `pages` (one URL on each line) was not given
  = help: add `--input pages=VALUE` or `--input pages=@FILE`
"#);
    let bytes = vec![b'a'; 65 * 1024 * 1024];
    let problem = file(InputKind::Text, &bytes).unwrap_err();
    assert_snapshot!(problem, @r#"
pages.txt:1:1: the file of input `pages` is 65 MB large, at most 64 MB are read
  = help: give a list of paths or keys, and let a tool read the parts when they are needed
"#);
}

#[test]
fn arguments() {
    let known = BTreeMap::from([("pages".to_owned(), Input::default())]);
    let value =
        |text| parse_argument(text, &known).map(|argument| argument.value).map_err(|problem| problem.to_string());
    assert_eq!(value("pages=a=b,c"), Ok(ArgumentValue::Text("a=b,c")));
    assert_eq!(value("pages="), Ok(ArgumentValue::Text("")));
    assert_eq!(value("pages=@list.txt"), Ok(ArgumentValue::File("list.txt")));
    assert_eq!(value("pages=@@home"), Ok(ArgumentValue::Text("@home")));
    assert_snapshot!(value("pages").unwrap_err(), @r#"
--input:1:1: `pages` gives no value
  |
1 | pages
  | ^^^^^
  = help: write `NAME=VALUE`, or `NAME=@FILE` for the content of a file
"#);
    assert_snapshot!(value("page=1").unwrap_err(), @r#"
--input:1:1: the task has no input `page`
  |
1 | page=1
  | ^^^^
  = help: did you mean `pages`?
"#);
}
