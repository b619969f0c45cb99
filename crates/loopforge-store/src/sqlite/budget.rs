//! Budgets of accounts, as rows.

use loopforge_core::id::RunId;
use loopforge_core::model::{Amount, Money};
use loopforge_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::body::{signed, unsigned};
use super::error::Failed;
use super::lease::run_key;
use crate::{AccountDay, Day, Reservation, Reserved};

fn amount(row: &Row<'_>, tokens: usize) -> rusqlite::Result<Amount> {
    let cost = Money::picodollars(unsigned(row.get(tokens + 1)?));
    Ok(Amount { tokens: unsigned(row.get(tokens)?), cost })
}

/// A row of `reservation`.
struct Held {
    account: String,
    day: Day,
    amount: Amount,
    settled: bool,
}

fn held(connection: &Connection, run: i64, call: u32) -> Result<Option<Held>, Failed> {
    let read = |row: &Row<'_>| {
        Ok(Held { account: row.get(0)?, day: Day(row.get(1)?), amount: amount(row, 2)?, settled: row.get(4)? })
    };
    Ok(connection
        .prepare_cached("select account, day, tokens, cost, settled from reservation where run = ?1 and call = ?2")?
        .query_row(params![run, call], read)
        .optional()?)
}

pub(crate) fn account(connection: &Connection, account: &str, day: Day) -> Result<AccountDay, Failed> {
    let read = |row: &Row<'_>| Ok(AccountDay { day, spent: amount(row, 0)?, reserved: amount(row, 2)? });
    let found = connection
        .prepare_cached(
            "select spent_tokens, spent_cost, reserved_tokens, reserved_cost from budget where account = ?1 and day = ?2",
        )?
        .query_row(params![account, day.0], read)
        .optional()?;
    Ok(found.unwrap_or(AccountDay { day, spent: Amount::NOTHING, reserved: Amount::NOTHING }))
}

fn write(connection: &Connection, account: &str, now: &AccountDay) -> Result<(), Failed> {
    let number = |amount: Amount| (signed(amount.tokens), signed(amount.cost.picodollars));
    let ((spent, cost), (reserved, most)) = (number(now.spent), number(now.reserved));
    connection
        .prepare_cached(
            "insert or replace into budget (account, day, spent_tokens, spent_cost, reserved_tokens, reserved_cost) \
             values (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![account, now.day.0, spent, cost, reserved, most])?;
    Ok(())
}

pub(crate) fn reserve(connection: &Connection, wanted: &Reservation, now: Timestamp) -> Result<Reserved, Failed> {
    let run = run_key(connection, wanted.run)?;
    let day = Day::of(now);
    match held(connection, run, wanted.call)? {
        Some(held) if held.settled => return Ok(Reserved::Granted(account(connection, &held.account, held.day)?)),
        // An earlier try for a call that was never made.
        Some(earlier) => {
            let mut then = account(connection, &earlier.account, earlier.day)?;
            then.reserved = then.reserved.less(earlier.amount);
            write(connection, &earlier.account, &then)?;
            connection
                .prepare_cached("delete from reservation where run = ?1 and call = ?2")?
                .execute(params![run, wanted.call])?;
        }
        None => {}
    }
    let mut today = account(connection, &wanted.account, day)?;
    if !wanted.limit.allows(today.spent + today.reserved + wanted.amount) {
        return Ok(Reserved::Refused(today));
    }
    today.reserved += wanted.amount;
    write(connection, &wanted.account, &today)?;
    connection
        .prepare_cached(
            "insert into reservation (run, call, account, day, tokens, cost) values (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            run,
            wanted.call,
            wanted.account,
            day.0,
            signed(wanted.amount.tokens),
            signed(wanted.amount.cost.picodollars)
        ])?;
    Ok(Reserved::Granted(today))
}

pub(crate) fn settle(connection: &Connection, run: RunId, call: u32, spent: Amount) -> Result<(), Failed> {
    let run = run_key(connection, run)?;
    let Some(held) = held(connection, run, call)?.filter(|held| !held.settled) else { return Ok(()) };
    let mut then = account(connection, &held.account, held.day)?;
    then.reserved = then.reserved.less(held.amount);
    then.spent += spent;
    write(connection, &held.account, &then)?;
    connection
        .prepare_cached("update reservation set settled = 1 where run = ?1 and call = ?2")?
        .execute(params![run, call])?;
    Ok(())
}

pub(crate) fn open(connection: &Connection, run: RunId) -> Result<Vec<(u32, Amount)>, Failed> {
    let run = run_key(connection, run)?;
    let mut select = connection
        .prepare_cached("select call, tokens, cost from reservation where run = ?1 and not settled order by call")?;
    let rows = select.query_map([run], |row| Ok((row.get(0)?, amount(row, 1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
