//! Numbers and prices as people write them, in Chinese and in Western pages.

use std::ops::Range;

use super::super::decimal::Decimal;

/// A price.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Price {
    pub amount: Decimal,
    /// ISO 4217, when the text names it. `¥` is read as CNY and `$` as USD.
    pub currency: Option<&'static str>,
    /// Whether only `¥` or `$` names the currency: other countries use the same sign.
    pub shared_sign: bool,
}

/// How a number is written where the text alone leaves it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Habit {
    /// `1.299` is 1299, not 1.299.
    dot_groups: bool,
    /// `1 299` is one number. Narrow and unbreakable spaces always group.
    space_groups: bool,
}

/// The first number in `text`.
pub(super) fn number(text: &str) -> Option<Decimal> {
    let text = half_width(text);
    scan(&text, Habit { dot_groups: false, space_groups: false }).into_iter().next().map(|found| found.value)
}

/// The first number in `text`, if it is whole.
pub(super) fn integer(text: &str) -> Option<Decimal> {
    let text = half_width(text);
    let found = scan(&text, Habit { dot_groups: true, space_groups: false }).into_iter().next()?;
    let value = found.value;
    value.is_whole().then(|| Decimal::parse(value.to_string().split('.').next().unwrap_or_default())).flatten()
}

/// The first number in `text` beside which a currency stands; if there is none, the first number.
pub(super) fn price(text: &str) -> Option<Price> {
    let text = half_width(text);
    let found = scan(&text, Habit { dot_groups: false, space_groups: true });
    let beside = found.iter().enumerate().find_map(|(position, number)| {
        let start = if position == 0 { 0 } else { found[position - 1].at.end };
        let end = found.get(position + 1).map_or(text.len(), |next| next.at.start);
        let before = currency_at_end(&text[start..number.at.start]);
        before.or_else(|| currency_at_start(&text[number.at.end..end])).map(|named| (number, named))
    });
    let Some((number, (sign, currency))) = beside else {
        let first = found.into_iter().next()?;
        return Some(Price { amount: first.value, currency: None, shared_sign: false });
    };
    // Where the euro is used, the dot separates thousands.
    let dotted = if matches!(currency, "EUR" | "BRL" | "TRY") {
        let habit = Habit { dot_groups: true, space_groups: true };
        scan(&text, habit).into_iter().find(|other| other.at == number.at).map(|other| other.value)
    } else {
        None
    };
    let amount = dotted.unwrap_or_else(|| number.value.clone());
    let amount = if sign_before_currency(&text[..number.at.start]) { amount.negate() } else { amount };
    Some(Price { amount, currency: Some(currency), shared_sign: matches!(sign, "¥" | "$") })
}

#[derive(Debug)]
struct Found {
    /// Where it stands, sign and factor included.
    at: Range<usize>,
    value: Decimal,
}

fn scan(text: &str, habit: Habit) -> Vec<Found> {
    let mut found = Vec::new();
    let mut position = 0;
    while let Some(offset) = text[position..].find(|character: char| character.is_ascii_digit()) {
        let start = position + offset;
        let end = number_end(text, start, habit);
        let (mut value, sign_length) = {
            let before = &text[position..start];
            let sign = before.chars().next_back().filter(|character| matches!(character, '-' | '−'));
            // In `100-200` and `A-5` the dash joins; it is no sign.
            let joined = sign.is_some_and(|sign| {
                let rest = &text[..start - sign.len_utf8()];
                rest.chars().next_back().is_some_and(char::is_alphanumeric)
            });
            let sign = sign.filter(|_| !joined);
            (interpret(&text[start..end], sign.is_some(), habit), sign.map_or(0, char::len_utf8))
        };
        let (zeros, factor_length) = factor(&text[end..]);
        value = value.shift(zeros);
        let at = start - sign_length..end + factor_length;
        position = at.end;
        found.push(Found { at, value });
    }
    found
}

