//! What the tools of the benchmarks answer: 2 KB per call, different each time.

use clap::ValueEnum;

/// Bytes of an answer.
pub(crate) const ANSWER: usize = 2048;

/// Kinds of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Text {
    /// A piece of a product page: HTML around words, prices and numbers.
    Page,
    /// Random letters of base64, in which nothing but the alphabet can be compressed.
    Random,
}

impl Text {
    /// The answer to the call of this number.
    pub(crate) fn answer(self, number: u64) -> String {
        let mut dice = Dice(number);
        let mut text = String::with_capacity(ANSWER + 256);
        while text.len() < ANSWER {
            match self {
                Self::Page => product(&mut text, &mut dice),
                Self::Random => text.push(char::from(BASE64[dice.below(BASE64.len())])),
            }
        }
        text.truncate(ANSWER);
        text
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn product(text: &mut String, dice: &mut Dice) {
    let number = dice.below(10_000_000);
    let price = dice.below(100_000);
    text.push_str(&format!(
        "<div class=\"product-card\" data-id=\"{number}\"><h2 class=\"title\">{}</h2>\n<span class=\"price\">$ {}.{:02}</span>\n<p>",
        words(dice, 4),
        price / 100,
        price % 100
    ));
    text.push_str(&words(dice, 24));
    text.push_str(&format!("</p>\n<a href=\"/items/{number}.html?from={}\">details</a></div>\n", dice.below(90_000)));
}

fn words(dice: &mut Dice, count: usize) -> String {
    const WORDS: &[&str] = &[
        "kettle",
        "steel",
        "with",
        "and",
        "water",
        "light",
        "garden",
        "chair",
        "table",
        "for",
        "children",
        "of",
        "wood",
        "oak",
        "small",
        "large",
        "blue",
        "red",
        "green",
        "warm",
        "winter",
        "summer",
        "the",
        "a",
        "in",
        "on",
        "coat",
        "shoe",
        "paper",
        "book",
        "lamp",
        "battery",
        "charger",
        "cable",
        "travel",
        "bag",
        "leather",
        "cotton",
        "washable",
        "durable",
        "light",
        "weight",
        "guarantee",
        "years",
        "set",
        "pieces",
        "hand",
        "made",
        "free",
        "delivery",
        "new",
        "model",
        "this",
        "week",
        "price",
        "lower",
        "stock",
        "few",
        "left",
        "popular",
        "quiet",
        "motor",
        "filter",
        "clean",
    ];
    let mut out = String::new();
    for _ in 0..count {
        out.push_str(WORDS[dice.below(WORDS.len())]);
        out.push(' ');
    }
    out.truncate(out.len().saturating_sub(1));
    out
}

/// Numbers that look random and are the same in each run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_their_size_and_differ() {
        for text in [Text::Page, Text::Random] {
            assert_eq!(text.answer(1).len(), ANSWER);
            assert_eq!(text.answer(1), text.answer(1));
            assert_ne!(text.answer(1), text.answer(2));
        }
    }
}
