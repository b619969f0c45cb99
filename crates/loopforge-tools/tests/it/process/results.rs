//! What goes in and what comes out.

use std::collections::BTreeMap;

use loopforge_core::task::Grants;
use loopforge_core::tool::{Code, Effect};
use loopforge_tools::process::{ProcessConfig, ProcessError, ProcessTool, sandbox_support};
use loopforge_tools::{EffectStatus, Tool};
use serde_json::json;

use super::{Bench, config, lines, object, off, text, tool, write_config};

#[tokio::test]
async fn arguments_go_in_as_json_and_the_result_comes_out_as_json() {
    let bench = Bench::new();
    bench.file(
        "double.py",
        "import json, sys\na = json.load(sys.stdin)\nprint(json.dumps({'twice': a['n'] * 2, 'who': a['who']}))",
    );
    let result = tool(&["python3", "double.py"], None).call(json!({"n": 21, "who": "Zoë 😀"}), &bench.context()).await;
    assert_eq!(result.error, None);
    assert_eq!(result.data, json!({"twice": 42, "who": "Zoë 😀"}));
    assert!(result.marks.is_empty() && result.raw.is_none());
}

#[tokio::test]
async fn arguments_fill_the_command_without_a_shell() {
    let bench = Bench::new();
    let tool = tool(&["printf", "%s|", "--for={name}", "{n}", "{list}"], None);
    let arguments = json!({"name": "a b; $(id) `id` '\"", "n": 2.5, "list": [1, {"a": null}]});
    let result = tool.call(arguments, &bench.context()).await;
    assert_eq!(text(&result), "--for=a b; $(id) `id` '\"|2.5|[1,{\"a\":null}]|");
}

#[tokio::test]
async fn a_missing_argument_starts_nothing() {
    let bench = Bench::new();
    let result = tool(&["touch", "{file}"], off()).call(json!({}), &bench.context()).await;
    assert_eq!(result.code, Code::InvalidArgument);
    assert!(!result.effect_possible);
}

#[tokio::test]
async fn the_environment_holds_what_was_granted_and_nothing_else() {
    let bench = Bench::new();
    let grants = Grants { env: vec!["CARGO_PKG_NAME".to_owned(), "NO_SUCH_VARIABLE".to_owned()], ..Grants::default() };
    let result = bench.python("import json, os\nprint(json.dumps(dict(os.environ)))", grants).await;
    let mut environment: BTreeMap<String, String> = serde_json::from_value(result.data).unwrap();
    environment.remove("PATH").unwrap();
    // Python sets it in the C locale; not ours.
    environment.remove("LC_CTYPE");
    let workspace = bench.workspace().to_string_lossy().into_owned();
    let context = bench.context();
    let expected = [
        ("CARGO_PKG_NAME", "loopforge-tools".to_owned()),
        ("HOME", workspace.clone()),
        ("LANG", "C.UTF-8".to_owned()),
        ("LOOPFORGE_ATTEMPT", "1".to_owned()),
        ("LOOPFORGE_RUN", context.run.to_string()),
        ("LOOPFORGE_STEP", "3".to_owned()),
        ("LOOPFORGE_STEP_TOKEN", context.step_token.unwrap().to_string()),
        ("LOOPFORGE_WORKSPACE", workspace.clone()),
        ("TMPDIR", format!("{workspace}/tmp")),
    ];
    assert_eq!(environment, expected.map(|(name, value)| (name.to_owned(), value)).into());
}

#[tokio::test]
async fn without_a_sandbox_the_environment_is_as_bare() {
    let bench = Bench::new();
    let result = tool(&["env"], off()).call(json!({}), &bench.context()).await;
    assert!(!text(&result).contains("CARGO"), "{}", text(&result));
    assert!(text(&result).contains("LOOPFORGE_RUN=run_"));
}

#[tokio::test]
async fn every_try_of_a_write_carries_the_same_token() {
    let bench = Bench::new();
    let command = ["sh", "-c", "echo $LOOPFORGE_ATTEMPT $LOOPFORGE_STEP_TOKEN >> $HOME/tries; exit 69"];
    let tool = ProcessTool::new(write_config(&command)).unwrap();
    let mut context = bench.context();
    for attempt in 1..=3 {
        context.attempt = attempt;
        let result = tool.call(json!({}), &context).await;
        assert_eq!(result.code, Code::Unavailable, "{result:?}");
        assert!(result.leaves_effect_unknown());
    }
    let token = context.step_token.unwrap();
    let expected: Vec<_> = (1..=3).map(|attempt| format!("{attempt} {token}")).collect();
    assert_eq!(lines(&bench.workspace().join("tries")), expected);
}

