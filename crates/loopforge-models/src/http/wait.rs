//! How long a provider asks to wait, in the forms that are in use.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use loopforge_core::json::Json;
use regex::Regex;

/// A longer wait is taken for nonsense, and ignored.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

/// A header of an answer by its name, in lower case.
pub(crate) fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim())
}

/// The wait that an answer asks for.
///
/// In this order: `retry-after-ms`, `retry-after` in seconds or as a date, a member or a sentence of the body, and the time at which a
/// limit that is used up is reset. What can't be read, is negative, or is longer than 31 days is ignored. A date in the past means "now".
///
/// Sources: RFC 9110 §10.2.3 (Retry-After); the rate limit headers of OpenAI (`x-ratelimit-reset-tokens: 6m0s`), Anthropic
/// (`anthropic-ratelimit-tokens-reset`, RFC 3339) and OpenRouter (`x-ratelimit-reset`, milliseconds since 1970).
pub(crate) fn asked(headers: &[(String, String)], body: &str, now: Timestamp) -> Option<Duration> {
    header(headers, "retry-after-ms")
        .and_then(|text| number(text, 1))
        .or_else(|| header(headers, "retry-after").and_then(|text| number(text, 1000).or_else(|| until(text, now))))
        .or_else(|| in_body(body))
        .or_else(|| reset(headers, now))
}

/// A number of units of `millis`.
fn number(text: &str, millis: u32) -> Option<Duration> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number * f64::from(millis) / 1000.0).ok().filter(|wait| *wait <= LONGEST)
}

fn until(text: &str, now: Timestamp) -> Option<Duration> {
    let instant = jiff::fmt::rfc2822::parse(text).map(|zoned| zoned.timestamp()).or_else(|_| text.parse()).ok()?;
    span_to(instant, now)
}

fn span_to(instant: Timestamp, now: Timestamp) -> Option<Duration> {
    let wait = Duration::try_from(instant.duration_since(now)).unwrap_or(Duration::ZERO);
    (wait <= LONGEST).then_some(wait)
}

/// `"retryDelay": "7s"` and `"retry_after": 7` anywhere in a JSON body; `try again in 2.5s` in any.
fn in_body(body: &str) -> Option<Duration> {
    static SENTENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(?:try again|retry|wait)(?: in| after| for)? ((?:[0-9]+(?:\.[0-9]+)? ?[a-z]+ ?)+)").ok()
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
            ("retry_after" | "retryAfter" | "retry_after_seconds", Json::Number(found)) => {
                number(&found.to_string(), 1000)
            }
            ("retry_after_ms" | "retryAfterMs", Json::Number(found)) => number(&found.to_string(), 1),
            _ => in_json(item),
        }),
        Json::Array(items) => items.iter().find_map(in_json),
        _ => None,
    }
}

/// `7s`, `2.5 s`, `300ms`, `1h2m3.5s`, `2 minutes`; a bare number is seconds.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if let Some(wait) = number(rest, 1000) {
        return Some(wait);
    }
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (amount, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let millis = match unit.to_ascii_lowercase().as_str() {
            "ms" | "millisecond" | "milliseconds" => 1,
            "s" | "sec" | "secs" | "second" | "seconds" => 1000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
            "h" | "hour" | "hours" => 3_600_000,
            _ => return None,
        };
        sum += number(amount, millis)?;
        rest = after.trim_start();
    }
    (sum <= LONGEST).then_some(sum)
}

/// When the limits that are used up are reset. Where an answer doesn't say which one is, the latest of them.
fn reset(headers: &[(String, String)], now: Timestamp) -> Option<Duration> {
    let mut used_up = None;
    let mut any = None;
    for (name, value) in headers {
        let Some(limit) = limit_of(name) else { continue };
        let Some(wait) = reset_value(value.trim(), now) else { continue };
        any = any.max(Some(wait));
        let remaining = header(headers, &remaining_of(name, limit));
        if remaining.is_some_and(|left| left.parse::<f64>().is_ok_and(|left| left <= 0.0)) {
            used_up = used_up.max(Some(wait));
        }
    }
    used_up.or(any)
}

/// The limit that a header's reset is about: `tokens` of `x-ratelimit-reset-tokens` and `anthropic-ratelimit-tokens-reset`.
fn limit_of(name: &str) -> Option<&str> {
    if let Some(limit) = name.strip_prefix("anthropic-ratelimit-") {
        return limit.strip_suffix("-reset");
    }
    let rest = name.strip_prefix("x-ratelimit-reset").or_else(|| name.strip_prefix("ratelimit-reset"))?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('-') }
}

fn remaining_of(name: &str, limit: &str) -> String {
    match limit {
        _ if name.starts_with("anthropic-") => format!("anthropic-ratelimit-{limit}-remaining"),
        _ => name.replacen("-reset", "-remaining", 1),
    }
}

fn reset_value(text: &str, now: Timestamp) -> Option<Duration> {
    // Seconds since 1970 have ten digits, milliseconds thirteen; a wait never has.
    if let Ok(whole) = text.parse::<i64>() {
        return match whole {
            1_000_000_000_000.. => span_to(Timestamp::from_millisecond(whole).ok()?, now),
            1_000_000_000.. => span_to(Timestamp::from_second(whole).ok()?, now),
            _ => number(text, 1000),
        };
    }
    span(text).or_else(|| until(text, now))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn wait(pairs: &[(&str, &str)], body: &str) -> Option<Duration> {
        let headers: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        asked(&headers, body, "2026-11-30T12:00:00Z".parse().unwrap())
    }

    fn ms(number: u64) -> Option<Duration> {
        Some(Duration::from_millis(number))
    }

    /// RTY-02
    #[test]
    fn each_form_keeps_its_unit() {
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
        assert_eq!(wait(&[], "Please try again in 1m2.5s. Visit us."), ms(62_500));
        assert_eq!(wait(&[], "Try again in 2 minutes"), ms(120_000));
        assert_eq!(wait(&[], "Please retry after 58 seconds."), ms(58_000));
        assert_eq!(wait(&[], "Please wait 3 seconds"), ms(3000));
    }

    /// RTY-02
    #[test]
    fn nonsense_is_ignored() {
        for text in ["abc", "-5", "1e12", "1000000000000", "NaN", "inf", "", "Mon, 30 Nov 2099 12:00:05 GMT"] {
            assert_eq!(wait(&[("retry-after", text)], ""), None, "{text}");
        }
        assert_eq!(wait(&[("retry-after", "abc")], r#"{"retryDelay":"7s"}"#), ms(7000));
        assert_eq!(wait(&[], "nothing of the kind; retry with 5 tokens"), None);
    }

    #[test]
    fn the_limit_that_is_used_up_says_when() {
        let openai = [
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "24h0m0s"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0.5s"),
        ];
        assert_eq!(wait(&openai, ""), ms(360_500));
        assert_eq!(wait(&openai[2..], "try again in 4s"), ms(4000));
        let anthropic = [
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:00:09Z"),
            ("anthropic-ratelimit-requests-remaining", "3"),
            ("anthropic-ratelimit-requests-reset", "2026-11-30T12:01:00Z"),
        ];
        assert_eq!(wait(&anthropic, ""), ms(9000));
        assert_eq!(wait(&[("x-ratelimit-reset", "1796040003000")], ""), ms(3000));
        assert_eq!(wait(&[("x-ratelimit-reset", "1796040004")], ""), ms(4000));
        assert_eq!(wait(&[("x-ratelimit-reset-tokens", "11")], ""), ms(11_000));
    }
}
