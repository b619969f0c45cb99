//! `extract`: fields out of a page, by rules that the task gives.
//!
//! Every value keeps its text as it stood in the page. A rule that finds nothing is told, never filled in: an optional field
//! is listed under `missing`, a required one fails the call, so that a looser set of rules can take over.

mod date;
mod number;
mod value;

use std::collections::BTreeMap;

use async_trait::async_trait;
use dom_query::{Document, Matcher, NodeRef};
use loopforge_core::json::Json;
use loopforge_core::tool::{Code, Contract, ToolResult};
use regex::{Regex, RegexBuilder};
use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use self::value::Kind;
use super::arguments::{self, invalid};
use super::compute;
use super::page::{Page, check_nesting};
use crate::{CallContext, Tool};

/// The member of the answer that lists what was not found.
const MISSING: &str = "missing";
/// What an error shows of a text that can't be read.
const SHOWN_CHARACTERS: usize = 80;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The page: its HTML, or what `http_get` returned.
    html: Page,
    /// What to take out, by name.
    #[schemars(extend("minProperties" = 1))]
    fields: BTreeMap<String, FieldRule>,
    /// Links are resolved against this address. The page's own unless set.
    #[serde(default)]
    base_url: Option<String>,
}

/// How a field is found: a CSS selector, or a rule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum FieldRule {
    Selector(String),
    Rule(Rule),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// A CSS selector, or several of which the first that gives a value wins.
    css: Selectors,
    /// Take this attribute instead of the text.
    #[serde(default)]
    attr: Option<String>,
    /// Take every match, as a list; otherwise the first.
    #[serde(default)]
    all: bool,
    /// What the text is read as. `text` gives the text itself; all others give an object with `value` and `text`.
    #[serde(default)]
    kind: Kind,
    /// Take only what this regular expression matches: its first group, or the whole match.
    #[serde(default)]
    regex: Option<String>,
    /// Fail the call when the field can't be found.
    #[serde(default)]
    required: bool,
    /// The value when the field can't be found.
    #[serde(default)]
    default: Option<Json>,
    /// The currency, as in `JPY`, of a price that names none, or that has only `¥` or `$`.
    #[serde(default)]
    currency: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Selectors {
    One(String),
    Several(#[schemars(extend("minItems" = 1))] Vec<String>),
}

/// A rule that was checked.
struct Field {
    name: String,
    selectors: Vec<(String, Matcher)>,
    regex: Option<Regex>,
    rule: Rule,
}

/// Takes fields out of HTML.
#[derive(Debug)]
pub(super) struct Extract {
    contract: Contract,
}

impl Extract {
    pub(super) fn new() -> Self {
        let description =
            "Takes named fields (texts, numbers, prices, dates, links) out of an HTML page by CSS selectors.";
        let mut contract = Contract::read(description, arguments::schema::<Arguments>());
        contract.deterministic = true;
        contract.meaning_of_empty = Some("the page has none of the fields".to_owned());
        Self { contract }
    }
}

#[async_trait]
impl Tool for Extract {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        compute::blocking(context, move || extract(arguments).unwrap_or_else(|failure| failure)).await
    }
}