/// Where the number that begins at `start` ends: after its last digit.
fn number_end(text: &str, start: usize, habit: Habit) -> usize {
    let mut end = start;
    loop {
        let rest = &text[end..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        end += digits;
        let rest = &text[end..];
        let Some(separator) = rest.chars().next() else { return end };
        let after = &rest[separator.len_utf8()..];
        let following = after.bytes().take_while(u8::is_ascii_digit).count();
        let goes_on = match separator {
            '.' | ',' => following > 0,
            ' ' => habit.space_groups && following == 3 && digits <= 3,
            '\u{a0}' | '\u{202f}' | '\u{2009}' | '\'' | '’' | '_' => following == 3,
            _ => false,
        };
        if !goes_on {
            return end;
        }
        end += separator.len_utf8();
    }
}

/// Decides which separator is the decimal point.
fn interpret(written: &str, negative: bool, habit: Habit) -> Decimal {
    let written: String = written.chars().filter(|character| matches!(character, '0'..='9' | '.' | ',')).collect();
    let last = |separator| written.rfind(separator);
    let point = match (last(','), last('.')) {
        (None, None) => None,
        (Some(comma), Some(dot)) => Some(comma.max(dot)),
        (Some(comma), None) => (!groups(&written, ',', true)).then_some(comma),
        (None, Some(dot)) => (!groups(&written, '.', habit.dot_groups)).then_some(dot),
    };
    let digits = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
    match point {
        None => Decimal::from_digits(negative, &digits(&written), ""),
        Some(point) => Decimal::from_digits(negative, &digits(&written[..point]), &digits(&written[point + 1..])),
    }
}

/// Whether the only kind of separator in `written` groups digits: `1,299`, `1.234.567`, `12,34,567`.
fn groups(written: &str, separator: char, when_single: bool) -> bool {
    let parts: Vec<&str> = written.split(separator).collect();
    if parts.len() > 2 {
        return true;
    }
    when_single && parts[1].len() == 3 && parts[0].len() <= 3 && parts[0] != "0"
}

/// The factor after a number, as a power of ten, and its length: `万`, `千`, `亿`, `万亿`, `k`.
fn factor(rest: &str) -> (i32, usize) {
    let trimmed = rest.trim_start_matches(' ');
    let mut length = rest.len() - trimmed.len();
    let mut zeros = 0;
    for character in trimmed.chars() {
        zeros += match character {
            '百' => 2,
            '千' => 3,
            '万' | '萬' => 4,
            '亿' | '億' => 8,
            _ => break,
        };
        length += character.len_utf8();
    }
    if zeros > 0 {
        return (zeros, length);
    }
    let mut characters = rest.chars();
    let letter = characters.next();
    let ends = !characters.next().is_some_and(char::is_alphanumeric);
    match letter {
        Some('k' | 'K') if ends => (3, 1),
        Some('w' | 'W') if ends => (4, 1),
        _ => (0, 0),
    }
}

/// Signs and words of currencies, longer ones before those that they contain.
const CURRENCIES: [(&str, &str); 52] = [
    ("HK$", "HKD"),
    ("NT$", "TWD"),
    ("US$", "USD"),
    ("CA$", "CAD"),
    ("AU$", "AUD"),
    ("NZ$", "NZD"),
    ("SG$", "SGD"),
    ("A$", "AUD"),
    ("C$", "CAD"),
    ("S$", "SGD"),
    ("R$", "BRL"),
    ("$", "USD"),
    ("€", "EUR"),
    ("£", "GBP"),
    ("¥", "CNY"),
    ("₩", "KRW"),
    ("₹", "INR"),
    ("₽", "RUB"),
    ("₺", "TRY"),
    ("฿", "THB"),
    ("₫", "VND"),
    ("人民币", "CNY"),
    ("港元", "HKD"),
    ("港币", "HKD"),
    ("美元", "USD"),
    ("美金", "USD"),
    ("欧元", "EUR"),
    ("英镑", "GBP"),
    ("日元", "JPY"),
    ("新台币", "TWD"),
    ("韩元", "KRW"),
    ("円", "JPY"),
    ("元", "CNY"),
    ("块", "CNY"),
    ("RMB", "CNY"),
    ("CNY", "CNY"),
    ("USD", "USD"),
    ("EUR", "EUR"),
    ("GBP", "GBP"),
    ("JPY", "JPY"),
    ("HKD", "HKD"),
    ("TWD", "TWD"),
    ("KRW", "KRW"),
    ("INR", "INR"),
    ("AUD", "AUD"),
    ("CAD", "CAD"),
    ("SGD", "SGD"),
    ("CHF", "CHF"),
    ("RUB", "RUB"),
    ("BRL", "BRL"),
    ("PLN", "PLN"),
    ("руб", "RUB"),
];

/// The sign before a number, and its currency.
fn currency_at_end(before: &str) -> Option<(&'static str, &'static str)> {
    let before = before.trim_end_matches([' ', '\u{a0}', ':']);
    CURRENCIES.iter().find(|(sign, _)| ends_with(before, sign)).copied()
}

fn currency_at_start(after: &str) -> Option<(&'static str, &'static str)> {
    let after = after.trim_start_matches([' ', '\u{a0}']);
    CURRENCIES.iter().find(|(sign, _)| starts_with(after, sign)).copied()
}

/// `-$5.00`: the sign stands before the currency.
fn sign_before_currency(before: &str) -> bool {
    let before =
        before.trim_end_matches(|character: char| !character.is_ascii_digit() && !matches!(character, '-' | '−'));
    let Some(rest) = before.strip_suffix(['-', '−']) else { return false };
    !rest.chars().next_back().is_some_and(char::is_alphanumeric)
}

fn ends_with(text: &str, sign: &str) -> bool {
    text.len()
        .checked_sub(sign.len())
        .and_then(|start| text.get(start..))
        .is_some_and(|end| end.eq_ignore_ascii_case(sign))
}

fn starts_with(text: &str, sign: &str) -> bool {
    text.get(..sign.len()).is_some_and(|start| start.eq_ignore_ascii_case(sign))
}

/// Full-width digits and signs as their usual ones.
fn half_width(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '０'..='９' | '，' | '．' | '－' | '＄' | '：' => {
                char::from_u32(u32::from(character) - 0xfee0).unwrap_or(character)
            }
            '￥' => '¥',
            '￡' => '£',
            '\u{3000}' => ' ',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn prices_in_both_languages() {
        for (text, amount, currency) in [
            ("399元", "399", Some("CNY")),
            ("￥1,299.00", "1299.00", Some("CNY")),
            ("¥ 1 299,00", "1299.00", Some("CNY")),
            ("价格：￥３９９．９０", "399.90", Some("CNY")),
            ("$1,299.00", "1299.00", Some("USD")),
            ("US$ 1,299", "1299", Some("USD")),
            ("HK$98.5", "98.5", Some("HKD")),
            ("1.299,00 €", "1299.00", Some("EUR")),
            ("1.299 €", "1299", Some("EUR")),
            ("€12,5", "12.5", Some("EUR")),
            ("1\u{a0}299\u{a0}€", "1299", Some("EUR")),
            ("£0.99", "0.99", Some("GBP")),
            ("3,980円", "3980", Some("JPY")),
            ("¥1.2万", "12000", Some("CNY")),
            ("3.5千元", "3500", Some("CNY")),
            ("1.5亿元", "150000000", Some("CNY")),
            ("USD 49.90", "49.90", Some("USD")),
            ("49.90 eur", "49.90", Some("EUR")),
            ("买2件 ¥399", "399", Some("CNY")),
            ("iPhone 15 128GB ¥5,999.00起", "5999.00", Some("CNY")),
            ("¥100-200", "100", Some("CNY")),
            ("-$5.00", "-5.00", Some("USD")),
            ("1'299.00 CHF", "1299.00", Some("CHF")),
            ("₹12,34,567", "1234567", Some("INR")),
            ("$1.299", "1.299", Some("USD")),
            ("1299", "1299", None),
        ] {
            let price = price(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((price.amount.to_string().as_str(), price.currency), (amount, currency), "{text}");
        }
        for text in ["", "询价", "暂无报价", "free", "¥"] {
            assert_eq!(price(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_and_whole_numbers() {
        for (text, value) in [
            ("12", "12"),
            ("1,299", "1299"),
            ("1,299.5", "1299.5"),
            ("12,5", "12.5"),
            ("0,125", "0.125"),
            ("1.2万", "12000"),
            ("已售 3.5千 件", "3500"),
            ("2.3k", "2300"),
            ("1.5w+", "15000"),
            ("5 km", "5"),
            ("-3.5", "-3.5"),
            ("−3", "-3"),
            ("100-200", "100"),
            ("A-5", "5"),
            ("12%", "12"),
            ("007", "7"),
            ("价格399，库存5", "399"),
            ("1.234.567", "1234567"),
            ("15 128", "15"),
            ("1万亿", "1000000000000"),
        ] {
            assert_eq!(number(text).unwrap().to_string(), value, "{text}");
        }
        assert_eq!(integer("1.299").unwrap().to_string(), "1299");
        assert_eq!(integer("1.2万").unwrap().to_string(), "12000");
        assert_eq!(integer("12.00").unwrap().to_string(), "12");
        assert_eq!(integer("12.5"), None);
        assert_eq!(number("none"), None);
    }
}
