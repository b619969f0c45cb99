//! Opening: whose schema is it, does this program know it, and what is missing in it?
//!
//! Nothing is changed before all that is known.

use tokio_postgres::Client;

use super::address::{Address, Lock, Share};
use super::error::Failed;
use crate::StoreError;

/// The changes to an empty schema that make it what this program expects, oldest first. Never edited once released.
const MIGRATIONS: [Migration; 5] = [
    Migration { name: "archive", sql: include_str!("../../migrations/postgres/0001_archive.sql") },
    Migration { name: "care", sql: include_str!("../../migrations/postgres/0002_care.sql") },
    Migration { name: "models", sql: include_str!("../../migrations/postgres/0003_models.sql") },
    Migration { name: "budgets", sql: include_str!("../../migrations/postgres/0004_budgets.sql") },
    Migration { name: "plan", sql: include_str!("../../migrations/postgres/0005_plan.sql") },
];

/// The oldest server: functions with a standard body came with it.
const OLDEST_SERVER: i32 = 140_000;

/// What the table of migrations says of itself.
const MARK: &str = "LoopForge archive";

struct Migration {
    name: &'static str,
    sql: &'static str,
}

impl Migration {
    fn hash(&self) -> [u8; 32] {
        *blake3::hash(self.sql.as_bytes()).as_bytes()
    }
}

/// Makes the tables where there are none, and brings them up to date.
pub(crate) async fn prepare(client: &mut Client, address: &Address) -> Result<(), Failed> {
    if identify(client, address).await? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    // Another process may be at it, and take long.
    transaction.batch_execute("set local lock_timeout = '60s'").await?;
    transaction.batch_execute(&format!("select {}", address.lock(Lock::Tables, Share::Alone))).await?;
    let schema: bool = transaction
        .query_one("select exists (select from pg_namespace where nspname = $1)", &[&address.schema])
        .await?
        .get(0);
    if !schema {
        transaction.batch_execute(&format!("create schema {}", address.schema)).await?;
    }
    // Once more, under the lock.
    let there = identify(transaction.client(), address).await?;
    for (number, migration) in (1_i32..).zip(&MIGRATIONS).skip(there) {
        transaction.batch_execute(migration.sql).await?;
        transaction
            .execute(
                "insert into migration (number, name, hash) values ($1, $2, $3)",
                &[&number, &migration.name, &migration.hash().as_slice()],
            )
            .await?;
    }
    Ok(transaction.commit().await?)
}

/// Makes sure that the tables are there, for looking at them.
pub(crate) async fn require(client: &Client, address: &Address) -> Result<(), Failed> {
    match identify(client, address).await? {
        0 => Err(StoreError::NotAStore(format!("{address} holds no store yet: `loopforge run FILE` makes one")).into()),
        _ => Ok(()),
    }
}

/// Says how many migrations the schema has; 0 when it is empty or not there.
async fn identify(client: &Client, address: &Address) -> Result<usize, Failed> {
    let row = client
        .query_one(
            "select current_setting('server_version_num')::int, \
                 (select obj_description(c.oid, 'pg_class') from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                     where n.nspname = $1 and c.relname = 'migration'), \
                 (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                     where n.nspname = $1 and c.relkind in ('r', 'v', 'p'))",
            &[&address.schema],
        )
        .await?;
    let (version, mark, tables): (i32, Option<String>, i64) = (row.get(0), row.get(1), row.get(2));
    if version < OLDEST_SERVER {
        let problem = format!("{address} is PostgreSQL {}; 14 or later is needed", version / 10_000);
        return Err(StoreError::NotAStore(problem).into());
    }
    match mark.as_deref() {
        Some(MARK) => applied(client, address).await,
        None if tables == 0 => Ok(0),
        _ => Err(StoreError::NotAStore(format!(
            "the schema `{}` of {address} holds the tables of another program; `?schema=NAME` names another",
            address.schema
        ))
        .into()),
    }
}

/// Compares the migrations that a schema has with those that this program knows.
async fn applied(client: &Client, address: &Address) -> Result<usize, Failed> {
    let there = client.query("select number, name, hash from migration order by number", &[]).await?;
    for (position, row) in there.iter().enumerate() {
        let (number, name, hash): (i32, String, Vec<u8>) = (row.get(0), row.get(1), row.get(2));
        match MIGRATIONS.get(position) {
            None => {
                return Err(StoreError::Newer {
                    found: format!("version {number} ({name})"),
                    known: format!("versions up to {}", MIGRATIONS.len()),
                }
                .into());
            }
            Some(known) if known.hash() != hash.as_slice() => {
                return Err(StoreError::Corrupt(format!(
                    "{address}: its tables were made by another version {number} ({name}) than this program has; \
                     use the program that made it"
                ))
                .into());
            }
            Some(_) => {}
        }
    }
    Ok(there.len())
}