fn extract(arguments: Json) -> Result<ToolResult, ToolResult> {
    let arguments: Arguments = arguments::read(arguments)?;
    let fields =
        arguments.fields.into_iter().map(|(name, rule)| Field::check(name, rule)).collect::<Result<Vec<_>, _>>()?;
    let (html, page_url) = arguments.html.into_parts();
    let base = match arguments.base_url {
        Some(text) => {
            Some(Url::parse(&text).map_err(|error| invalid(format!("`base_url` is no web address: {error}")))?)
        }
        None => page_url.and_then(|url| Url::parse(&url).ok()),
    };
    check_nesting(&html)?;
    let document = Document::from(html);
    let base = match (base, document.base_uri()) {
        (Some(base), Some(own)) => Some(base.join(&own).unwrap_or(base)),
        (None, Some(own)) => Url::parse(&own).ok(),
        (base, None) => base,
    };

    let mut data = Map::new();
    let (mut missing, mut complaints, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields {
        match field.find(&document, base.as_ref(), &mut marks) {
            Ok(value) => {
                data.insert(field.name, value);
            }
            Err(why) => {
                if field.rule.required {
                    complaints.push(format!("field `{}`: {why}", field.name));
                }
                missing.push(field.name.clone());
                data.insert(field.name, field.rule.default.unwrap_or(Json::Null));
            }
        }
    }
    let nothing_found = missing.len() == data.len();
    data.insert(MISSING.to_owned(), json!(missing));
    let mut result = ToolResult::success(Json::Object(data));
    result.marks = marks;
    if !complaints.is_empty() {
        result.code = Code::MalformedOutput;
        result.error = Some(format!("the page doesn't fit the rules: {}", complaints.join("; ")));
    } else if nothing_found {
        result.meaning_of_empty = Some("the page has none of the fields".to_owned());
    }
    Ok(result)
}

impl Field {
    fn check(name: String, rule: FieldRule) -> Result<Self, ToolResult> {
        if name == MISSING {
            return Err(invalid(
                "a field can't be named `missing`: the answer lists there what was not found; choose another name",
            ));
        }
        let rule = match rule {
            FieldRule::Rule(rule) => rule,
            FieldRule::Selector(css) => Rule {
                css: Selectors::One(css),
                attr: None,
                all: false,
                kind: Kind::Text,
                regex: None,
                required: false,
                default: None,
                currency: None,
            },
        };
        let texts = match &rule.css {
            Selectors::One(text) => std::slice::from_ref(text),
            Selectors::Several(texts) => texts,
        };
        if texts.is_empty() {
            return Err(invalid(format!("field `{name}`: `css` is an empty list: give at least one selector")));
        }
        let selectors = texts
            .iter()
            .map(|text| match Matcher::new(text) {
                Ok(matcher) => Ok((text.clone(), matcher)),
                Err(_) => Err(invalid(format!("field `{name}`: `{text}` is not a CSS selector"))),
            })
            .collect::<Result<_, _>>()?;
        let regex = rule
            .regex
            .as_deref()
            .map(compile)
            .transpose()
            .map_err(|error| invalid(format!("field `{name}`: `regex` is not a regular expression: {error}")))?;
        Ok(Self { name, selectors, regex, rule })
    }

    /// The field's value, or a sentence that says why there is none.
    fn find(&self, document: &Document, base: Option<&Url>, marks: &mut Vec<String>) -> Result<Json, String> {
        let mut why = Vec::new();
        for (css, matcher) in &self.selectors {
            let found =
                if self.rule.all { document.select_matcher(matcher) } else { document.select_single_matcher(matcher) };
            if found.is_empty() {
                why.push(format!("`{css}` matches nothing"));
                continue;
            }
            let (values, failures): (Vec<_>, Vec<_>) =
                found.nodes().iter().map(|node| self.value_of(node, base)).partition(Result::is_ok);
            let mut values: Vec<Json> = values.into_iter().flatten().collect();
            let failures: Vec<String> = failures.into_iter().filter_map(Result::err).collect();
            if values.is_empty() {
                why.push(format!("`{css}` matches, but {}", failures.first().map_or("has no value", String::as_str)));
                continue;
            }
            if let Some(first) = failures.first() {
                marks.push(format!("field `{}`: {} of the matches left out, since {first}", self.name, failures.len()));
            }
            return Ok(if self.rule.all { Json::Array(values) } else { values.swap_remove(0) });
        }
        Err(why.join(", "))
    }

    fn value_of(&self, node: &NodeRef<'_>, base: Option<&Url>) -> Result<Json, String> {
        let text = self.text_of(node)?;
        let text = match &self.regex {
            None => text,
            Some(regex) => match regex.captures(&text) {
                Some(found) => found
                    .get(1)
                    .or_else(|| found.get(0))
                    .map_or_else(String::new, |part| part.as_str().trim().to_owned()),
                None => return Err(format!("`{}` is not matched by the regular expression", shown(&text))),
            },
        };
        if text.is_empty() {
            return Err("the element is empty".to_owned());
        }
        let read = self.rule.kind.read(&text, base, self.rule.currency.as_deref());
        read.ok_or_else(|| format!("`{}` can't be read as {}", shown(&text), self.rule.kind))
    }

    fn text_of(&self, node: &NodeRef<'_>) -> Result<String, String> {
        if let Some(name) = &self.rule.attr {
            return match node.attr(name) {
                Some(value) => Ok(value.trim().to_owned()),
                None => Err(format!("the element has no attribute `{name}`")),
            };
        }
        if self.rule.kind == Kind::Url
            && let Some(value) = ["href", "src", "content"].iter().find_map(|name| node.attr(name))
        {
            return Ok(value.trim().to_owned());
        }
        Ok(node.text().split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// Regular expressions here take linear time; the limit is for their own size.
fn compile(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(1 << 20).build()
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
