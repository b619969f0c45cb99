//! Keys, which are shown nowhere.

use std::fmt;

use bytes::Bytes;

/// A shorter key is no key: masking it would only make texts unreadable (`none`, `sk`).
const SHORTEST: usize = 8;

/// A key of a provider. It is sent and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    value: String,
    source: String,
}

impl Secret {
    /// A key, and where it came from (the name of a variable).
    #[must_use]
    pub fn new(value: impl Into<String>, source: impl Into<String>) -> Self {
        Self { value: value.into(), source: source.into() }
    }

    /// The key itself, for sending.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.value
    }

    /// Where it came from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// `text` without the key: some servers repeat it in their errors.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        if self.value.len() < SHORTEST { text.to_owned() } else { text.replace(&self.value, "***") }
    }

    /// `bytes` without the key, as many as before.
    #[must_use]
    pub fn mask_bytes(&self, bytes: Bytes) -> Bytes {
        let key = self.value.as_bytes();
        let found = |bytes: &[u8], from: usize| {
            bytes[from..].windows(key.len()).position(|window| window == key).map(|place| from + place)
        };
        if key.len() < SHORTEST || bytes.len() < key.len() || found(&bytes, 0).is_none() {
            return bytes;
        }
        let mut masked = bytes.to_vec();
        let mut from = 0;
        while let Some(place) = found(&masked, from) {
            masked[place..place + key.len()].fill(b'*');
            from = place + key.len();
        }
        masked.into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret(from {})", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_never_shown() {
        let secret = Secret::new("sk-0123456789", "SOME_KEY");
        assert_eq!(format!("{secret:?}"), "Secret(from SOME_KEY)");
        assert_eq!(secret.mask("key sk-0123456789 is wrong: sk-0123456789"), "key *** is wrong: ***");
        let body = Bytes::from_static(b"<sk-0123456789sk-0123456789>");
        assert_eq!(secret.mask_bytes(body), Bytes::from_static(b"<**************************>"));
        assert_eq!(secret.mask_bytes(Bytes::from_static(b"other")), Bytes::from_static(b"other"));
    }

    #[test]
    fn what_is_no_key_is_not_masked() {
        assert_eq!(Secret::new("none", "X").mask("there are none"), "there are none");
    }
}
