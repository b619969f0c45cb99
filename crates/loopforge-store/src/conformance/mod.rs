//! The contract of [`Store`](crate::Store) as tests: a function for each clause of its docs.
//!
//! Each makes runs of its own, so a store may hold others. They panic where a store does not keep the contract. Those
//! that need the time to pass take the clock of the store.

pub mod appends;
pub mod budgets;
pub mod care;
pub mod due;
pub mod effects;
pub mod inbox;
pub mod leases;
pub mod reads;
pub mod state;
