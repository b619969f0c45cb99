//! What tests need of the machine.
//!
//! [`postgres`] brings a PostgreSQL that is thrown away afterwards.

pub mod postgres;
