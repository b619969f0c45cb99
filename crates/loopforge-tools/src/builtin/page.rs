//! The page that a tool is given: a text, or the answer of `http_get` as it stands.

use std::collections::HashMap;

use loopforge_core::tool::{Code, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;

/// HTML, as a text or as what `http_get` returned.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Page {
    /// The text.
    Text(String),
    /// The answer of `http_get`.
    Fetched {
        /// The text.
        body: String,
        /// Where it came from; links are resolved against it.
        #[serde(default)]
        url: Option<String>,
    },
}

impl Page {
    /// The text, and where it came from.
    pub(super) fn into_parts(self) -> (String, Option<String>) {
        match self {
            Self::Text(text) => (text, None),
            Self::Fetched { body, url } => (body, url),
        }
    }
}

/// The most that elements may be nested: browsers flatten what is deeper than 512.
const DEEPEST: usize = 4096;

/// Refuses a page that would keep the parser busy for ever: its time grows with the square of the nesting.
///
/// # Errors
/// A result that says so.
pub(super) fn check_nesting(html: &str) -> Result<(), ToolResult> {
    if nesting(html) <= DEEPEST {
        return Ok(());
    }
    let error =
        format!("the page nests elements more than {DEEPEST} deep: it is broken, or meant to keep its reader busy");
    Err(ToolResult::failure(Code::MalformedOutput, error))
}

/// How deep elements are nested at most, by their tags alone. Elements that end by themselves don't count.
fn nesting(html: &str) -> usize {
    const END_BY_THEMSELVES: [&str; 32] = [
        "area", "base", "body", "br", "col", "dd", "dt", "embed", "head", "hr", "html", "img", "input", "li", "link",
        "meta", "optgroup", "option", "p", "param", "path", "rb", "rp", "rt", "source", "tbody", "td", "tfoot", "th",
        "thead", "tr", "wbr",
    ];
    let mut open: HashMap<String, usize> = HashMap::new();
    let (mut depth, mut deepest) = (0, 0);
    for part in html.split('<').skip(1) {
        let (closes, rest) = match part.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, part),
        };
        if !rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            continue;
        }
        let end = rest
            .find(|character: char| character.is_ascii_whitespace() || matches!(character, '>' | '/'))
            .unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        if END_BY_THEMSELVES.contains(&name.as_str()) {
            continue;
        }
        let count = open.entry(name).or_default();
        if !closes {
            *count += 1;
            depth += 1;
            deepest = deepest.max(depth);
        } else if *count > 0 {
            *count -= 1;
            depth -= 1;
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_seen_and_lists_without_end_tags_are_not() {
        assert_eq!(nesting("<div><b>x</b></div><DIV class=a></DIV>"), 2);
        assert_eq!(nesting(&"<div></b>".repeat(50)), 50);
        assert_eq!(nesting(&"<li>x<br><p>".repeat(10_000)), 0);
        assert_eq!(nesting("1 < 2 <- <!-- a --> </x>"), 0);
        assert!(check_nesting(&"<div>".repeat(20_000)).is_err());
        assert!(check_nesting(&"<div><p>x</div>".repeat(20_000)).is_ok());
    }
}
