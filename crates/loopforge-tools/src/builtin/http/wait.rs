//! How long a target asks to wait, in the forms that are in use.

use std::sync::LazyLock;
use std::time::Duration;

use loopforge_core::json::Json;
use regex::Regex;
use reqwest::header::HeaderMap;

/// A longer wait is taken for nonsense, and ignored.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

/// The wait that an answer asks for: `retry-after-ms`, `Retry-After` in seconds or as a date, or a word in the body.
///
/// What can't be read, is negative, or is longer than 31 days is ignored. A date in the past means "now".
///
/// Source: RFC 9110 §10.2.3 (Retry-After).
pub(super) fn asked(headers: &HeaderMap, body: &str, now: jiff::Timestamp) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    header("retry-after-ms")
        .and_then(|text| seconds(text, 0.001))
        .or_else(|| header("retry-after").and_then(|text| seconds(text, 1.0).or_else(|| until(text, now))))
        .or_else(|| in_body(body))
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok().filter(|wait| *wait <= LONGEST)
}

fn until(text: &str, now: jiff::Timestamp) -> Option<Duration> {
    let instant = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let wait = Duration::try_from(instant.duration_since(now)).unwrap_or(Duration::ZERO);
    (wait <= LONGEST).then_some(wait)
}

/// `"retryDelay": "7s"` and `"retry_after": 7` anywhere in a JSON body; `try again in 2.5s` in any other.
fn in_body(body: &str) -> Option<Duration> {
    static SENTENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(?:try again|retry) (?:in|after) ([0-9.]+ ?(?:ms|s|m|h|seconds?|minutes?)\b)").ok()
    });
    if let Ok(json) = serde_json::from_str::<Json>(body)
        && let Some(wait) = in_json(&json)
    {
        return Some(wait);
    }
    let found = SENTENCE.as_ref()?.captures(body)?;
    span(found.get(1)?.as_str())
}

fn in_json(value: &Json) -> Option<Duration> {
    match value {
        Json::Object(map) => map.iter().find_map(|(key, item)| match (key.as_str(), item) {
            ("retryDelay" | "retry_delay" | "retry_after" | "retryAfter", Json::String(text)) => span(text),
            ("retry_after" | "retryAfter", Json::Number(number)) => seconds(&number.to_string(), 1.0),
            ("retry_after_ms" | "retryAfterMs", Json::Number(number)) => seconds(&number.to_string(), 0.001),
            _ => in_json(item),
        }),
        Json::Array(items) => items.iter().find_map(in_json),
        _ => None,
    }
}

/// `7s`, `2.5 s`, `300ms`, `2 minutes`; a bare number is seconds.
fn span(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit.trim() {
        "ms" => 0.001,
        "" | "s" | "second" | "seconds" => 1.0,
        "m" | "minute" | "minutes" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    seconds(number, unit)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn wait(pairs: &[(&'static str, &str)], body: &str) -> Option<Duration> {
        asked(&headers(pairs), body, "2026-11-30T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn each_form_keeps_its_unit() {
        let ms = |number| Some(Duration::from_millis(number));
        assert_eq!(wait(&[("retry-after", "7")], ""), ms(7000));
        assert_eq!(wait(&[("retry-after", " 0 ")], ""), ms(0));
        assert_eq!(wait(&[("retry-after-ms", "274579000")], ""), ms(274_579_000));
        assert_eq!(wait(&[("retry-after", "9"), ("retry-after-ms", "250")], ""), ms(250));
        assert_eq!(wait(&[("retry-after", "Mon, 30 Nov 2026 12:00:05 GMT")], ""), ms(5000));
        assert_eq!(wait(&[("retry-after", "Mon, 30 Nov 2026 11:00:00 GMT")], ""), ms(0));
        assert_eq!(wait(&[], r#"{"error":{"details":[{"retryDelay":"7s"}]}}"#), ms(7000));
        assert_eq!(wait(&[], r#"{"retry_after": 1.5}"#), ms(1500));
        assert_eq!(wait(&[], "Rate limit reached, please try again in 2.5s."), ms(2500));
        assert_eq!(wait(&[], "try again in 300ms"), ms(300));
        assert_eq!(wait(&[], "Try again in 2 minutes"), ms(120_000));
    }

    #[test]
    fn nonsense_is_ignored() {
        for text in ["abc", "-5", "1e12", "1000000000000", "NaN", "inf", "", "Mon, 30 Nov 2099 12:00:05 GMT"] {
            assert_eq!(wait(&[("retry-after", text)], ""), None, "{text}");
        }
        assert_eq!(wait(&[("retry-after", "abc")], r#"{"retryDelay":"7s"}"#), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[], "nothing of the kind"), None);
    }
}
