//! What can only be seen from inside.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use loopforge_testing::postgres::place;

use super::address::{Address, Tls};
use super::text::{escape, unescape};
use super::{PostgresStore, Store};
use crate::StoreError;
use crate::dispatch::{Dispatch, Hint, jittered};
use crate::sqlite::body::KINDS;

#[test]
fn texts_come_back_as_they_were() {
    for text in ["", "plain", "\0", "a\0b\u{1}c\u{1}0", "\u{1}", "\u{1}\0", "ü\0"] {
        let stored = escape(text);
        assert!(!stored.contains('\0'), "{stored:?}");
        assert_eq!(unescape(stored.into_owned()), text);
    }
    assert_eq!(escape("plain"), "plain");
}

#[test]
fn addresses_show_no_password() {
    let address = Address::parse("postgres://ann:s3cret@db.example:5433,other/store?schema=team_a").unwrap();
    for shown in [address.to_string(), format!("{address:?}")] {
        assert_eq!(shown, "postgres://ann@db.example:5433,other:5432/store?schema=team_a");
    }
    let store = PostgresStore::new("postgres://ann:s3cret@db.example/store").unwrap();
    assert!(!format!("{store:?}{}", store.place()).contains("s3cret"));
    let wrong = Address::parse("postgres://ann:s3cret@db.example:port/store").unwrap_err();
    assert!(!wrong.to_string().contains("s3cret"), "{wrong}");
}

#[test]
fn addresses_say_how_connections_are_protected() {
    let tls = |parameters: &str| Address::parse(&format!("postgres://db/x?{parameters}")).map(|address| address.tls);
    assert_eq!(tls("").unwrap(), Tls::Opportunistic);
    assert_eq!(tls("sslmode=disable").unwrap(), Tls::Off);
    assert_eq!(tls("sslmode=verify-full").unwrap(), Tls::Verified { roots: None });
    assert_eq!(tls("sslmode=require&sslrootcert=%2Fa").unwrap(), Tls::Verified { roots: Some("/a".into()) });
    for wrong in ["sslmode=perhaps", "schema=", "schema=A", "schema=a%3Bdrop", "schema=pg_x"] {
        assert!(matches!(tls(wrong), Err(StoreError::NotAStore(_))), "{wrong}");
    }
}

#[test]
fn waits_are_cut_by_chance_and_never_to_nothing() {
    let span = Duration::from_millis(100);
    let waits: Vec<_> = (0..100).map(|_| jittered(span)).collect();
    assert!(waits.iter().all(|wait| (span / 2..=span).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait != waits[0]));
}

/// The numbers of kinds stand in the program and in the database, and never change.
#[tokio::test]
async fn kinds_have_the_numbers_that_the_table_says() {
    let store = PostgresStore::open(&place()).await.unwrap();
    let client = store.0.core.readers.get().await.unwrap();
    let rows = client.query("select number, name from kind order by number", &[]).await.unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(1)).collect();
    assert_eq!(names, KINDS);
    assert_eq!(rows.last().unwrap().get::<_, i16>(0), i16::try_from(KINDS.len()).unwrap());
}

#[tokio::test]
async fn tables_of_others_are_left_alone() {
    let url = place();
    let address = Address::parse(&url).unwrap();
    let (client, connection) = address.config.connect(tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let schema = &address.schema;
    client.batch_execute(&format!("create schema {schema}; create table {schema}.run (mine text)")).await.unwrap();
    let refused = PostgresStore::open(&url).await.unwrap_err();
    assert!(matches!(&refused, StoreError::NotAStore(told) if told.contains("another program")), "{refused}");
    let tables =
        client.query("select from information_schema.tables where table_schema = $1", &[schema]).await.unwrap();
    assert_eq!(tables.len(), 1, "nothing was made");
    drop(client);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn tables_of_a_later_version_are_refused_by_name() {
    let url = place();
    let store = PostgresStore::open(&url).await.unwrap();
    let client = store.0.core.writers.get().await.unwrap();
    client.batch_execute("insert into migration values (99, 'later', '\\x00')").await.unwrap();
    let refused = PostgresStore::open(&url).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Newer { found, .. } if found.contains("later")), "{refused}");
    client.batch_execute("delete from migration where number = 99; update migration set hash = '\\x00'").await.unwrap();
    let refused = PostgresStore::open(&url).await.unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
}

#[tokio::test]
async fn looking_makes_no_tables_and_changes_nothing() {
    let url = place();
    let looking = PostgresStore::new_read_only(&url).unwrap();
    assert!(matches!(looking.runs(1).await, Err(StoreError::NotAStore(_))));
    PostgresStore::open(&url).await.unwrap();
    let looking = PostgresStore::new_read_only(&url).unwrap();
    assert_eq!(looking.runs(1).await, Ok(Vec::new()));
    let refused = looking.queue_run(crate::testing::samples::new_run()).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
}

/// Also by processes that come at the same time.
#[tokio::test]
async fn many_may_open_a_new_store_at_once() {
    let url = place();
    let opened = (0..8).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { PostgresStore::open(&url).await.map(|_| ()) })
    });
    for opening in opened.collect::<Vec<_>>() {
        assert_eq!(opening.await.unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn hints_reach_the_other_processes_of_a_store() {
    let url = place();
    let (one, other) = (PostgresStore::open(&url).await.unwrap(), PostgresStore::open(&url).await.unwrap());
    // Without a look of their own for as long as the test takes.
    let (one, other) = (one.dispatch(Duration::from_secs(3_600)), other.dispatch(Duration::from_secs(3_600)));
    let run = crate::testing::samples::new_run().id;
    let hint = loop {
        one.wake(run).await;
        // The listener may not have begun to listen yet; hints that are lost are said again here.
        if let Ok(hint) = tokio::time::timeout(Duration::from_millis(200), other.next()).await {
            break hint;
        }
    };
    assert_eq!(hint, Hint::LookYourself);
}
