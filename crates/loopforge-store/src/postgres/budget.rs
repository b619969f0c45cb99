//! Budgets of accounts, as rows.
//!
//! A reservation locks its account's row of the day, so that runs of one account pass one after the other; a lock lasts for
//! a round trip or two.

use deadpool_postgres::ClientWrapper;
use loopforge_core::id::RunId;
use loopforge_core::model::{Amount, Money};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::append::begin;
use super::error::Failed;
use super::text::escape;
use crate::sqlite::body::{signed, unsigned};
use crate::{AccountDay, Day, Reservation, Reserved, StoreError};

async fn query(client: &ClientWrapper, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failed> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

pub(crate) async fn key_of(client: &ClientWrapper, run: RunId) -> Result<i64, Failed> {
    let found = query(client, "select key from run where id = $1", &[&run.0]).await?;
    Ok(found.first().ok_or(StoreError::NoRun(run))?.get(0))
}

fn amount(row: &Row, tokens: usize) -> Amount {
    Amount { tokens: unsigned(row.get(tokens)), cost: Money::picodollars(unsigned(row.get(tokens + 1))) }
}

async fn today(client: &ClientWrapper, now: Option<i64>) -> Result<Day, Failed> {
    let found = query(client, "select coalesce($1::int8, now_us())", &[&now]).await?;
    let now = found.first().map_or(0, |row| row.get(0));
    Ok(Day::of(loopforge_core::time::Timestamp(now)))
}

const ACCOUNT: &str = "select spent_tokens, spent_cost, reserved_tokens, reserved_cost from budget \
                       where account = $1 and day = $2";

fn standing(rows: &[Row], day: Day) -> AccountDay {
    let nothing = AccountDay { day, spent: Amount::NOTHING, reserved: Amount::NOTHING };
    rows.first().map_or(nothing, |row| AccountDay { day, spent: amount(row, 0), reserved: amount(row, 2) })
}

pub(crate) async fn account(client: &ClientWrapper, account: &str, now: Option<i64>) -> Result<AccountDay, Failed> {
    let day = today(client, now).await?;
    Ok(standing(&query(client, ACCOUNT, &[&escape(account), &day.0]).await?, day))
}

/// Locks the row of an account's day, made where there is none.
async fn lock(client: &ClientWrapper, account: &str, day: Day) -> Result<AccountDay, Failed> {
    let insert = "insert into budget (account, day) values ($1, $2) on conflict do nothing";
    query(client, insert, &[&account, &day.0]).await?;
    let sql = format!("{ACCOUNT} for no key update");
    Ok(standing(&query(client, &sql, &[&account, &day.0]).await?, day))
}

async fn write(client: &ClientWrapper, account: &str, now: &AccountDay) -> Result<(), Failed> {
    let sql = "update budget set spent_tokens = $3, spent_cost = $4, reserved_tokens = $5, reserved_cost = $6 \
               where account = $1 and day = $2";
    let (spent, reserved) = (now.spent, now.reserved);
    let numbers = [spent.tokens, spent.cost.picodollars, reserved.tokens, reserved.cost.picodollars].map(signed);
    let [first, second, third, fourth] = &numbers;
    query(client, sql, &[&account, &now.day.0, first, second, third, fourth]).await?;
    Ok(())
}

/// A row of `reservation`.
struct Held {
    account: String,
    day: Day,
    amount: Amount,
    settled: bool,
}

async fn held(client: &ClientWrapper, run: i64, call: i64) -> Result<Option<Held>, Failed> {
    let sql = "select account, day, tokens, cost, settled from reservation where run = $1 and call = $2 for update";
    let rows = query(client, sql, &[&run, &call]).await?;
    Ok(rows.first().map(|row| Held {
        account: row.get(0),
        day: Day(row.get(1)),
        amount: amount(row, 2),
        settled: row.get(4),
    }))
}

pub(crate) async fn reserve(
    client: &ClientWrapper,
    wanted: &Reservation,
    now: Option<i64>,
) -> Result<Reserved, Failed> {
    client.batch_execute(begin(false)).await?;
    let reserved = reserve_in(client, wanted, now).await?;
    client.batch_execute("commit").await?;
    Ok(reserved)
}

async fn reserve_in(client: &ClientWrapper, wanted: &Reservation, now: Option<i64>) -> Result<Reserved, Failed> {
    let run = key_of(client, wanted.run).await?;
    let call = i64::from(wanted.call);
    let name = escape(&wanted.account);
    match held(client, run, call).await? {
        Some(held) if held.settled => {
            return Ok(Reserved::Granted(standing(
                &query(client, ACCOUNT, &[&held.account, &held.day.0]).await?,
                held.day,
            )));
        }
        // An earlier try for a call that was never made.
        Some(earlier) => {
            let mut then = lock(client, &earlier.account, earlier.day).await?;
            then.reserved = then.reserved.less(earlier.amount);
            write(client, &earlier.account, &then).await?;
            query(client, "delete from reservation where run = $1 and call = $2", &[&run, &call]).await?;
        }
        None => {}
    }
    let day = today(client, now).await?;
    let mut account = lock(client, &name, day).await?;
    if !wanted.limit.allows(account.spent + account.reserved + wanted.amount) {
        return Ok(Reserved::Refused(account));
    }
    account.reserved += wanted.amount;
    write(client, &name, &account).await?;
    let (tokens, cost) = (signed(wanted.amount.tokens), signed(wanted.amount.cost.picodollars));
    let sql = "insert into reservation (run, call, account, day, tokens, cost) values ($1, $2, $3, $4, $5, $6)";
    query(client, sql, &[&run, &call, &name, &day.0, &tokens, &cost]).await?;
    Ok(Reserved::Granted(account))
}

pub(crate) async fn settle(client: &ClientWrapper, run: RunId, call: u32, spent: Amount) -> Result<(), Failed> {
    client.batch_execute(begin(false)).await?;
    let (run, call) = (key_of(client, run).await?, i64::from(call));
    if let Some(held) = held(client, run, call).await?.filter(|held| !held.settled) {
        let mut then = lock(client, &held.account, held.day).await?;
        then.reserved = then.reserved.less(held.amount);
        then.spent += spent;
        write(client, &held.account, &then).await?;
        query(client, "update reservation set settled = true where run = $1 and call = $2", &[&run, &call]).await?;
    }
    Ok(client.batch_execute("commit").await?)
}

pub(crate) async fn open(client: &ClientWrapper, run: RunId) -> Result<Vec<(u32, Amount)>, Failed> {
    let run = key_of(client, run).await?;
    let sql = "select call, tokens, cost from reservation where run = $1 and not settled order by call";
    let rows = query(client, sql, &[&run]).await?;
    let call = |row: &Row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX);
    Ok(rows.iter().map(|row| (call(row), amount(row, 1))).collect())
}
