//! Dates as people write them.

use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A day. The year may be left open, as in `3月5日`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    pub year: Option<i16>,
    pub month: i8,
    pub day: i8,
}

impl fmt::Display for Date {
    /// ISO 8601; without a year `--03-05`, as in its edition of 2000 and in RFC 6350.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.year {
            Some(year) => write!(f, "{year:04}-{:02}-{:02}", self.month, self.day),
            None => write!(f, "--{:02}-{:02}", self.month, self.day),
        }
    }
}

/// The forms. Each names its groups: `y`, `m` (number) or `n` (name), `d`; `a` and `b` where day and month are not told apart.
static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    const MONTH: &str = "(?P<n>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*";
    [
        r"\b(?P<y>\d{4})\s?(?:[-/.]|年)\s?(?P<m>\d{1,2})\s?(?:[-/.]|月)\s?(?P<d>\d{1,2})(?:\D|$)".to_owned(),
        r"(?P<m>\d{1,2})\s?月\s?(?P<d>\d{1,2})\s?[日号]".to_owned(),
        format!(r"(?i)\b{MONTH}\.?\s(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(?P<y>\d{{4}})\b)?"),
        format!(r"(?i)\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\.?[\s-]{MONTH}\b\.?(?:,?[\s-](?P<y>\d{{4}})\b)?"),
        r"\b(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>\d{4})\b".to_owned(),
        r"\b(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<y>\d{4})\b".to_owned(),
    ]
    .iter()
    .filter_map(|form| Regex::new(form).ok())
    .collect()
});

/// The first date in `text`. Impossible days are no dates; `03/05/2026`, which may be two days, is none either.
pub(super) fn read(text: &str) -> Option<Date> {
    FORMS
        .iter()
        .filter_map(|form| form.captures(text))
        .filter_map(|found| Some((found.get(0)?.start(), found)))
        // The earliest; of those, the form that stands first in the list.
        .min_by_key(|(start, _)| *start)
        .and_then(|(_, found)| date(&found))
}

fn date(found: &Captures<'_>) -> Option<Date> {
    let part = |name: &str| found.name(name).and_then(|part| part.as_str().parse::<i8>().ok());
    let year = found.name("y").and_then(|part| part.as_str().parse::<i16>().ok());
    let (month, day) = match (part("a"), part("b")) {
        (Some(first), Some(second)) if first > 12 => (second, first),
        (Some(first), Some(second)) if second > 12 || first == second => (first, second),
        (Some(_), Some(_)) => return None,
        _ => (part("m").or_else(|| month(found.name("n")?.as_str()))?, part("d")?),
    };
    // Of a day without a year the most that can be said is that a leap year has it.
    jiff::civil::Date::new(year.unwrap_or(2024), month, day).ok()?;
    Some(Date { year, month, day })
}

fn month(name: &str) -> Option<i8> {
    const NAMES: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let position = NAMES.iter().position(|other| name.eq_ignore_ascii_case(other))?;
    i8::try_from(position + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_both_languages() {
        assert_eq!(FORMS.len(), 6);
        for (text, value) in [
            ("2026-11-30", "2026-11-30"),
            ("2026/1/5", "2026-01-05"),
            ("2026年11月30日", "2026-11-30"),
            ("2026 年 11 月 30 日 12:30", "2026-11-30"),
            ("2026.11.30 发布", "2026-11-30"),
            ("2026-11-30T08:00:00Z", "2026-11-30"),
            ("3月5日", "--03-05"),
            ("优惠至12月31号", "--12-31"),
            ("Nov 30, 2026", "2026-11-30"),
            ("November 30th 2026", "2026-11-30"),
            ("30 Nov 2026", "2026-11-30"),
            ("Sept. 5, 2026", "2026-09-05"),
            ("May 5", "--05-05"),
            ("31.12.2026", "2026-12-31"),
            ("30/11/2026", "2026-11-30"),
            ("11/30/2026", "2026-11-30"),
            ("2月29日", "--02-29"),
        ] {
            assert_eq!(read(text).map(|date| date.to_string()).as_deref(), Some(value), "{text}");
        }
        for text in ["", "soon", "03/05/2026", "2026-13-01", "2026-02-30", "2月30日", "1299.00", "Nov 2026"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
