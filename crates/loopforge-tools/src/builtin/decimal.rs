//! Decimal numbers as they are written: prices are compared and multiplied exactly, never through binary fractions.

use std::fmt;

use loopforge_core::json::Json;
use serde_json::Number;

/// A decimal number of any length. Equality is by value: `1.50` equals `1.5`.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    negative: bool,
    /// Digits before the point; at least one.
    whole: String,
    /// Digits after the point, as written.
    fraction: String,
}

impl Decimal {
    /// Digits before and after the point.
    pub(super) fn from_digits(negative: bool, whole: &str, fraction: &str) -> Self {
        let whole = match whole.trim_start_matches('0') {
            "" => "0".to_owned(),
            digits => digits.to_owned(),
        };
        Self { negative, whole, fraction: fraction.to_owned() }
    }

    /// Reads `-12.50` or `1.2e3`, as JSON writes numbers. `None` for anything else, and for exponents beyond all use.
    pub(super) fn parse(text: &str) -> Option<Self> {
        const LONGEST: i32 = 400;
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || exponent.abs() > LONGEST {
            return None;
        }
        Some(Self::from_digits(negative, whole, fraction).shift(exponent))
    }

    /// The number times ten to the power of `places`.
    pub(super) fn shift(self, places: i32) -> Self {
        let count = usize::try_from(places.unsigned_abs()).unwrap_or(usize::MAX);
        let Self { negative, mut whole, mut fraction } = self;
        if places >= 0 {
            let moved = count.min(fraction.len());
            whole.push_str(&fraction[..moved]);
            whole.extend(std::iter::repeat_n('0', count - moved));
            fraction.drain(..moved);
        } else {
            let missing = (count + 1).saturating_sub(whole.len());
            whole.insert_str(0, &"0".repeat(missing));
            let tail = whole.split_off(whole.len() - count);
            fraction.insert_str(0, &tail);
        }
        Self::from_digits(negative, &whole, &fraction)
    }

    /// The number with the other sign.
    pub(super) fn negate(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// Whether nothing but zeros stands after the point.
    pub(super) fn is_whole(&self) -> bool {
        self.fraction.bytes().all(|byte| byte == b'0')
    }

    /// The nearest JSON number: exact for whole numbers of 64 bits.
    pub(super) fn to_json(&self) -> Json {
        let text = self.to_string();
        if self.is_whole()
            && let Ok(whole) = text.split('.').next().unwrap_or(&text).parse::<i64>()
        {
            return Json::Number(whole.into());
        }
        text.parse::<f64>().ok().and_then(Number::from_f64).map_or(Json::Null, Json::Number)
    }

    fn parts(&self) -> (bool, &str, &str) {
        let fraction = self.fraction.trim_end_matches('0');
        let zero = self.whole == "0" && fraction.is_empty();
        (self.negative && !zero, &self.whole, fraction)
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Decimal {}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        f.write_str(&self.whole)?;
        if !self.fraction.is_empty() {
            write!(f, ".{}", self.fraction)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn reads_compares_and_shifts_exactly() {
        let read = |text| Decimal::parse(text).unwrap();
        assert_eq!(read("1.50"), read("1.5"));
        assert_eq!(read("-0.0"), read("0"));
        assert_eq!(read("12e-1"), read("1.2"));
        assert_ne!(read("0.1"), read("0.10000000000000001"));
        assert_eq!(read("1.2").shift(4).to_string(), "12000");
        assert_eq!(read("1.23456").shift(4).to_string(), "12345.6");
        assert_eq!(read("5").shift(-3).to_string(), "0.005");
        assert_eq!(read("1299.00").to_string(), "1299.00");
        assert_eq!(read("1299.00").to_json(), serde_json::json!(1299));
        assert_eq!(read("12.5").to_json(), serde_json::json!(12.5));
        for text in ["", "-", ".5", "1.", "1,2", "1e", "1e9999", "abc", "١"] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }
}
