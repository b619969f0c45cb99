//! What models cost.
//!
//! Prices change, and accounts have their own: the table that comes along is a beginning, with its date and its sources in it, and any price
//! can be replaced. A model without a price costs an unknown amount, never nothing.

use std::collections::BTreeMap;
use std::path::Path;

use loopforge_core::model::{Money, Price};
use serde::Deserialize;

/// Providers whose models run here, or are no models.
const FREE: &[&str] = &["script", "replay", "ollama"];

/// Prices by `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// When they were looked up.
    #[serde(default)]
    pub as_of: String,
    /// Where, by provider.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// The prices: US dollars per million tokens.
    pub prices: BTreeMap<String, Price>,
}

impl Prices {
    /// The table that comes along.
    #[must_use]
    pub fn known() -> Self {
        // A test reads it.
        serde_json::from_str(include_str!("prices.json")).unwrap_or_default()
    }

    /// Reads a table: YAML or JSON, in the form of the one that comes along; only `prices` must be there.
    ///
    /// # Errors
    /// A sentence with the place and what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    /// Reads a table from a file.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong.
    pub fn open(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
        Self::read(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// These prices, with those of `other` in the place of theirs.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.prices.extend(other.prices);
        self.sources.extend(other.sources);
        if !other.as_of.is_empty() {
            self.as_of = other.as_of;
        }
        self
    }

    /// The price of a model. A version with a date (`gpt-5-2025-08-07`, `claude-opus-4-5-20251101`) costs what its model does, unless it has a
    /// price of its own; how a provider is spoken to makes no difference. Scripts, recordings and local models are free.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<Price> {
        let (provider, model) = name.split_once('/')?;
        let find = |provider: &str| {
            let own = self.prices.get(&format!("{provider}/{model}"));
            own.or_else(|| self.prices.get(&format!("{provider}/{}", without_date(model)))).copied()
        };
        find(provider).or_else(|| find(provider.strip_suffix("-responses")?)).or_else(|| {
            let nothing =
                Price { input: Money::ZERO, cached_input: None, cache_write: None, output: Money::ZERO, long: None };
            FREE.contains(&provider).then_some(nothing)
        })
    }
}

/// A name without the date or the `latest` at its end.
fn without_date(model: &str) -> &str {
    let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    match model.rsplit_once('-') {
        Some((name, "latest")) => return name,
        Some((name, date)) if digits(date, 8) => return name,
        _ => {}
    }
    let parts: Vec<&str> = model.rsplitn(4, '-').collect();
    match parts.as_slice() {
        [day, month, year, name] if digits(day, 2) && digits(month, 2) && digits(year, 4) => name,
        _ => model,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use loopforge_core::model::Usage;

    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input: Some(input), output: Some(output), ..Usage::default() }
    }

    #[test]
    fn the_table_that_comes_along_can_be_read_and_makes_sense() {
        let known: Prices = serde_json::from_str(include_str!("prices.json")).unwrap();
        assert_eq!(Prices::known(), known);
        assert!(!known.as_of.is_empty() && known.prices.len() > 20);
        for (name, price) in &known.prices {
            let provider = name.split_once('/').unwrap().0;
            assert!(known.sources.contains_key(provider), "{name} has no source");
            assert!(price.input > Money::ZERO && price.output > price.input, "{name}");
            assert!(price.cached_input.is_some_and(|cached| cached < price.input), "{name}");
        }
    }

    #[test]
    fn versions_and_forms_cost_what_their_model_does() {
        let prices = Prices::known();
        let mini = prices.of("openai/gpt-5-mini").unwrap();
        for name in ["openai/gpt-5-mini-2025-08-07", "openai-responses/gpt-5-mini", "openai/gpt-5-mini-latest"] {
            assert_eq!(prices.of(name), Some(mini), "{name}");
        }
        assert_eq!(prices.of("anthropic/claude-haiku-4-5-20251001"), prices.of("anthropic/claude-haiku-4-5"));
        assert_eq!(mini.cost(&usage(1_000_000, 1_000_000)), Some(Money::parse("2.25").unwrap()));
    }

    #[test]
    fn what_has_no_price_is_not_free_but_scripts_are() {
        let prices = Prices::known();
        for name in ["openai/unheard-of", "nobody/x", "x"] {
            assert_eq!(prices.of(name), None, "{name}");
        }
        assert_eq!(prices.of("script/rules.yaml").unwrap().cost(&usage(1000, 1000)), Some(Money::ZERO));
    }

    #[test]
    fn prices_can_be_replaced_and_added() {
        let own = Prices::read(
            "prices:\n  openai/gpt-5-mini: { input: '1', output: '2' }\n  local/qwen: { input: '0', output: '0' }\n",
        );
        let prices = Prices::known().with(own.unwrap());
        assert_eq!(prices.of("openai/gpt-5-mini").unwrap().input, Money::parse("1").unwrap());
        assert_eq!(prices.of("local/qwen").unwrap().output, Money::ZERO);
        assert_eq!(prices.as_of, Prices::known().as_of);
        for (text, part) in
            [("prices: { a/b: { input: '1' } }", "output"), ("prices: { a/b: { input: x, output: '1' } }", "`x`")]
        {
            let error = Prices::read(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn long_prompts_cost_more_on_every_token() {
        let haiku = Prices::known().of("anthropic/claude-haiku-5-5").unwrap();
        let cost = |input| haiku.cost(&usage(input, 1000)).unwrap();
        assert_eq!(cost(100_000), Money::microdollars(10_000 + 500));
        assert_eq!(cost(100_001).picodollars, 100_001 * 500_000 + 1000 * 2_500_000);
        assert!(haiku.most(100_001, 1000) >= cost(100_001));
    }
}
