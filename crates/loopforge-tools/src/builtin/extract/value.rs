//! What a text is read as.

use std::fmt;

use loopforge_core::json::Json;
use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{date, number};

/// The kinds of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// The text itself, blanks joined.
    #[default]
    Text,
    /// `1,299.5`, `1.2万`: `value`, and `decimal` exactly.
    Number,
    /// A whole number.
    Integer,
    /// `￥1,299.00`, `399元`: `value`, `amount` exactly, and `currency` (ISO 4217).
    Price,
    /// `2026-11-30`, `2026年11月30日`, `3月5日`, `Nov 30, 2026`: `value` in ISO 8601, and its parts.
    Date,
    /// A link, resolved.
    Url,
    /// `yes`, `有货`, `sold out`, ...
    Bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "a text",
            Self::Number => "a number",
            Self::Integer => "a whole number",
            Self::Price => "a price",
            Self::Date => "a date",
            Self::Url => "a link (a relative one needs `base_url`)",
            Self::Bool => "yes or no",
        })
    }
}

impl Kind {
    /// The value of `text`, or `None` when it can't be read so.
    pub(super) fn read(self, text: &str, base: Option<&Url>, currency: Option<&str>) -> Option<Json> {
        match self {
            Self::Text => Some(json!(text)),
            Self::Number => {
                let number = number::number(text)?;
                Some(json!({ "value": number.to_json(), "decimal": number.to_string(), "text": text }))
            }
            Self::Integer => {
                let number = number::integer(text)?;
                Some(json!({ "value": number.to_json(), "decimal": number.to_string(), "text": text }))
            }
            Self::Price => {
                let price = number::price(text)?;
                // What the task says holds where the text leaves it open.
                let currency = match (price.currency, currency) {
                    (Some(named), Some(said)) => Some(if price.shared_sign { said } else { named }),
                    (named, said) => named.or(said),
                };
                let amount = price.amount.to_string();
                Some(json!({ "value": price.amount.to_json(), "amount": amount, "currency": currency, "text": text }))
            }
            Self::Date => {
                let date = date::read(text)?;
                let (year, month, day) = (date.year, date.month, date.day);
                Some(json!({ "value": date.to_string(), "year": year, "month": month, "day": day, "text": text }))
            }
            Self::Url => {
                let url = match base {
                    Some(base) => base.join(text).ok()?,
                    None => Url::parse(text).ok()?,
                };
                Some(json!({ "value": url.as_str(), "text": text }))
            }
            Self::Bool => Some(json!({ "value": yes_or_no(text)?, "text": text })),
        }
    }
}

fn yes_or_no(text: &str) -> Option<bool> {
    const YES: [&str; 14] =
        ["true", "yes", "y", "1", "on", "是", "有", "有货", "现货", "在售", "in stock", "instock", "available", "✓"];
    const NO: [&str; 16] = [
        "false",
        "no",
        "n",
        "0",
        "off",
        "否",
        "无",
        "无货",
        "缺货",
        "售罄",
        "下架",
        "out of stock",
        "outofstock",
        "sold out",
        "unavailable",
        "✗",
    ];
    let word = text.trim().to_lowercase();
    // schema.org writes its words as addresses.
    let word = word.rsplit("schema.org/").next().unwrap_or(&word);
    if YES.contains(&word) {
        Some(true)
    } else if NO.contains(&word) {
        Some(false)
    } else {
        None
    }
}
