//! PostgreSQL servers for tests.
//!
//! [`place`] gives an address in the one server that all tests of a machine share: the first test that asks starts it,
//! and it ends by itself some seconds after the last process that used it, however that process ended. A [`Server`] is
//! one's own, to be crashed and failed over.
//!
//! `LOOPFORGE_TEST_POSTGRES` names an existing database instead of the shared server. Tests make a schema each in it,
//! called `loopforge_test_...`, and leave it there.

mod programs;
mod server;
mod shared;

pub use programs::{INSTALL, Programs};
pub use server::Server;
pub use shared::{Shared, VARIABLE};

use std::sync::OnceLock;

use uuid::Uuid;

/// An address of a store that no other test uses.
///
/// # Panics
/// When there is no server and none can be started: a test that needs one must not pass without it.
#[must_use]
pub fn place() -> String {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Shared::join().unwrap_or_else(|problem| panic!("{problem}")));
    with_schema(shared.url())
}

/// The same database with a schema of its own.
#[must_use]
pub fn with_schema(url: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}schema=loopforge_test_{}", Uuid::new_v4().simple())
}
