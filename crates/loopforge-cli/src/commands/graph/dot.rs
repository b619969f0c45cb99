//! For Graphviz: a cluster for each subgoal, with its items and steps.

use std::io::Write;

use crate::error::CliError;
use crate::output::Output;
use crate::text::line;

use super::build::{Item, Picture};

/// Draws the digraph.
pub(super) fn write(picture: &Picture, most: usize, out: &mut Output) -> Result<(), CliError> {
    writeln!(out, "digraph run {{")?;
    writeln!(out, "  label=\"{} {}: {}\";", picture.run, quoted(&picture.name, 60), picture.status)?;
    writeln!(out, "  compound=true; rankdir=LR; node [shape=box];")?;
    for (number, subgoal) in picture.subgoals.iter().enumerate() {
        let of = subgoal.of.map(|of| format!(" of {of} items")).unwrap_or_default();
        let (status, colour) = (subgoal.status, colour(subgoal.status));
        writeln!(out, "  subgraph cluster_{number} {{")?;
        writeln!(out, "    label=\"{}: {status}{of}\"; color=\"{colour}\";", quoted(&subgoal.id, 40))?;
        // Edges between clusters need a node in each.
        writeln!(out, "    s{number} [label=\"{}\", color=\"{colour}\"];", quoted(&subgoal.id, 40))?;
        let chosen = subgoal.chosen(most);
        let rest = chosen.rest();
        for (at, item) in chosen.items {
            write_item(number, at, item, most, out)?;
        }
        if let Some(rest) = rest {
            writeln!(out, "    s{number}more [label=\"and {rest}\"];")?;
            writeln!(out, "    s{number} -> s{number}more;")?;
        }
        writeln!(out, "  }}")?;
        for need in &subgoal.needs {
            if let Some(from) = picture.subgoals.iter().position(|other| other.id == *need) {
                writeln!(out, "  s{from} -> s{number} [ltail=cluster_{from}, lhead=cluster_{number}];")?;
            }
        }
    }
    writeln!(out, "}}")?;
    Ok(())
}

fn write_item(subgoal: usize, at: Option<u32>, item: &Item, most: usize, out: &mut Output) -> Result<(), CliError> {
    let mut last = format!("s{subgoal}");
    if let Some(at) = at {
        let id = format!("s{subgoal}i{at}");
        let (label, status) = (quoted(&item.label, 40), item.status());
        writeln!(out, "    {id} [label=\"[{at}] {label}: {status}\", color=\"{}\"];", colour(status))?;
        writeln!(out, "    {last} -> {id};")?;
        last = id;
    }
    let hidden = item.steps.len().saturating_sub(most);
    for step in item.steps.iter().skip(hidden) {
        let id = format!("t{}", step.step);
        writeln!(out, "    {id} [shape=ellipse, label=\"{}\"];", quoted(&step.label(), 80))?;
        writeln!(out, "    {last} -> {id};")?;
        last = id;
    }
    Ok(())
}

fn colour(status: &str) -> &'static str {
    match status {
        "done" => "forestgreen",
        "partial" | "set aside" | "waiting" => "orange",
        "failed" | "blocked" | "given up" => "red",
        "active" => "deepskyblue",
        _ => "gray",
    }
}

fn quoted(text: &str, width: usize) -> String {
    line(text, width).replace('\\', "\\\\").replace('"', "\\\"")
}
