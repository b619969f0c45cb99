//! The shop's letter box: takes deliveries, keeps each once, counts how often it came.

use std::collections::BTreeMap;

/// A report that was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The sender's `Idempotency-Key`.
    pub key: String,
    /// What was delivered first.
    pub body: Vec<u8>,
    /// How often it came. More than once means that the sender repeated an effect.
    pub times: u32,
}

/// All deliveries, by key.
#[derive(Debug, Default)]
pub(super) struct Reports {
    by_key: BTreeMap<String, Delivery>,
}

impl Reports {
    /// Takes one delivery. The first content under a key stays.
    pub(super) fn take(&mut self, key: &str, body: Vec<u8>) -> &Delivery {
        let delivery =
            self.by_key.entry(key.to_owned()).or_insert_with(|| Delivery { key: key.to_owned(), body, times: 0 });
        delivery.times += 1;
        delivery
    }

    /// The delivery with this key.
    pub(super) fn get(&self, key: &str) -> Option<&Delivery> {
        self.by_key.get(key)
    }

    /// All, by key.
    pub(super) fn all(&self) -> Vec<Delivery> {
        self.by_key.values().cloned().collect()
    }
}
