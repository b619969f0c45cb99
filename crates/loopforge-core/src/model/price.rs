//! What calls cost, in whole numbers.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reply::Usage;

/// Picodollars in a dollar.
const DOLLAR: u64 = 1_000_000_000_000;
/// Digits after the point of a dollar that can be written.
const DIGITS: usize = 12;

/// An amount of US dollars, exact to a millionth of a microdollar. Sums stop at the largest amount (18 million dollars).
///
/// Prices are given per million tokens, so a price of one microdollar per million is one picodollar per token: with this unit nothing is
/// ever rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money {
    /// The amount in picodollars.
    pub picodollars: u64,
}

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self { picodollars: 0 };

    /// An amount in picodollars.
    #[must_use]
    pub const fn picodollars(picodollars: u64) -> Self {
        Self { picodollars }
    }

    /// An amount in microdollars.
    #[must_use]
    pub const fn microdollars(microdollars: u64) -> Self {
        Self { picodollars: microdollars.saturating_mul(1_000_000) }
    }

    /// Whole microdollars, rounded up: no cost is ever shown as less than it is.
    #[must_use]
    pub const fn to_microdollars(self) -> u64 {
        self.picodollars.div_ceil(1_000_000)
    }

    /// What is left of it after `other`; nothing where that is more.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self { picodollars: self.picodollars.saturating_sub(other.picodollars) }
    }

    /// Reads an amount: `3`, `2.50`, `$2.50`, `2.50usd`.
    ///
    /// # Errors
    /// A sentence that says how an amount is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not an amount of money: write `3.00usd`, `$0.25` or `2.5`");
        let lower = text.trim().to_ascii_lowercase();
        let number = lower.strip_prefix('$').unwrap_or(&lower);
        let number = number.strip_suffix("usd").unwrap_or(number).trim();
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) || part.len() > DIGITS {
            return Err(bad());
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| bad())? };
        let part: u64 = format!("{part:0<DIGITS$}").parse().map_err(|_| bad())?;
        whole
            .checked_mul(DOLLAR)
            .and_then(|whole| whole.checked_add(part))
            .map(Self::picodollars)
            .ok_or_else(|| format!("`{text}` is too much: at most 18 million dollars can be held"))
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { picodollars: self.picodollars.saturating_add(other.picodollars) }
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Money {
    /// `$0.0125`: at least two digits after the point, and as many as there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = format!("{:0DIGITS$}", self.picodollars % DOLLAR);
        let part = part.trim_end_matches('0');
        write!(f, "${}.{part:0<2}", self.picodollars / DOLLAR)
    }
}

/// Tokens and money: what calls of models use, may use, or have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Amount {
    /// Tokens, of input and output together.
    pub tokens: u64,
    /// What they cost; nothing where no price is known.
    pub cost: Money,
}

impl Amount {
    /// Nothing.
    pub const NOTHING: Self = Self { tokens: 0, cost: Money::ZERO };

    /// What is left of it after `other`; nothing where that is more.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(other.tokens), cost: self.cost.less(other.cost) }
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost + other.cost }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::NOTHING, Add::add)
    }
}

/// What a model costs: amounts per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that was not in the cache.
    #[serde(with = "amount")]
    pub input: Money,
    /// Input read from the cache; as `input` where none is given.
    #[serde(default, with = "optional_amount", skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Money>,
    /// Input written to the cache; as `input` where none is given.
    #[serde(default, with = "optional_amount", skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Money>,
    /// Output, reasoning included.
    #[serde(with = "amount")]
    pub output: Money,
    /// What every token of a call costs whose prompt is longer than some length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrice>,
}

/// What a call with a long prompt costs: amounts per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// Tokens of input that a prompt may have at the ordinary price.
    pub over: u64,
    /// As [`Price::input`].
    #[serde(with = "amount")]
    pub input: Money,
    /// As [`Price::cached_input`].
    #[serde(default, with = "optional_amount", skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Money>,
    /// As [`Price::cache_write`].
    #[serde(default, with = "optional_amount", skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Money>,
    /// As [`Price::output`].
    #[serde(with = "amount")]
    pub output: Money,
}

impl Price {
    /// The price that holds for a prompt of this size.
    fn at(&self, input: u64) -> Self {
        match self.long {
            Some(long) if input > long.over => Self {
                input: long.input,
                cached_input: long.cached_input,
                cache_write: long.cache_write,
                output: long.output,
                long: None,
            },
            _ => *self,
        }
    }

    /// The cost of a call, exact. `None` where the provider didn't say what was used: that is not free.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<Money> {
        let (input, output) = (usage.input?, usage.output?);
        let cached = usage.cached_input.unwrap_or_default().min(input);
        let written = usage.cache_write.unwrap_or_default().min(input - cached);
        let price = self.at(input);
        let parts = [
            (input - cached - written, price.input),
            (cached, price.cached_input.unwrap_or(price.input)),
            (written, price.cache_write.unwrap_or(price.input)),
            (output, price.output),
        ];
        Some(parts.into_iter().map(|(tokens, price)| of_tokens(tokens, price)).sum())
    }

    /// The most that a call of this size can cost, whatever part of it is cached: for reserving before it.
    #[must_use]
    pub fn most(&self, input: u64, output: u64) -> Money {
        let price = self.at(input);
        let dearest =
            price.input.max(price.cached_input.unwrap_or_default()).max(price.cache_write.unwrap_or_default());
        of_tokens(input, dearest) + of_tokens(output, price.output)
    }
}

/// Rounded up to a picodollar, which only prices below a microdollar per million tokens need.
fn of_tokens(tokens: u64, per_million: Money) -> Money {
    let exact = (u128::from(tokens) * u128::from(per_million.picodollars)).div_ceil(1_000_000);
    Money::picodollars(u64::try_from(exact).unwrap_or(u64::MAX))
}

/// Amounts as text (`"2.50"`), since a JSON number would be a float.
mod amount {
    use super::{Deserialize, Deserializer, Money, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
    pub(super) fn serialize<S: Serializer>(money: &Money, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(money)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
        Money::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

mod optional_amount {
    use super::{Deserialize, Deserializer, Money, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's form")]
    pub(super) fn serialize<S: Serializer>(money: &Option<Money>, serializer: S) -> Result<S::Ok, S::Error> {
        money.map(|money| money.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Money>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| Money::parse(&text).map_err(serde::de::Error::custom)).transpose()
    }
}
