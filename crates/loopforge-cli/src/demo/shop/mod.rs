//! A small shop on loopback for the demonstration and the tests: real pages with real faults, the same every time.
//!
//! It has two days. From the first to the second some prices, stocks and texts change ([`expected_differences`]), a product is
//! new, another is gone. Some pages misbehave in a scripted way ([`Behaviour`]), counted per day, so that a patrol meets
//! every fault once and can make it good. `/reports` takes deliveries and says how often each one came.
//!
//! The shop keeps a [log](Shop::log) of every request: it is the witness of what was fetched twice and what wasn't.

mod catalogue;
mod pages;
mod reports;
mod server;

#[cfg(test)]
mod tests;

pub use catalogue::{Behaviour, Change, Day, Difference, Field, Layout, Product, expected_differences, products};
pub use reports::Delivery;
pub use server::{Logged, Outcome, Shop, ShopOptions};