#[tokio::test]
async fn fifty_megabytes_come_through() {
    let bench = Bench::new();
    let result =
        bench.python("import sys\nsys.stdout.write('[\"' + 'x' * 50_000_000 + '\"]')", Grants::default()).await;
    assert_eq!(result.data[0].as_str().map(str::len), Some(50_000_000), "{:?}", result.error);
}

#[tokio::test]
async fn more_than_the_cap_ends_the_command() {
    let bench = Bench::new();
    let tool = ProcessTool::new(ProcessConfig { output_cap: 100_000, ..config(&["yes"]) }).unwrap();
    let result = tool.call(json!({}), &bench.context()).await;
    assert_eq!(result.code, Code::MalformedOutput);
    assert!(result.error.unwrap().contains("100000 bytes"));
    // Just the cap is within it.
    let tool = ProcessTool::new(ProcessConfig { output_cap: 10, ..config(&["printf", "0123456789"]) }).unwrap();
    assert_eq!(text(&tool.call(json!({}), &bench.context()).await), "0123456789");
}

#[tokio::test]
async fn a_large_document_goes_in_whole_or_unread() {
    let bench = Bench::new();
    let arguments = json!({"text": "y".repeat(20_000_000)});
    let result = tool(&["wc", "-c"], None).call(arguments.clone(), &bench.context()).await;
    assert_eq!(result.data, json!(20_000_011));
    assert_eq!(tool(&["true"], None).call(arguments, &bench.context()).await.code, Code::Success);
}

#[tokio::test]
async fn bytes_of_all_kinds_become_a_result() {
    let bench = Bench::new();
    let random = "import os, sys\nos.write(1, os.urandom(1000)); sys.stdout.buffer.write(os.urandom(1_000_000))";
    let result = bench.python(random, Grants::default()).await;
    assert_eq!(
        (result.code, &result.data["binary"], &result.data["bytes"]),
        (Code::Success, &json!(true), &json!(1_001_000))
    );
    assert_eq!(result.raw.unwrap().bytes.len(), 1_001_000);

    let result = bench
        .python(
            "print('{\"a\": NaN, \"b\": [\"\\\\ud83d\", 1e999], \"c\": \"\\\\u0000\", \"d\": 5}')",
            Grants::default(),
        )
        .await;
    assert_eq!(result.data, json!({"a": null, "b": ["\u{FFFD}", null], "c": "\u{2400}", "d": 5}));
    assert_eq!(result.marks.len(), 3, "{:?}", result.marks);
    assert!(result.raw.is_some());

    // A file name that is not UTF-8.
    let result = bench.shell("cd $HOME && : > $(printf 'caf\\351') && ls", Grants::default()).await;
    assert!(text(&result).contains("caf\u{FFFD}"), "{result:?}");
}

#[tokio::test]
async fn a_failure_shows_the_end_of_what_was_said() {
    let bench = Bench::new();
    let script =
        "import sys\nfor n in range(100000): print('line', n, file=sys.stderr)\nprint('{\"seen\": 1}')\nsys.exit(66)";
    let result = bench.python(script, Grants::default()).await;
    assert_eq!((result.code, result.data), (Code::NotFound, json!({"seen": 1})));
    let error = result.error.unwrap();
    assert!(error.contains("exited with code 66") && error.ends_with("line 99999"), "{error}");
    assert!(error.len() < 9000);
}

#[tokio::test]
async fn signals_and_crashes_are_told() {
    let bench = Bench::new();
    let result = bench.shell("kill -SEGV $$", Grants::default()).await;
    assert_eq!(result.code, Code::Internal);
    assert!(result.error.unwrap().contains("SIGSEGV"));
    let tool = ProcessTool::new(write_config(&["sh", "-c", "kill -9 $$"])).unwrap();
    let result = tool.call(json!({}), &bench.context()).await;
    assert_eq!(result.code, Code::Unknown);
    assert!(result.leaves_effect_unknown());
}

#[tokio::test]
async fn a_program_that_is_not_there_has_done_nothing() {
    let bench = Bench::new();
    for (command, hint) in [("no-such-program", "PATH"), ("./no-such-program", "task's folder")] {
        for sandbox in [None, off()] {
            let result = tool(&[command], sandbox).call(json!({}), &bench.context()).await;
            assert_eq!(result.code, Code::Internal);
            assert!(!result.effect_possible);
            let error = result.error.unwrap();
            assert!(error.contains("no-such-program") && error.contains(hint), "{error}");
        }
    }
    bench.file("not-executable", "echo");
    let error = tool(&["./not-executable"], None).call(json!({}), &bench.context()).await.error.unwrap();
    assert!(error.contains("must be executable"), "{error}");
}

