//! What the runs of an account may use in a day.
//!
//! Before a call of a model, what it may use at most is reserved; after it, what it did use takes the place of that. So runs
//! that go on at once, on whatever machines, never use more than their account's limit: each is refused while what is spent
//! and what is reserved leave no room.

use loopforge_core::id::RunId;
use loopforge_core::model::{Amount, Money};
use loopforge_core::time::Timestamp;

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;

/// A day in UTC. Every day has 24 hours, wherever runs and people are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(pub i64);

impl Day {
    /// The day of an instant.
    #[must_use]
    pub const fn of(at: Timestamp) -> Self {
        Self(at.0.div_euclid(DAY))
    }

    /// The instant at which it begins.
    #[must_use]
    pub const fn begins(self) -> Timestamp {
        Timestamp(self.0.saturating_mul(DAY))
    }

    /// The day after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// What a call of a model may use at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The run.
    pub run: RunId,
    /// The call's number in it.
    pub call: u32,
    /// Whose budget it goes to.
    pub account: String,
    /// The most that it can use.
    pub amount: Amount,
    /// What the account may use in a day, as the run's task says.
    pub limit: DayLimit,
}

/// What an account may use in a day. No limit where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DayLimit {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money.
    pub cost: Option<Money>,
}

impl DayLimit {
    /// Whether `amount` in all is within it.
    #[must_use]
    pub fn allows(&self, amount: Amount) -> bool {
        self.tokens.is_none_or(|limit| amount.tokens <= limit) && self.cost.is_none_or(|limit| amount.cost <= limit)
    }
}

/// An account on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountDay {
    /// The day.
    pub day: Day,
    /// What was used.
    pub spent: Amount,
    /// What calls under way may use besides.
    pub reserved: Amount,
}

/// What became of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// It is made; how the account stands with it.
    Granted(AccountDay),
    /// There is no room for it, and nothing is reserved for this call; how the account stands.
    Refused(AccountDay),
}
