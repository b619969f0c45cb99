//! The Markdown of a report.

use std::collections::BTreeSet;

use loopforge_core::json::Json;
use loopforge_core::tool::ToolResult;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::arguments::invalid;

/// Instructions that a template may take: some ten thousand rows.
const FUEL: u64 = 2_000_000;

/// A part of a report.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    /// Its heading.
    #[serde(default)]
    heading: Option<String>,
    /// Markdown.
    #[serde(default)]
    text: Option<String>,
    /// A table.
    #[serde(default)]
    table: Option<Table>,
    /// A list of values.
    #[serde(default)]
    list: Option<Vec<Json>>,
}

/// Rows, or columns and rows.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Table {
    Rows(Vec<Json>),
    Table(WholeTable),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WholeTable {
    /// The columns, in order. For rows that are objects, their fields.
    columns: Vec<String>,
    /// The rows: lists of values, or objects.
    rows: Vec<Json>,
}

pub(super) fn from_sections(sections: &[Section]) -> String {
    let mut blocks = Vec::new();
    for section in sections {
        if let Some(heading) = &section.heading {
            blocks.push(format!("## {}", line(heading)));
        }
        if let Some(text) = &section.text {
            blocks.push(text.trim().to_owned());
        }
        match &section.table {
            Some(Table::Rows(rows)) => blocks.push(table(&columns_of(rows), rows)),
            Some(Table::Table(whole)) => blocks.push(table(&whole.columns, &whole.rows)),
            None => {}
        }
        if let Some(items) = &section.list {
            let items: Vec<String> = items.iter().map(|item| format!("- {}", cell(item))).collect();
            blocks.push(if items.is_empty() { "*(none)*".to_owned() } else { items.join("\n") });
        }
    }
    blocks.join("\n\n")
}

/// Renders a template. Names that it doesn't know are errors, and so is one that never ends.
pub(super) fn from_template(template: &str, data: &Json) -> Result<String, ToolResult> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| AutoEscape::Custom("markdown".into()));
    environment.set_formatter(|out, _, value| {
        let text = match value.as_str() {
            _ if value.is_none() => String::new(),
            Some(text) if value.is_safe() => text.to_owned(),
            Some(text) => line(text),
            None => line(&value.to_string()),
        };
        Ok(out.write_str(&text)?)
    });
    environment
        .render_named_str("template", template, minijinja::Value::from(Serde(data)))
        .map_err(|error| invalid(format!("`template` can't be rendered: {error}")))
}

/// The fields of rows that are objects; else as many columns without a name as the longest row has values.
fn columns_of(rows: &[Json]) -> Vec<String> {
    let fields: BTreeSet<&String> = rows.iter().filter_map(Json::as_object).flat_map(|row| row.keys()).collect();
    if !fields.is_empty() {
        return fields.into_iter().cloned().collect();
    }
    let longest = rows.iter().map(|row| row.as_array().map_or(1, Vec::len)).max().unwrap_or(0);
    vec![String::new(); longest]
}

fn table(columns: &[String], rows: &[Json]) -> String {
    if columns.is_empty() || rows.is_empty() {
        return "*(none)*".to_owned();
    }
    let joined = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let mut lines = vec![
        joined(columns.iter().map(|column| line(column)).collect()),
        joined(columns.iter().map(|_| "---".to_owned()).collect()),
    ];
    for row in rows {
        let cells = columns.iter().enumerate().map(|(position, column)| {
            let value = match row {
                Json::Object(map) => map.get(column),
                Json::Array(items) => items.get(position),
                other => (position == 0).then_some(other),
            };
            value.map(cell).unwrap_or_default()
        });
        lines.push(joined(cells.collect()));
    }
    lines.join("\n")
}

/// A value as a person reads it: readings of `extract` by their text, addresses as links.
fn cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) if is_address(text) => format!("<{text}>"),
        Json::String(text) => line(text),
        Json::Object(map) if map.contains_key("value") => match map.get("text") {
            Some(Json::String(text)) => line(text),
            _ => line(&value.to_string()),
        },
        Json::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => line(&other.to_string()),
    }
}

fn is_address(text: &str) -> bool {
    (text.starts_with("https://") || text.starts_with("http://"))
        && !text.contains(|character: char| {
            character.is_whitespace() || character.is_control() || matches!(character, '<' | '>' | '|')
        })
}

/// A text in one line, in which nothing is markup.
pub(super) fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let digits = joined.bytes().take_while(u8::is_ascii_digit).count();
    for (position, character) in joined.char_indices() {
        let marks = match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '#' => true,
            // Only there they would begin a list or a rule.
            '-' | '+' | '=' => position == 0,
            '.' | ')' => {
                digits > 0 && position == digits && matches!(joined.as_bytes().get(position + 1), None | Some(b' '))
            }
            _ => false,
        };
        if marks {
            out.push('\\');
        }
        out.push(character);
    }
    out
}