#[test]
fn a_program_can_be_looked_for_without_starting_it() {
    let bench = Bench::new();
    assert!(tool(&["sh"], None).find_program(&bench.base()).unwrap().ends_with("sh"));
    let error = tool(&["./gone"], None).find_program(&bench.base()).unwrap_err();
    assert!(error.to_string().contains("`./gone` (relative paths"), "{error}");
}

#[tokio::test]
async fn a_program_beside_the_task_file_runs_there() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let path = bench.file("bin/where", "#!/bin/sh\npwd\n");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let result = tool(&["bin/where"], None).call(json!({}), &bench.context()).await;
    assert_eq!(text(&result).trim_end(), bench.base().to_str().unwrap(), "{result:?}");
}

#[tokio::test]
async fn a_missing_grant_is_named() {
    let bench = Bench::new();
    let grants = Grants { read: vec!["data".to_owned()], ..Grants::default() };
    let result = bench.shell("true", grants).await;
    assert!(result.error.unwrap().contains("`data`"));
    assert!(!result.effect_possible);
}

#[tokio::test]
async fn a_helper_that_is_none_is_found_out() {
    let bench = Bench::new();
    for helper in ["/bin/true", "/no/such/helper"] {
        let config = ProcessConfig { helper: Some(helper.into()), ..config(&["true"]) };
        let result = ProcessTool::new(config).unwrap().call(json!({}), &bench.context()).await;
        assert_eq!(result.code, Code::Internal);
        assert!(result.error.unwrap().contains("helper"));
    }
}

#[test]
fn a_command_must_fit_its_schema() {
    let mut wrong = config(&["echo", "{nmae}"]);
    wrong.contract.input_schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let error = ProcessTool::new(wrong.clone()).unwrap_err();
    assert_eq!(error, ProcessError::UnknownArgument { name: "nmae".to_owned() });
    assert!(error.to_string().contains("`{{nmae}}`"), "{error}");
    wrong.command = vec!["echo".to_owned(), "{name}".to_owned()];
    wrong.status = Some(vec!["check".to_owned(), "{step_token}".to_owned()]);
    assert!(ProcessTool::new(wrong).is_ok());
}

#[tokio::test]
async fn the_status_command_tells_whether_an_effect_happened() {
    let bench = Bench::new();
    let ledger = "
import json, os, sys
question = json.load(sys.stdin)
path = os.environ['HOME'] + '/ledger'
done = open(path).read().split() if os.path.exists(path) else []
if sys.argv[1:] == ['--status']:
    if question.get('mode') == 'broken': sys.exit('no idea')
    if question.get('mode') == 'odd': print('maybe'); sys.exit()
    if question['step_token'] in done: print(json.dumps({'happened': True, 'result': {'amount': question['amount']}}))
    elif question.get('mode') == 'code': sys.exit(66)
    else: print(json.dumps({'happened': False}))
else:
    open(path, 'a').write(os.environ['LOOPFORGE_STEP_TOKEN'] + '\\n')
";
    bench.file("ledger.py", ledger);
    let config = ProcessConfig {
        status: Some(["python3", "ledger.py", "--status"].map(str::to_owned).to_vec()),
        ..write_config(&["python3", "ledger.py"])
    };
    let tool = ProcessTool::new(config).unwrap();
    assert_eq!(tool.contract().effect, Effect::Write);
    let context = bench.context();
    assert_eq!(tool.status(json!({"amount": 5}), &context).await, EffectStatus::NotHappened);
    assert_eq!(tool.status(json!({"amount": 5, "mode": "code"}), &context).await, EffectStatus::NotHappened);
    assert_eq!(tool.call(json!({"amount": 5}), &context).await.error, None);
    assert_eq!(tool.status(json!({"amount": 5}), &context).await, EffectStatus::Happened(json!({"amount": 5})));
    for mode in ["broken", "odd"] {
        let status = tool.status(json!({"amount": 5, "mode": mode}), &context).await;
        assert!(matches!(status, EffectStatus::Unknown(_)), "{status:?}");
    }
    let blind = super::tool(&["true"], None);
    assert!(matches!(blind.status(json!({}), &context).await, EffectStatus::Unknown(_)));
}

#[tokio::test]
async fn this_kernel_can_sandbox() {
    // What the other tests assert is asserted of a real sandbox; on a kernel without one they would all fail.
    let support = sandbox_support();
    assert!(support.is_sufficient(), "{support:?}");
    assert!(object(&serde_json::to_value(support).unwrap()).contains_key("gaps"));
}
