//! Texts that PostgreSQL can't hold.
//!
//! A text column takes any character but NUL. One that got this far is kept all the same: NUL stands as U+0001 and `0`,
//! and U+0001 itself, which is as rare, as U+0001 and `1`.

use std::borrow::Cow;

const MARK: char = '\u{1}';

/// A text as it is stored.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => stored.push_str("\u{1}0"),
            MARK => stored.push_str("\u{1}1"),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// The reverse of [`escape`].
pub(crate) fn unescape(stored: String) -> String {
    if !stored.contains(MARK) {
        return stored;
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        match character {
            MARK => match characters.next() {
                Some('0') => text.push('\0'),
                _ => text.push(MARK),
            },
            other => text.push(other),
        }
    }
    text
}

/// The same for a text that may be absent.
pub(crate) fn escape_some(text: Option<&str>) -> Option<String> {
    text.map(|text| escape(text).into_owned())
}
