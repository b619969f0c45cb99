//! What people tell a run.

use loopforge_core::id::RecordId;
use loopforge_core::record::Order;
use loopforge_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Something that a person tells a run, whoever works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Made by whoever tells it, so that it isn't told twice.
    pub id: RecordId,
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// What.
    pub order: Order,
}
