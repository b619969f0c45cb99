//! One request over HTTP: sending it, waiting for pieces, and what went wrong.

mod classify;
mod client;
mod secret;
mod wait;

pub(crate) use classify::{Said, error as classified, shorten};
pub(crate) use client::{Endpoint, KeyHeader, Pieces, Progress, Transfer};
pub use secret::Secret;
