//! What the shop sells on each day: `catalogue.json` is the first day, `differences.json` what the second one changes.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// One of the shop's two days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Day {
    /// The day of the first patrol.
    First,
    /// The day after.
    Second,
}

impl Day {
    /// The date that pages of this day show.
    #[must_use]
    pub const fn date(self) -> &'static str {
        match self {
            Self::First => "2026-03-02",
            Self::Second => "2026-03-03",
        }
    }
}

impl From<Day> for u8 {
    fn from(day: Day) -> Self {
        match day {
            Day::First => 1,
            Day::Second => 2,
        }
    }
}

impl TryFrom<u8> for Day {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        match number {
            1 => Ok(Self::First),
            2 => Ok(Self::Second),
            other => Err(format!("the shop has no day {other}, only 1 and 2")),
        }
    }
}

/// The structure of a product's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// English, with telling class names, OpenGraph and JSON-LD.
    Classic,
    /// English, HTML 4 tables with microdata.
    Table,
    /// Chinese, UTF-8.
    Chinese,
    /// Chinese, GBK: half of these pages say so in the header, half only in the document.
    ChineseGbk,
    /// English, generated class names and `data-testid`.
    Modern,
    /// Chinese, custom elements, the price drawn by a script: what a restructured page becomes.
    Relaunched,
}

/// How a page misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// Has another structure from the second day on, without a price that can be read.
    Restructured,
    /// The first request of a day is answered 429 with `Retry-After`.
    RateLimited,
    /// Answers late.
    Slow,
    /// Answers 404 from the second day on.
    Gone,
    /// The first request of a day gets half of the promised bytes.
    CutOff,
    /// The first request of a day is answered 503.
    UnavailableOnce,
}

/// A product as the shop shows it on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    /// The path of its page.
    pub path: String,
    /// The structure of its page.
    pub layout: Layout,
    /// The shop's number for it.
    pub sku: String,
    /// The part of the shop that it is in.
    pub category: String,
    /// Its name, the title of the page.
    pub name: String,
    /// What the page says about it.
    pub description: String,
    /// The price as it is shown: `￥1,299.00`.
    pub price: String,
    /// Pieces in stock.
    pub stock: u32,
    /// How many were sold, as it is shown: `1.2万`.
    pub sold: String,
    /// How its page misbehaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<Behaviour>,
    /// The day from which on it is sold.
    #[serde(default = "first_day")]
    pub since: Day,
}

const fn first_day() -> Day {
    Day::First
}

impl Product {
    /// The price in hundredths of its currency.
    #[must_use]
    pub fn cents(&self) -> u64 {
        // Every price in the catalogue has two decimals, which a test holds to.
        self.price
            .chars()
            .filter_map(|character| character.to_digit(10))
            .fold(0, |sum, digit| sum * 10 + u64::from(digit))
    }

    /// Whether its page can be reached on `day`.
    #[must_use]
    pub fn is_sold_on(&self, day: Day) -> bool {
        day >= self.since && !(self.behaviour == Some(Behaviour::Gone) && day == Day::Second)
    }

    fn change(&mut self, field: Field, value: &str) {
        match field {
            Field::Name => value.clone_into(&mut self.name),
            Field::Description => value.clone_into(&mut self.description),
            Field::Price => value.clone_into(&mut self.price),
            Field::Stock => self.stock = value.parse().unwrap_or(self.stock),
        }
    }

    /// The text of a field, as its page shows it.
    #[must_use]
    pub fn field(&self, field: Field) -> String {
        match field {
            Field::Name => self.name.clone(),
            Field::Description => self.description.clone(),
            Field::Price => self.price.clone(),
            Field::Stock => self.stock.to_string(),
        }
    }
}

/// A field of a product that can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// [`Product::name`].
    Name,
    /// [`Product::description`].
    Description,
    /// [`Product::price`].
    Price,
    /// [`Product::stock`].
    Stock,
}

/// One difference between the two days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The path of the product's page.
    pub path: String,
    /// What is different.
    #[serde(flatten)]
    pub change: Change,
}

/// What is different about a product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A field has another value.
    Changed {
        /// The field.
        field: Field,
        /// Its value on the first day.
        before: String,
        /// Its value on the second day.
        after: String,
    },
    /// The product is new on the second day.
    Added,
    /// The product is gone on the second day.
    Removed,
}

/// Lists everything that differs between the two days; nothing else does.
///
/// The page whose structure changes shows the same product as before, so it is not in this list.
#[must_use]
pub fn expected_differences() -> &'static [Difference] {
    static DIFFERENCES: LazyLock<Vec<Difference>> = LazyLock::new(|| {
        serde_json::from_str(include_str!("differences.json"))
            .expect("the list is part of the program and read by a test")
    });
    &DIFFERENCES
}

/// Lists what the shop's product list holds on `day`. A product that is gone stays on the list, as such lists go.
#[must_use]
pub fn products(day: Day) -> &'static [Product] {
    static FIRST: LazyLock<Vec<Product>> =
        LazyLock::new(|| all().into_iter().filter(|product| product.since == Day::First).collect());
    static SECOND: LazyLock<Vec<Product>> = LazyLock::new(|| {
        let mut products = all();
        for difference in expected_differences() {
            let Change::Changed { field, after, .. } = &difference.change else { continue };
            if let Some(product) = products.iter_mut().find(|product| product.path == difference.path) {
                product.change(*field, after);
            }
        }
        for product in &mut products {
            if product.behaviour == Some(Behaviour::Restructured) {
                product.layout = Layout::Relaunched;
            }
        }
        products
    });
    match day {
        Day::First => &FIRST,
        Day::Second => &SECOND,
    }
}

fn all() -> Vec<Product> {
    serde_json::from_str(include_str!("catalogue.json"))
        .expect("the catalogue is part of the program and read by a test")
}
