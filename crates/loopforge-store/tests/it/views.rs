//! The views for statistics of one's own, as any SQLite program sees them.

use std::time::Duration;

use loopforge_core::payload::Payload;
use loopforge_core::tool::Code;
use loopforge_store::Store;
use loopforge_store::sqlite::SqliteStore;
use loopforge_store::testing::samples;
use rusqlite::{Connection, types::Value};

use crate::support::{place, run_of};

fn rows(path: &std::path::Path, sql: &str) -> Vec<Vec<String>> {
    let database = Connection::open(path).unwrap();
    let mut select = database.prepare(sql).unwrap();
    let columns = select.column_count();
    let rows = select.query_map([], |row| {
        (0..columns)
            .map(|column| {
                Ok(match row.get(column)? {
                    Value::Null => "-".to_owned(),
                    Value::Integer(number) => number.to_string(),
                    Value::Real(number) => number.to_string(),
                    Value::Text(text) => text,
                    Value::Blob(_) => "bytes".to_owned(),
                })
            })
            .collect()
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn views_are_readable() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let mut lease = run_of(&store, 1).await;
    let events = vec![
        samples::step_started(2),
        samples::action_decided(2, Payload::default()),
        samples::action_finished(2, Code::RateLimited, Payload::default()),
    ];
    let append = samples::append(&lease, events);
    crate::conformance::write(&store, &mut lease, append).await;
    let run = lease.run.to_string();

    let runs = rows(&path, "select run_id, task, status, steps, records, created_at, owner, workspace from task_runs");
    let expected = [&run, "sample", "running", "0", "9", "2026-11-30T12:00:00.000Z", "a", "/srv/runs/sample"];
    assert_eq!(runs, [expected]);

    let steps = rows(
        &path,
        "select run_id, step, subgoal, item, tool, code, call_ms, error, route, reason, started_at from task_steps",
    );
    let at = |seq| samples::NOON.after(Duration::from_millis(seq)).to_string();
    let (first, second) = (at(2), at(7));
    let expected = [
        [&run, "1", "collect", "1", "send", "success", "1.25", "-", "continue", "on with the next entry", &first],
        [&run, "2", "collect", "2", "send", "rate_limited", "1.25", "it ended as rate_limited", "-", "-", &second],
    ];
    assert_eq!(steps, expected);

    let results =
        rows(&path, "select run_id, step, action, tool, event, code, call_ms, error, ended_at from step_results");
    let (first, second) = (at(5), at(9));
    let expected = [
        [&run, "1", "0", "send", "action_finished", "success", "1.25", "-", &first],
        [&run, "2", "0", "send", "action_finished", "rate_limited", "1.25", "it ended as rate_limited", &second],
    ];
    assert_eq!(results, expected);
}

#[tokio::test]
async fn kinds_have_their_names() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    run_of(&store, 1).await;
    let kinds = rows(&path, "select kind.name from record join kind on kind.number = record.kind order by seq");
    let expected =
        ["run_started", "step_started", "action_decided", "action_started", "action_finished", "step_evaluated"];
    assert_eq!(kinds.concat(), expected);
    assert_eq!(store.check().await, Ok(Vec::new()));
}
