//! What people see when a task file is wrong: one test for each kind of mistake.

use insta::assert_snapshot;
use loopforge_core::task;

use super::catalog;

/// The problems of a file.
fn problems(file: &str) -> String {
    match task::read(file, "task.yaml", &catalog()) {
        Ok(task) => panic!("this file is right: {task:?}"),
        Err(problems) => problems.to_string(),
    }
}

/// The problems of a task that is right but for `part`, which stands before its subgoals.
fn with(part: &str) -> String {
    problems(&format!("name: patrol\ngoal: Look.\n{part}\nsubgoals:\n  - id: look\n    steps:\n      - wait: 1s\n"))
}

/// The problems of a task with these steps.
fn steps(steps: &str) -> String {
    problems(&format!(
        "name: patrol
goal: Look.
inputs: {{ pages: {{ lines: pages.txt }} }}
tools:
  fetch: {{ builtin: http_get, allow: [shop.example] }}
  tally: {{ process: [tally] }}
subgoals:
  - id: look
    steps:
{steps}"
    ))
}

#[test]
fn keys() {
    assert_snapshot!(with("tools:\n  fetch:\n    builtin: http_get\n    allow: [shop.example]\n    tiemout: 10s\n    colour: red"), @r#"
task.yaml:7:5: unknown key `tiemout` in a tool
  |
7 |     tiemout: 10s
  |     ^^^^^^^
  = help: did you mean `timeout`?

task.yaml:8:5: unknown key `colour` in a tool
  |
8 |     colour: red
  |     ^^^^^^
  = help: known keys: builtin, process, description, input_schema, output_schema, effect, idempotent, effect_key, grounded, status, requires, with, timeout, retry, max_calls, concurrency, cache, key_fields, volatile, meaning_of_empty, allow, sandbox
"#);
    assert_snapshot!(with("loop: { max_steps: 3, max_steps: 4 }"), @r#"
task.yaml:3:23: `max_steps` is given twice
  |
3 | loop: { max_steps: 3, max_steps: 4 }
  |                       ^^^^^^^^^
  = help: keep one of the two
"#);
    assert_snapshot!(with("Tools: {}"), @r#"
task.yaml:3:1: unknown key `Tools` in a task
  |
3 | Tools: {}
  | ^^^^^
  = help: did you mean `tools`?
"#);
    assert_snapshot!(problems("name: a\ngoal: b\nsubgoals:\n  - id: x\n    depends_on: [y]\n    steps:\n    - { call: fetch, args: { a: 1 } }\n"), @r#"
task.yaml:5:5: unknown key `depends_on` in a subgoal
  |
5 |     depends_on: [y]
  |     ^^^^^^^^^^
  = help: did you mean `needs`?

task.yaml:7:15: the task lists no tool `fetch`
  |
7 |     - { call: fetch, args: { a: 1 } }
  |               ^^^^^
  = help: there are no tools

task.yaml:7:22: unknown key `args` in a step
  |
7 |     - { call: fetch, args: { a: 1 } }
  |                      ^^^^
  = help: did you mean `with`?
"#);
    assert_snapshot!(problems("goal: b\nsubgoals: []\n"), @r#"
task.yaml:1:1: a task lacks `name`
  |
1 | goal: b
  | ^^^^
  = help: add `name: ...`
"#);
    assert_snapshot!(with("loop:"), @r#"
task.yaml:3:5: no value given, expected `loop`, which is a map
  |
3 | loop:
  |     ^
  = help: give a value, or remove the key
"#);
}

#[test]
fn types() {
    assert_snapshot!(with("loop: { max_steps: many, parallel: 2.0, replan_after: '3', checkpoint_interval: -1, max_duration: 10, idle_timeout: soon, on_max_steps: stopp, defer_rounds: 99999999999 }"), @r#"
task.yaml:3:20: expected a whole number from 0, found the text `many`
  |
3 | loop: { max_steps: many, parallel: 2.0, replan_after: '3', checkpoint_interval: -1, max_duration: 10, idle_timeout: soon…
  |                    ^^^^

task.yaml:3:36: expected a whole number from 0, found the number 2.0
  |
3 | loop: { max_steps: many, parallel: 2.0, replan_after: '3', checkpoint_interval: -1, max_duration: 10, idle_timeout: soon…
  |                                    ^^^
  = help: write `2`

task.yaml:3:55: expected a whole number from 0, found the text `3`
  |
3 | loop: { max_steps: many, parallel: 2.0, replan_after: '3', checkpoint_interval: -1, max_duration: 10, idle_timeout: soon…
  |                                                       ^^^
  = help: write it without quotes

task.yaml:3:81: expected a whole number from 0, found the number -1
  |
3 | loop: { max_steps: many, parallel: 2.0, replan_after: '3', checkpoint_interval: -1, max_duration: 10, idle_timeout: soon…
  |                                                                                 ^^

task.yaml:3:99: expected a time span, found the number 10
  |
3 | … checkpoint_interval: -1, max_duration: 10, idle_timeout: soon, on_max_steps: stopp, defer_rounds: 99999999999 }
  |                                          ^^
  = help: say the unit: `10s` for seconds

task.yaml:3:117: `soon` is not a time span: write `10s`, `5m`, `2h`, `300ms`, `1h 30m` or `PT5M`
  |
3 | …al: -1, max_duration: 10, idle_timeout: soon, on_max_steps: stopp, defer_rounds: 99999999999 }
  |                                          ^^^^

task.yaml:3:137: `stopp` is not one of stop, ask
  |
3 | …: 10, idle_timeout: soon, on_max_steps: stopp, defer_rounds: 99999999999 }
  |                                          ^^^^^
  = help: did you mean `stop`?

task.yaml:3:158: 99999999999 is too large, at most 4294967295 is possible
  |
3 | …oon, on_max_steps: stopp, defer_rounds: 99999999999 }
  |                                          ^^^^^^^^^^^
"#);
    assert_snapshot!(with("tools:\n  fetch: http_get\n  tally: { process: tally, idempotent: yes, status: 3, sandbox: on }\ninputs:\n  pages: pages.txt"), @r#"
task.yaml:4:10: expected a tool, which is a map, found the text `http_get`
  |
4 |   fetch: http_get
  |          ^^^^^^^^
  = help: say where it comes from: `{ builtin: http_get }` or `{ process: [...] }`

task.yaml:5:21: expected a list, found the text `tally`
  |
5 |   tally: { process: tally, idempotent: yes, status: 3, sandbox: on }
  |                     ^^^^^
  = help: write it in brackets: `[tally]`

task.yaml:5:40: expected `true` or `false`, found the text `yes`
  |
5 |   tally: { process: tally, idempotent: yes, status: 3, sandbox: on }
  |                                        ^^^
  = help: write `true`

task.yaml:5:53: expected the name of a tool, or a process, which is a map, found the number 3
  |
5 |   tally: { process: tally, idempotent: yes, status: 3, sandbox: on }
  |                                                     ^

task.yaml:5:65: expected `off` or grants, found the text `on`
  |
5 |   tally: { process: tally, idempotent: yes, status: 3, sandbox: on }
  |                                                                 ^^
  = help: a process is sandboxed anyway: remove it, write `off`, or say what it may reach: `{ read: ["."] }`

task.yaml:7:10: expected an input, which is a map, found the text `pages.txt`
  |
7 |   pages: pages.txt
  |          ^^^^^^^^^
  = help: say how it is read: `{ lines: pages.txt }`, or `text`, `json` or `value`
"#);
    assert_snapshot!(problems("name: 7\ngoal: [look]\nsubgoals: { id: look }\nevaluator: { criteria: size(state.x) > 0 }\n"), @r#"
task.yaml:1:7: expected a text, found the number 7
  |
1 | name: 7
  |       ^
  = help: put it in quotes

task.yaml:2:7: expected a text, found a list
  |
2 | goal: [look]
  |       ^^^^^
  = help: a text that begins with `[` is written in quotes

task.yaml:3:11: expected a list, found a map
  |
3 | subgoals: { id: look }
  |           ^^^^^^^^^^^
  = help: begin each entry with `- `

task.yaml:4:24: expected a list, found the text `size(state.x) > 0`
  |
4 | evaluator: { criteria: size(state.x) > 0 }
  |                        ^^^^^^^^^^^^^^^^^
  = help: write it in brackets: `[size(state.x) > 0]`
"#);
    assert_snapshot!(problems("- a\n- b\n"), @r#"
task.yaml:1:1: expected a task, which is a map, found a list
  |
1 | - a
  | ^^^
"#);
    assert_snapshot!(problems("just a text"), @r#"
task.yaml:1:1: expected a task, which is a map, found the text `just a text`
  |
1 | just a text
  | ^^^^^^^^^^^
"#);
}

#[test]
fn texts_that_are_no_yaml() {
    assert_snapshot!(problems(""), @r#"
task.yaml:1:1: the file is empty
  = help: write a task: it begins with `name`, `goal` and `subgoals`
"#);
    assert_snapshot!(problems("# only a comment\n"), @r#"
task.yaml:1:1: the file is empty
  |
1 | # only a comment
  | ^
  = help: write a task: it begins with `name`, `goal` and `subgoals`
"#);
    assert_snapshot!(problems("name: \"open\ngoal: b\n"), @r#"
task.yaml:1:7: not YAML: unclosed quote
  |
1 | name: "open
  |       ^
  = help: add the closing quote
"#);
    assert_snapshot!(problems("name: a\n  goal: b\n"), @r#"
task.yaml:2:7: not YAML: mapping values are not allowed in this context
  |
2 |   goal: b
  |       ^
  = help: keys of one map begin in one column, and a text with `: ` in it is written in quotes
"#);
    assert_snapshot!(problems("name: a\n\tgoal: b\n"), @r#"
task.yaml:1:7: not YAML: while scanning a plain scalar, found a tab
  |
1 | name: a
  |       ^
  = help: indent with spaces, not tabs
"#);
    assert_snapshot!(problems("name: a\n---\nname: b\n"), @r#"
task.yaml:2:1: a second document begins here
  |
2 | ---
  | ^^^
  = help: one file holds one task: remove the `---` and what follows, or use a file of its own
"#);
    assert_snapshot!(problems("name: *nowhere\n"), @r#"
task.yaml:1:7: not YAML: while parsing node, found unknown anchor
  |
1 | name: *nowhere
  |       ^
  = help: a text that begins with `*` is written in quotes
"#);
    assert_snapshot!(problems("name: !!binary aGk=\n"), @r#"
task.yaml:1:16: the tag `!!binary` has no meaning here
  |
1 | name: !!binary aGk=
  |                ^^^^
  = help: remove it; a text that looks like something else is written in quotes
"#);
    assert_snapshot!(problems("name: &a [*a]\n"), @r#"
task.yaml:1:11: an alias stands within what it stands for
  |
1 | name: &a [*a]
  |           ^^
  = help: write the value out
"#);
    assert_snapshot!(problems("{ \"name\": \"a\", \"goal\": }"), @r#"
task.yaml:1:3: a task lacks `subgoals`
  |
1 | { "name": "a", "goal": }
  |   ^^^^^^
  = help: add `subgoals: ...`

task.yaml:1:22: no value given, expected a text
  |
1 | { "name": "a", "goal": }
  |                      ^
  = help: give a value, or remove the key
"#);
    assert_snapshot!(steps("      - { call: fetch, with: { url: ${ inputs.pages } } }\n"), @r#"
task.yaml:10:38: not YAML: while parsing a flow mapping, did not find expected ',' or '}'
   |
10 |       - { call: fetch, with: { url: ${ inputs.pages } } }
   |                                      ^
   = help: a text with `${ }` is written in quotes: "${ inputs.pages }"
"#);
    assert_snapshot!(with("inputs: { big: { value: 123456789012345678901234567890 } }"), @r#"
task.yaml:3:25: `123456789012345678901234567890` is too large for a number
  |
3 | inputs: { big: { value: 123456789012345678901234567890 } }
  |                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: write it in quotes, as a text
"#);
}

#[test]
fn parts_that_are_not_built_yet() {
    assert_snapshot!(with("model: { use: openai/gpt-5-mini }\nmcpServers: {}\nloop: { mode: react, summary_threshold: 0.7, max_tokens_per_step: 4000 }\nevaluator: { judge: true, allow_replan: true }"), @r#"
task.yaml:4:1: `mcpServers` is not available in this version of LoopForge
  |
4 | mcpServers: {}
  | ^^^^^^^^^^
  = help: no server would be started; remove it, and use `builtin` or `process` tools

task.yaml:5:22: `summary_threshold` is not available in this version of LoopForge
  |
5 | loop: { mode: react, summary_threshold: 0.7, max_tokens_per_step: 4000 }
  |                      ^^^^^^^^^^^^^^^^^
  = help: there is no model whose context could fill; remove it
"#);
    assert_snapshot!(with("tools:\n  refund: { process: [refund], approval: always, confirm: human, compensate: undo }\n  shop: { mcp: shop }"), @r#"
task.yaml:4:32: `approval` is not available in this version of LoopForge
  |
4 |   refund: { process: [refund], approval: always, confirm: human, compensate: undo }
  |                                ^^^^^^^^
  = help: nobody would be asked before a call; remove it, or leave the call out of the task and make it yourself

task.yaml:4:50: `confirm` is not available in this version of LoopForge
  |
4 |   refund: { process: [refund], approval: always, confirm: human, compensate: undo }
  |                                                  ^^^^^^^
  = help: nobody would look; remove it, and say what must hold in `requires`

task.yaml:4:66: `compensate` is not available in this version of LoopForge
  |
4 |   refund: { process: [refund], approval: always, confirm: human, compensate: undo }
  |                                                                  ^^^^^^^^^^
  = help: nothing would be undone; remove it, and undo effects by a step of your own

task.yaml:5:11: `mcp` is not available in this version of LoopForge
  |
5 |   shop: { mcp: shop }
  |           ^^^
  = help: use `builtin` or `process`
"#);
    assert_snapshot!(problems("name: a\ngoal: b\nsubgoals:\n  - id: think\n    goal: Think.\n  - id: work\n    steps: [{ approve: ok }]\n"), @r#"
task.yaml:4:5: `think` has no steps, and the task has no model that could decide them
  |
4 |   - id: think
  |     ^^^^^^^^^
  = help: say what is done: `steps: [{ call: TOOL, with: { ... } }]`, or who decides: `model: provider/name`

task.yaml:7:15: `approve` is not available in this version of LoopForge
  |
7 |     steps: [{ approve: ok }]
  |               ^^^^^^^
  = help: nobody would be asked; remove it, or end the task before this step
"#);
    assert_snapshot!(problems("name: a\ngoal: b\nsubgoals: [{ id: work, on_failure: replan, steps: [{ wait: 1s }] }]\n"), @r#"
task.yaml:3:36: `replan` needs a planner
  |
3 | subgoals: [{ id: work, on_failure: replan, steps: [{ wait: 1s }] }]
  |                                    ^^^^^^
  = help: name a model: `model: provider/name`
"#);
    assert_snapshot!(problems("name: a\ngoal: b\nsubgoals:\n  - id: think\n    goal: Think.\n"), @r#"
task.yaml:4:5: `think` has no steps, and the task has no model that could decide them
  |
4 |   - id: think
  |     ^^^^^^^^^
  = help: say what is done: `steps: [{ call: TOOL, with: { ... } }]`, or who decides: `model: provider/name`
"#);
}

#[test]
fn names_and_needs() {
    assert_snapshot!(problems("name: a/b\ngoal: ' '\ninputs: { my-pages: {}, in: {} }\ntools: { 'a b': { process: [x] } }\nsubgoals:\n  - { id: my-part, steps: [{ wait: 1s }] }\n  - { id: x, steps: [{ wait: 1s }] }\n  - { id: x, steps: [{ wait: 1s }] }\n"), @r#"
task.yaml:1:7: `a/b` can't be a task's name
  |
1 | name: a/b
  |       ^^^
  = help: it is used in file names: up to 100 letters, digits, `-`, `_` and `.`, not beginning with `.`

task.yaml:2:7: the goal says nothing
  |
2 | goal: ' '
  |       ^^^
  = help: say what is to be reached

task.yaml:3:11: `my-pages` can't be the name of an input
  |
3 | inputs: { my-pages: {}, in: {} }
  |           ^^^^^^^^
  = help: expressions read it: letters of a to z, digits and `_`, not beginning with a digit

task.yaml:3:25: `in` can't be the name of an input
  |
3 | inputs: { my-pages: {}, in: {} }
  |                         ^^
  = help: it is a word of the expression language: choose another

task.yaml:4:10: `a b` can't be the name of a tool
  |
4 | tools: { 'a b': { process: [x] } }
  |          ^^^^^
  = help: up to 64 letters of a to z, digits, `_` and `-`

task.yaml:6:11: `my-part` can't be the name of a subgoal
  |
6 |   - { id: my-part, steps: [{ wait: 1s }] }
  |           ^^^^^^^
  = help: expressions read it: letters of a to z, digits and `_`, not beginning with a digit

task.yaml:8:11: `x` is the id of another subgoal too
  |
8 |   - { id: x, steps: [{ wait: 1s }] }
  |           ^
  = help: choose another; `subgoals[1]` has it already
"#);
    assert_snapshot!(problems("name: a\ngoal: b\nsubgoals:\n  - { id: fetch, needs: [fetch], steps: [{ wait: 1s }] }\n  - { id: report, needs: [fech, fetch, fetch], steps: [{ wait: 1s }] }\n"), @r#"
task.yaml:4:26: `fetch` needs itself and would never begin
  |
4 |   - { id: fetch, needs: [fetch], steps: [{ wait: 1s }] }
  |                          ^^^^^
  = help: remove it

task.yaml:5:27: there is no subgoal `fech`
  |
5 |   - { id: report, needs: [fech, fetch, fetch], steps: [{ wait: 1s }] }
  |                           ^^^^
  = help: did you mean `fetch`?

task.yaml:5:40: `fetch` is named twice
  |
5 |   - { id: report, needs: [fech, fetch, fetch], steps: [{ wait: 1s }] }
  |                                        ^^^^^
  = help: remove one of the two
"#);
    assert_snapshot!(problems("name: a\ngoal: b\nsubgoals:\n  - { id: d, needs: [c], steps: [{ wait: 1s }] }\n  - { id: a, needs: [b], steps: [{ wait: 1s }] }\n  - { id: b, needs: [c], steps: [{ wait: 1s }] }\n  - { id: c, needs: [a], steps: [{ wait: 1s }] }\n"), @r#"
task.yaml:5:21: these subgoals wait for each other: a -> b -> c -> a
  |
5 |   - { id: a, needs: [b], steps: [{ wait: 1s }] }
  |                     ^^
  = help: remove one of these needs
"#);
}

#[test]
fn tools() {
    assert_snapshot!(with("tools:\n  none: {}\n  both: { builtin: extract, process: [a] }\n  http_get: { allow: [shop.example] }\n  gone: { builtin: http_gett }\n  empty: { process: [] }"), @r#"
task.yaml:4:3: nothing says where the tool `none` comes from
  |
4 |   none: {}
  |   ^^^^
  = help: add `builtin: NAME`, or `process: [PROGRAM, ARGUMENT, ...]`

task.yaml:5:29: `both` has both `builtin` and `process`
  |
5 |   both: { builtin: extract, process: [a] }
  |                             ^^^^^^^
  = help: keep one; list the other as a tool of its own

task.yaml:6:3: nothing says where the tool `http_get` comes from
  |
6 |   http_get: { allow: [shop.example] }
  |   ^^^^^^^^
  = help: add `builtin: http_get`

task.yaml:7:20: there is no built-in tool `http_gett`
  |
7 |   gone: { builtin: http_gett }
  |                    ^^^^^^^^^
  = help: did you mean `http_get`?

task.yaml:8:21: no program is named
  |
8 |   empty: { process: [] }
  |                     ^
  = help: write the program and its arguments: `[python3, tally.py]`
"#);
    assert_snapshot!(with("tools:\n  open: { builtin: http_get }\n  bad: { builtin: http_get, allow: ['https://shop.example/a', 'shop.example/a', '::1', 'shop..example', 'a:http', '*.example.com:443'] }\n  no: { builtin: extract, allow: [a.b], sandbox: off }\n  pro: { process: [a], allow: [a.b], sandbox: { read: ['../x'], write: [''], env: ['A=1'], memory_mb: 0 } }"), @r#"
task.yaml:4:3: nothing says which hosts this tool may reach
  |
4 |   open: { builtin: http_get }
  |   ^^^^
  = help: add `allow: [shop.example]`; `*.example.com` stands for all below, `127.0.0.1:*` for all ports

task.yaml:5:37: `https://shop.example/a` is not a host
  |
5 |   bad: { builtin: http_get, allow: ['https://shop.example/a', 'shop.example/a', '::1', 'shop..example', 'a:http', '*.exa…
  |                                     ^^^^^^^^^^^^^^^^^^^^^^^^
  = help: write the host only: `shop.example`

task.yaml:5:63: `shop.example/a` is not a host
  |
5 |   bad: { builtin: http_get, allow: ['https://shop.example/a', 'shop.example/a', '::1', 'shop..example', 'a:http', '*.exa…
  |                                                               ^^^^^^^^^^^^^^^^
  = help: write the host only, without a path: `shop.example`

task.yaml:5:81: `::1` is not a host
  |
5 |   bad: { builtin: http_get, allow: ['https://shop.example/a', 'shop.example/a', '::1', 'shop..example', 'a:http', '*.exa…
  |                                                                                 ^^^^^
  = help: an IPv6 address stands in brackets: `[::1]`

task.yaml:5:88: `shop..example` is not a host
  |
5 | …op.example/a', 'shop.example/a', '::1', 'shop..example', 'a:http', '*.example.com:443'] }
  |                                          ^^^^^^^^^^^^^^^
  = help: write a host such as `shop.example`, `*.example.com` or `127.0.0.1:*`

task.yaml:5:105: `a:http` is not a host
  |
5 | …hop.example/a', '::1', 'shop..example', 'a:http', '*.example.com:443'] }
  |                                          ^^^^^^^^
  = help: after `:` stands a port, or `*` for all

task.yaml:6:27: this tool reaches no hosts
  |
6 |   no: { builtin: extract, allow: [a.b], sandbox: off }
  |                           ^^^^^
  = help: remove `allow`

task.yaml:6:41: only a process has a sandbox
  |
6 |   no: { builtin: extract, allow: [a.b], sandbox: off }
  |                                         ^^^^^^^
  = help: remove it

task.yaml:7:24: hosts can't be chosen for a process
  |
7 |   pro: { process: [a], allow: [a.b], sandbox: { read: ['../x'], write: [''], env: ['A=1'], memory_mb: 0 } }
  |                        ^^^^^
  = help: remove `allow`; `sandbox: { net: any }` opens the network as a whole

task.yaml:7:56: `../x` can't be granted
  |
7 |   pro: { process: [a], allow: [a.b], sandbox: { read: ['../x'], write: [''], env: ['A=1'], memory_mb: 0 } }
  |                                                        ^^^^^^
  = help: a grant doesn't climb: write the whole path, from `/`

task.yaml:7:73: `` can't be granted
  |
7 |   pro: { process: [a], allow: [a.b], sandbox: { read: ['../x'], write: [''], env: ['A=1'], memory_mb: 0 } }
  |                                                                         ^^
  = help: name a folder or file; `.` is the folder of the task file

task.yaml:7:84: `A=1` is not the name of a variable
  |
7 | …x: { read: ['../x'], write: [''], env: ['A=1'], memory_mb: 0 } }
  |                                          ^^^^^
  = help: write the name only, such as `LANG`; its value comes from the environment

task.yaml:7:103: 0 would let nothing happen
  |
7 | …, write: [''], env: ['A=1'], memory_mb: 0 } }
  |                                          ^
  = help: write 1 or more
"#);
    assert_snapshot!(with("tools:\n  pro: { process: [a], sandbox: { net: no } }"), @r#"
task.yaml:4:40: `no` is not one of none, any
  |
4 |   pro: { process: [a], sandbox: { net: no } }
  |                                        ^^
  = help: did you mean `none`?
"#);
    assert_snapshot!(with("tools:\n  file: { builtin: write_file, effect: read, cache: 1m, effect_key: [pth] }\n  get: { builtin: extract, effect_key: [html], status: file }\n  post: { process: [a], status: fil }\n  put: { process: [a], status: put, timeout: 0s, max_calls: 0, retry: { max_attempts: 0, backoff: [] } }"), @r#"
task.yaml:4:40: `file` changes the world and can't be a `read`
  |
4 |   file: { builtin: write_file, effect: read, cache: 1m, effect_key: [pth] }
  |                                        ^^^^
  = help: remove `effect`

task.yaml:4:57: `file` is a read, and has no effect
  |
4 |   file: { builtin: write_file, effect: read, cache: 1m, effect_key: [pth] }
  |                                                         ^^^^^^^^^^
  = help: remove `effect_key`, or say `effect: write`

task.yaml:4:70: `file` has no argument `pth`
  |
4 |   file: { builtin: write_file, effect: read, cache: 1m, effect_key: [pth] }
  |                                                                      ^^^
  = help: did you mean `path`?

task.yaml:5:28: `get` is a read, and has no effect
  |
5 |   get: { builtin: extract, effect_key: [html], status: file }
  |                            ^^^^^^^^^^
  = help: remove `effect_key`, or say `effect: write`

task.yaml:5:48: `get` is a read, and has no effect
  |
5 |   get: { builtin: extract, effect_key: [html], status: file }
  |                                                ^^^^^^
  = help: remove `status`, or say `effect: write`

task.yaml:6:33: there is no tool `fil`
  |
6 |   post: { process: [a], status: fil }
  |                                 ^^^
  = help: did you mean `file`?

task.yaml:7:32: `put` is a write, and asking whether an effect happened must change nothing
  |
7 |   put: { process: [a], status: put, timeout: 0s, max_calls: 0, retry: { max_attempts: 0, backoff: [] } }
  |                                ^^^
  = help: name a tool of its own that only asks, with `effect: read`

task.yaml:7:46: no time at all would let nothing happen
  |
7 |   put: { process: [a], status: put, timeout: 0s, max_calls: 0, retry: { max_attempts: 0, backoff: [] } }
  |                                              ^^
  = help: give a time such as `10s`

task.yaml:7:61: 0 would let nothing happen
  |
7 |   put: { process: [a], status: put, timeout: 0s, max_calls: 0, retry: { max_attempts: 0, backoff: [] } }
  |                                                             ^
  = help: write 1 or more

task.yaml:7:87: 0 would let nothing happen
  |
7 | …s, max_calls: 0, retry: { max_attempts: 0, backoff: [] } }
  |                                          ^
  = help: write 1 or more

task.yaml:7:99: a list of no waits
  |
7 | …: 0, retry: { max_attempts: 0, backoff: [] } }
  |                                          ^
  = help: write the waits, such as `[2s, 10s]`, or `max_attempts: 1` for a single try
"#);
    assert_snapshot!(with("tools:\n  a: { process: [a, '{nme}'], input_schema: { type: objekt, properties: { name: {} } }, output_schema: [x], key_fields: [price, $.items.0.id], volatile: [/ok] }"), @r#"
task.yaml:4:23: `a` has no argument `nme`
  |
4 |   a: { process: [a, '{nme}'], input_schema: { type: objekt, properties: { name: {} } }, output_schema: [x], key_fields: …
  |                       ^^^
  = help: did you mean `name`?

task.yaml:4:53: not a JSON Schema: there is no type `objekt`
  |
4 |   a: { process: [a, '{nme}'], input_schema: { type: objekt, properties: { name: {} } }, output_schema: [x], key_fields: …
  |                                                     ^^^^^^
  = help: did you mean `object`?

task.yaml:4:104: a JSON Schema is a map
  |
4 | …perties: { name: {} } }, output_schema: [x], key_fields: [price, $.items.0.id], volatile: [/ok] }
  |                                          ^^
  = help: for example `{ type: object, properties: { id: { type: string } }, required: [id] }`

task.yaml:4:122: `price` is not a JSON pointer
  |
4 | …} } }, output_schema: [x], key_fields: [price, $.items.0.id], volatile: [/ok] }
  |                                          ^^^^^
  = help: it begins with `/`: `/price`

task.yaml:4:129: `$.items.0.id` is not a JSON pointer
  |
4 | …output_schema: [x], key_fields: [price, $.items.0.id], volatile: [/ok] }
  |                                          ^^^^^^^^^^^^
  = help: it begins with `/`: `/items/0/id`
"#);
    assert_snapshot!(with("tools:\n  a: { builtin: extract, with: { htm: 1, template: lose } }"), @r#"
task.yaml:4:34: `a` has no argument `htm`
  |
4 |   a: { builtin: extract, with: { htm: 1, template: lose } }
  |                                  ^^^
  = help: did you mean `html`?

task.yaml:4:52: argument `template` of `a`: "lose" is not one of "strict" or "loose"
  |
4 |   a: { builtin: extract, with: { htm: 1, template: lose } }
  |                                                    ^^^^
"#);
}

#[test]
fn steps_and_calls() {
    assert_snapshot!(steps("      - { call: fetsh, with: { url: a } }\n      - { call: extract, with: { html: a } }\n"), @r#"
task.yaml:10:17: the task lists no tool `fetsh`
   |
10 |       - { call: fetsh, with: { url: a } }
   |                 ^^^^^
   = help: did you mean `fetch`?

task.yaml:11:17: the task lists no tool `extract`
   |
11 |       - { call: extract, with: { html: a } }
   |                 ^^^^^^^
   = help: list it under `tools`: `extract: { builtin: extract }`
"#);
    assert_snapshot!(steps("      - { call: fetch }\n      - { call: fetch, with: { ulr: a } }\n      - { call: fetch, with: { url: 7, max_bytes: '${ usage.steps }', headers: [a] } }\n"), @r#"
task.yaml:10:17: `fetch` is called without `url`
   |
10 |       - { call: fetch }
   |                 ^^^^^
   = help: add `with: { url: ... }`

task.yaml:11:32: `fetch` has no argument `ulr`
   |
11 |       - { call: fetch, with: { ulr: a } }
   |                                ^^^
   = help: did you mean `url`?

task.yaml:12:37: argument `url` of `fetch`: 7 is not of type "string"
   |
12 |       - { call: fetch, with: { url: 7, max_bytes: '${ usage.steps }', headers: [a] } }
   |                                     ^

task.yaml:12:80: argument `headers` of `fetch`: ["a"] is not of type "object"
   |
12 |       - { call: fetch, with: { url: 7, max_bytes: '${ usage.steps }', headers: [a] } }
   |                                                                                ^^
"#);
    assert_snapshot!(steps("      - {}\n      - { call: tally, wait: 1s }\n      - { wait: 1s, save: x, with: { a: 1 } }\n      - { enter: DONE }\n      - { set: { state.x: 1, run: 2 } }\n"), @r#"
task.yaml:10:9: this step does nothing
   |
10 |       - {}
   |         ^
   = help: give it one of `call`, `set`, `wait`, `enter`

task.yaml:11:24: this step has both `call` and `wait`
   |
11 |       - { call: tally, wait: 1s }
   |                        ^^^^
   = help: make two steps of it

task.yaml:12:21: `save` has a meaning only beside `call`
   |
12 |       - { wait: 1s, save: x, with: { a: 1 } }
   |                     ^^^^
   = help: remove it, or add `call`

task.yaml:12:30: `with` has a meaning only beside `call`
   |
12 |       - { wait: 1s, save: x, with: { a: 1 } }
   |                              ^^^^
   = help: remove it, or add `call`

task.yaml:13:18: the task has no `states` to enter
   |
13 |       - { enter: DONE }
   |                  ^^^^
   = help: add `states: { initial: NEW, transitions: { NEW: [DONE] } }`

task.yaml:14:18: `state.x` can't be the name of a key of state
   |
14 |       - { set: { state.x: 1, run: 2 } }
   |                  ^^^^^^^
   = help: `set` writes to state anyway: write `x`

task.yaml:14:30: `run` can't be the name of a key of state
   |
14 |       - { set: { state.x: 1, run: 2 } }
   |                              ^^^
   = help: it is a name of LoopForge's own: choose another
"#);
    assert_snapshot!(steps("      - { call: tally, save: 'a b' }\n      - { call: tally, save: state }\n      - { call: tally, save: 'a[' }\n"), @r#"
task.yaml:10:30: `a b` is not a place to save to: write `name` or `name[key]`
   |
10 |       - { call: tally, save: 'a b' }
   |                              ^^^^^

task.yaml:11:30: `state` is a name of LoopForge's own: choose another
   |
11 |       - { call: tally, save: state }
   |                              ^^^^^

task.yaml:12:30: `a[` has no closing `]`: write `name` or `name[key]`
   |
12 |       - { call: tally, save: 'a[' }
   |                              ^^^^
"#);
    assert_snapshot!(problems("name: a\ngoal: b\ntools: { tally: { process: [t] }, other: { process: [t] } }\nsubgoals:\n  - id: x\n    tools: [other, nothing]\n    foreach: { in: '[1]', as: run, parallel: 0 }\n    steps: [{ call: tally }]\n"), @r#"
task.yaml:6:20: the task lists no tool `nothing`
  |
6 |     tools: [other, nothing]
  |                    ^^^^^^^
  = help: known tools: other, tally

task.yaml:7:31: `run` can't be the name of an item
  |
7 |     foreach: { in: '[1]', as: run, parallel: 0 }
  |                               ^^^
  = help: it is a name of LoopForge's own: choose another

task.yaml:7:46: 0 would let nothing happen
  |
7 |     foreach: { in: '[1]', as: run, parallel: 0 }
  |                                              ^
  = help: write 1 or more

task.yaml:8:21: `x` may not call `tally`: its `tools` don't list it
  |
8 |     steps: [{ call: tally }]
  |                     ^^^^^
  = help: add `tally` to the subgoal's `tools`
"#);
}

#[test]
fn expressions() {
    assert_snapshot!(steps("      - { when: \"size(inputs.pages\", call: tally }\n      - { when: inputs.pages =! 3, call: tally }\n      - call: tally\n        when: |\n          usage.steps > 1\n          && && true\n"), @r#"
task.yaml:10:34: not an expression: missing ')' at the end
   |
10 |       - { when: "size(inputs.pages", call: tally }
   |                                  ^

task.yaml:11:30: not an expression: '=!' means nothing here
   |
11 |       - { when: inputs.pages =! 3, call: tally }
   |                              ^

task.yaml:15:14: not an expression: unexpected '&&'
   |
15 |           && && true
   |              ^
"#);
    assert_snapshot!(steps("      - { call: tally, with: { text: \"价格 ${ inputs.pages[ }\", open: \"${ usage\" } }\n"), @r#"
task.yaml:10:45: not an expression: something is missing here
   |
10 |       - { call: tally, with: { text: "价格 ${ inputs.pages[ }", open: "${ usage" } }
   |                                               ^

task.yaml:10:70: not an expression: `${` has no closing `}`
   |
10 |       - { call: tally, with: { text: "价格 ${ inputs.pages[ }", open: "${ usage" } }
   |                                                                        ^
"#);
    assert_snapshot!(steps("      - { call: tally, when: inputs.page == 1 && state.tallly == 2 && subgoals.loook.done && subgoals.look.don, save: tally }\n      - { call: tally, when: usage.step > 1 && last.okay && run.nam == 'x' && pages == 1 && tally.x == 1 && env.HOME == '' }\n      - { call: tally, with: { a: \"${ siz(inputs.pages) } ${ inputs.pages.mapp(x, x) } ${ math.ceil(1.5) } ${ inputs.pages.map(x, y) }\" } }\n"), @r#"
task.yaml:10:37: there is no input `page`
   |
10 |       - { call: tally, when: inputs.page == 1 && state.tallly == 2 && subgoals.loook.done && subgoals.look.don, save: ta…
   |                                     ^^^^
   = help: did you mean `pages`?

task.yaml:10:56: nothing saves or sets `state.tallly`
   |
10 |       - { call: tally, when: inputs.page == 1 && state.tallly == 2 && subgoals.loook.done && subgoals.look.don, save: ta…
   |                                                        ^^^^^^
   = help: did you mean `tally`?

task.yaml:10:80: there is no subgoal `loook`
   |
10 |       - { call: tally, when: inputs.page == 1 && state.tallly == 2 && subgoals.loook.done && subgoals.look.don, save: ta…
   |                                                                                ^^^^^
   = help: did you mean `look`?

task.yaml:10:108: `subgoals.look` has no `don`
   |
10 | …&& subgoals.loook.done && subgoals.look.don, save: tally }
   |                                          ^^^
   = help: did you mean `done`?

task.yaml:11:36: `usage` has no `step`
   |
11 |       - { call: tally, when: usage.step > 1 && last.okay && run.nam == 'x' && pages == 1 && tally.x == 1 && env.HOME == …
   |                                    ^^^^
   = help: did you mean `steps`?

task.yaml:11:53: `last` has no `okay`
   |
11 |       - { call: tally, when: usage.step > 1 && last.okay && run.nam == 'x' && pages == 1 && tally.x == 1 && env.HOME == …
   |                                                     ^^^^
   = help: known fields: ok, code, error, tool

task.yaml:11:65: `run` has no `nam`
   |
11 |       - { call: tally, when: usage.step > 1 && last.okay && run.nam == 'x' && pages == 1 && tally.x == 1 && env.HOME == …
   |                                                                 ^^^
   = help: did you mean `name`?

task.yaml:11:79: `pages` has no value here
   |
11 |       - { call: tally, when: usage.step > 1 && last.okay && run.nam == 'x' && pages == 1 && tally.x == 1 && env.HOME == …
   |                                                                               ^^^^^
   = help: it is an input: write `inputs.pages`

task.yaml:11:109: `env` has no value here
   |
11 | …== 'x' && pages == 1 && tally.x == 1 && env.HOME == '' }
   |                                          ^^^
   = help: expressions can't read the environment; give the value as an input

task.yaml:12:39: there is no function `siz`
   |
12 |       - { call: tally, with: { a: "${ siz(inputs.pages) } ${ inputs.pages.mapp(x, x) } ${ math.ceil(1.5) } ${ inputs.pag…
   |                                       ^^^
   = help: did you mean `size`?

task.yaml:12:75: there is no function `mapp`
   |
12 |       - { call: tally, with: { a: "${ siz(inputs.pages) } ${ inputs.pages.mapp(x, x) } ${ math.ceil(1.5) } ${ inputs.pag…
   |                                                                           ^^^^
   = help: did you mean `map`?

task.yaml:12:131: `y` has no value here
   |
12 | …math.ceil(1.5) } ${ inputs.pages.map(x, y) }" } }
   |                                          ^
   = help: known names: tally, inputs, state, subgoals, usage, last, run
"#);
    assert_snapshot!(problems("name: a\ngoal: b\ntools: { t: { process: [t] } }\nsubgoals:\n  - id: x\n    foreach: { in: '[1]', as: item }\n    steps: [{ call: t, save: html }, { call: t, with: { a: '${ html }', b: '${ item }' }, save: item }]\n  - id: y\n    when: html == 1\n    steps: [{ call: t, with: { a: '${ state.html }' } }]\n"), @r#"
task.yaml:7:97: `item` is the item of this `foreach` already
  |
7 | …a: '${ html }', b: '${ item }' }, save: item }]
  |                                          ^^^^
  = help: save under another name

task.yaml:9:11: `html` has no value here
  |
9 |     when: html == 1
  |           ^^^^
  = help: known names: inputs, state, subgoals, usage, last, run

task.yaml:10:45: nothing saves or sets `state.html`
   |
10 |     steps: [{ call: t, with: { a: '${ state.html }' } }]
   |                                             ^^^^
   = help: in a `foreach`, `save: html` is kept for one item only; write `save: "html[item]"` for a map of all
"#);
    assert_snapshot!(with("evaluator: { criteria: ['${ usage.steps } > ${ usage.calls }', '', 3] }"), @r#"
task.yaml:3:25: `${` stands within an expression
  |
3 | evaluator: { criteria: ['${ usage.steps } > ${ usage.calls }', '', 3] }
  |                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: the whole text is an expression: write the names without `${ }`

task.yaml:3:64: an expression without anything in it
  |
3 | evaluator: { criteria: ['${ usage.steps } > ${ usage.calls }', '', 3] }
  |                                                                ^^

task.yaml:3:68: expected an expression, which is a text, found the number 3
  |
3 | evaluator: { criteria: ['${ usage.steps } > ${ usage.calls }', '', 3] }
  |                                                                    ^
  = help: put it in quotes
"#);
}

#[test]
fn lifecycle_and_hooks() {
    assert_snapshot!(problems("name: a\ngoal: b\nsubgoals: [{ id: x, steps: [{ enter: CLOSD }, { enter: NEW }] }]\nstates:\n  initial: NW\n  transitions: { NEW: [OPEN], OPEN: [CLOSED], LOST: [OPEN] }\n  tools: { OPN: [fetch] }\n"), @r#"
task.yaml:3:38: there is no state `CLOSD`
  |
3 | subgoals: [{ id: x, steps: [{ enter: CLOSD }, { enter: NEW }] }]
  |                                      ^^^^^
  = help: did you mean `CLOSED`?

task.yaml:3:56: no transition leads to `NEW`
  |
3 | subgoals: [{ id: x, steps: [{ enter: CLOSD }, { enter: NEW }] }]
  |                                                        ^^^
  = help: add it to the transitions of a state, or remove this step

task.yaml:5:12: there is no state `NW`
  |
5 |   initial: NW
  |            ^^
  = help: did you mean `NEW`?

task.yaml:7:12: there is no state `OPN`
  |
7 |   tools: { OPN: [fetch] }
  |            ^^^
  = help: did you mean `OPEN`?

task.yaml:7:18: the task lists no tool `fetch`
  |
7 |   tools: { OPN: [fetch] }
  |                  ^^^^^
  = help: there are no tools
"#);
    assert_snapshot!(problems("name: a\ngoal: b\nsubgoals: [{ id: x, steps: [{ wait: 1s }] }]\nstates:\n  initial: NEW\n  transitions: { NEW: [OPENN], OPEN: [CLOSED], CLOSED: [] }\n"), @r#"
task.yaml:6:24: there is no state `OPENN`
  |
6 |   transitions: { NEW: [OPENN], OPEN: [CLOSED], CLOSED: [] }
  |                        ^^^^^
  = help: did you mean `OPEN`?
  = help: if it is a state of its own, add `OPENN: []` to `transitions`
"#);
    assert_snapshot!(with("hooks:\n  - { on: finished }\n  - { on: finished, every: 3, do: pause_and_alert }\n"), @r#"
task.yaml:4:5: this hook does nothing
  |
4 |   - { on: finished }
  |     ^^^^^^^^^^^^^^^
  = help: give it `do`, `webhook` or `process`

task.yaml:5:21: `every` counts steps, and this is no `step_completed`
  |
5 |   - { on: finished, every: 3, do: pause_and_alert }
  |                     ^^^^^
  = help: remove it

task.yaml:5:35: `pause_and_alert` stops a run that goes in circles or past a limit
  |
5 |   - { on: finished, every: 3, do: pause_and_alert }
  |                                   ^^^^^^^^^^^^^^^
  = help: use it on `loop_exceeded` or `limit_reached`
"#);
    assert_snapshot!(with("hooks: [{ on: step_done, do: lg }]"), @r#"
task.yaml:3:15: `step_done` is not one of step_completed, checkpoint_restored, loop_exceeded, person_needed, limit_reached, budget_warning, finished
  |
3 | hooks: [{ on: step_done, do: lg }]
  |               ^^^^^^^^^

task.yaml:3:30: `lg` is not one of log, log_state_summary, pause_and_alert
  |
3 | hooks: [{ on: step_done, do: lg }]
  |                              ^^
  = help: did you mean `log`?
"#);
    assert_snapshot!(with("hooks:\n  - { on: finished, webhook: alerts.example, process: [a] }\n  - { on: step_completed, every: 0, do: log, secret_env: X }\n  - { on: finished, webhook: '${ALERT_URL}' }\n  - { on: finished, every: 2, webhook: 'https://a.example/${env.PATH_PART}', secret_env: $KEY }\n"), @r#"
task.yaml:4:30: `alerts.example` is not a URL
  |
4 |   - { on: finished, webhook: alerts.example, process: [a] }
  |                              ^^^^^^^^^^^^^^
  = help: write it in full: `https://host/path`, or `${env.NAME}`

task.yaml:4:46: this hook has both `webhook` and `process`
  |
4 |   - { on: finished, webhook: alerts.example, process: [a] }
  |                                              ^^^^^^^
  = help: make two hooks of it

task.yaml:5:34: 0 would let nothing happen
  |
5 |   - { on: step_completed, every: 0, do: log, secret_env: X }
  |                                  ^
  = help: write 1 or more

task.yaml:5:46: `secret_env` signs a webhook, and there is none
  |
5 |   - { on: step_completed, every: 0, do: log, secret_env: X }
  |                                              ^^^^^^^^^^
  = help: add `webhook`, or remove it

task.yaml:6:30: `${ALERT_URL}` is not a URL
  |
6 |   - { on: finished, webhook: '${ALERT_URL}' }
  |                              ^^^^^^^^^^^^^^
  = help: only `${env.NAME}` is replaced here

task.yaml:7:21: `every` counts steps, and this is no `step_completed`
  |
7 |   - { on: finished, every: 2, webhook: 'https://a.example/${env.PATH_PART}', secret_env: $KEY }
  |                     ^^^^^
  = help: remove it

task.yaml:7:90: `$KEY` is not the name of a variable
  |
7 | ….example/${env.PATH_PART}', secret_env: $KEY }
  |                                          ^^^^
  = help: write the name only, such as `ALERT_KEY`; never the key itself
"#);
}

#[test]
fn limits() {
    assert_snapshot!(with("loop: { max_steps: 0, parallel: 0, idle_timeout: 0s }"), @r#"
task.yaml:3:20: 0 would let nothing happen
  |
3 | loop: { max_steps: 0, parallel: 0, idle_timeout: 0s }
  |                    ^
  = help: write 1 or more

task.yaml:3:33: 0 would let nothing happen
  |
3 | loop: { max_steps: 0, parallel: 0, idle_timeout: 0s }
  |                                 ^
  = help: write 1 or more

task.yaml:3:50: no time at all would let nothing happen
  |
3 | loop: { max_steps: 0, parallel: 0, idle_timeout: 0s }
  |                                                  ^^
  = help: give a time such as `10s`
"#);
}

#[test]
fn budgets_that_make_no_sense() {
    let problems = |budget: &str| {
        let file = format!("name: a\ngoal: b\nmodel: openai/gpt-5-mini\nbudget: {budget}\n");
        let problems = task::read(&file, "task.yaml", &catalog()).unwrap_err();
        problems.all().iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect::<Vec<_>>()
    };
    assert_eq!(problems("{ tokens: 0 }"), ["budget.tokens: 0 would let nothing happen"]);
    assert_eq!(
        problems("{ cost_usd: lots }"),
        ["budget.cost_usd: `lots` is not an amount of money: write `3.00usd`, `$0.25` or `2.5`"]
    );
    assert_eq!(
        problems("{ per_day: { cost_usd: 5 } }"),
        ["budget.per_day: a budget of a day belongs to an account, and none is named"]
    );
    assert_eq!(
        problems("{ tokens: 9, on_exceed: [stop, semi_manual] }"),
        ["budget.on_exceed[1]: what stands after `stop` never happens"]
    );
    assert!(problems("{ tokens: 9, on_exceed: [give_up] }")[0].contains("is not one of summary_only"));
}

#[test]
fn amounts_of_money_are_exact_however_they_are_written() {
    for (written, microdollars) in [("0.1", 100_000), ("5", 5_000_000), ("\"2.50usd\"", 2_500_000), ("$0.000001", 1)] {
        let file = format!("name: a\ngoal: b\nmodel: openai/gpt-5-mini\nbudget: {{ cost_usd: {written} }}\n");
        let task =
            task::read(&file, "task.yaml", &catalog()).unwrap_or_else(|problems| panic!("{written}: {problems}"));
        let cost = task.budget.unwrap().cost_usd.unwrap().0;
        assert_eq!(cost, loopforge_core::model::Money::microdollars(microdollars), "{written}");
    }
}
