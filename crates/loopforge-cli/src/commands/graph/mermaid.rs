//! For Markdown: a flowchart in which each subgoal is a box with its items and steps.

use std::io::Write;

use crate::error::CliError;
use crate::output::Output;
use crate::text::line;

use super::build::{Item, Picture};

/// Draws the flowchart.
pub(super) fn write(picture: &Picture, most: usize, out: &mut Output) -> Result<(), CliError> {
    writeln!(out, "flowchart TD")?;
    for (number, subgoal) in picture.subgoals.iter().enumerate() {
        let of = subgoal.of.map(|of| format!(" of {of} items")).unwrap_or_default();
        writeln!(out, "  subgraph s{number}[\"{}: {}{of}\"]", quoted(&subgoal.id, 40), subgoal.status)?;
        // A box without anything in it is not drawn.
        if subgoal.items.is_empty() {
            writeln!(out, "    s{number}e[\"{}\"]", subgoal.status)?;
        }
        let chosen = subgoal.chosen(most);
        let rest = chosen.rest();
        for (at, item) in chosen.items {
            write_item(number, at, item, most, out)?;
        }
        if let Some(rest) = rest {
            writeln!(out, "    s{number}more[\"and {rest}\"]")?;
        }
        writeln!(out, "  end")?;
        writeln!(out, "  class s{number} {}", subgoal.status)?;
        for need in &subgoal.needs {
            if let Some(from) = picture.subgoals.iter().position(|other| other.id == *need) {
                writeln!(out, "  s{from} --> s{number}")?;
            }
        }
    }
    writeln!(out, "  classDef done stroke:#2a2,stroke-width:2px")?;
    writeln!(out, "  classDef partial stroke:#c90,stroke-width:2px")?;
    writeln!(out, "  classDef failed stroke:#c22,stroke-width:2px")?;
    writeln!(out, "  classDef blocked stroke:#c22,stroke-dasharray:4")?;
    writeln!(out, "  classDef skipped stroke:#999,stroke-dasharray:4")?;
    writeln!(out, "  classDef active stroke:#08c,stroke-width:2px")?;
    writeln!(out, "  classDef pending stroke:#999")?;
    Ok(())
}

/// An item with its steps, one after the other.
fn write_item(subgoal: usize, at: Option<u32>, item: &Item, most: usize, out: &mut Output) -> Result<(), CliError> {
    let mut last = None;
    if let Some(at) = at {
        let id = format!("s{subgoal}i{at}");
        writeln!(out, "    {id}[\"[{at}] {}: {}\"]", quoted(&item.label, 40), item.status())?;
        last = Some(id);
    }
    let hidden = item.steps.len().saturating_sub(most);
    for step in item.steps.iter().skip(hidden) {
        let id = format!("t{}", step.step);
        writeln!(out, "    {id}([\"{}\"])", quoted(&step.label(), 80))?;
        if let Some(last) = last.replace(id.clone()) {
            writeln!(out, "    {last} --> {id}")?;
        }
    }
    Ok(())
}

/// Text inside quotes. Mermaid reads `#quot;` and the like there, and markup.
fn quoted(text: &str, width: usize) -> String {
    let mut quoted = String::new();
    for character in line(text, width).chars() {
        match character {
            '"' => quoted.push_str("#quot;"),
            '#' => quoted.push_str("#35;"),
            '<' => quoted.push_str("#lt;"),
            '>' => quoted.push_str("#gt;"),
            '&' => quoted.push_str("#amp;"),
            '`' => quoted.push_str("#96;"),
            other => quoted.push(other),
        }
    }
    quoted
}
