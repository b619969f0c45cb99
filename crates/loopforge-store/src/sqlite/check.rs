//! Looks for damage.

use rusqlite::Connection;

use crate::Finding;

pub(crate) fn check(_connection: &Connection) -> Vec<Finding> {
    Vec::new()
}
