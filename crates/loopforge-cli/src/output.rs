//! Standard output, for data. A reader that goes away (`| head`) ends the talk, not the process with a panic.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Table, Width};
use serde::Serialize;
use serde_json::Value;

use crate::error::CliError;

/// Standard output, buffered. What was written is there for sure after [`Self::finish`].
#[derive(Debug)]
pub struct Output(BufWriter<Stdout>);

impl Output {
    /// Standard output.
    #[must_use]
    pub fn new() -> Self {
        Self(BufWriter::with_capacity(64 << 10, io::stdout()))
    }

    /// Writes a value as one line of JSON, exactly.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let mut text = Vec::new();
        to_json(&mut text, value)?;
        text.push(b'\n');
        Ok(self.0.write_all(&text)?)
    }

    /// Writes a table, indented by `indent` columns.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn table(&mut self, table: &Table, indent: usize) -> Result<(), CliError> {
        for line in table.lines() {
            writeln!(self.0, "{:indent$}{}", "", line.trim_end())?;
        }
        Ok(())
    }

    /// Hands on what is buffered.
    ///
    /// # Errors
    /// Standard output can't be written to. If nobody reads it any more, the error is silent and its exit code is 0.
    pub fn finish(&mut self) -> Result<(), CliError> {
        Ok(self.0.flush()?)
    }
}

/// Writes a value as JSON, exactly, yet in a way that a terminal obeys nothing in it.
///
/// # Errors
/// The value can't be written as JSON.
pub fn to_json(text: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(text, Escaped)).map_err(io::Error::from)
}

/// Escapes more than JSON asks for: whatever [`crate::text::safe`] replaces. A reader of JSON gets the same text.
struct Escaped;

impl serde_json::ser::Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut plain = 0;
        for (at, character) in fragment.char_indices().filter(|(_, character)| crate::text::is_unsafe(*character)) {
            writer.write_all(&fragment.as_bytes()[plain..at])?;
            write!(writer, "\\u{:04x}", character as u32)?;
            plain = at + character.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[plain..])
    }
}

/// A value as [`Output::json`] would write it, for use in a document: short numbers stay short.
#[must_use]
pub fn exact(value: &impl Serialize) -> Value {
    // By way of text: `serde_json::to_value` makes 0.30000001192092896 of the `f32` 0.3.
    serde_json::to_string(value).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A table without lines around it. On a terminal the column `long` is folded to fit the window, and no other: what stands there
/// can be copied. Elsewhere each row stays on one line.
#[must_use]
pub fn table(header: &[&str], long: &str) -> Table {
    /// Narrower than this, nobody can read a folded text.
    const NARROWEST: u16 = 24;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // Without a terminal there is no width to fit into.
    let fits = io::stdout().is_terminal();
    table.set_content_arrangement(if fits { ContentArrangement::Dynamic } else { ContentArrangement::Disabled });
    table.set_header(header.iter().map(Cell::new));
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_padding((0, 2));
        if fits {
            column.set_constraint(match *name == long {
                true => ColumnConstraint::LowerBoundary(Width::Fixed(NARROWEST)),
                false => ColumnConstraint::ContentWidth,
            });
        }
    }
    table
}

/// A cell with a status word, in its colour.
#[must_use]
pub fn status_cell(word: &str) -> Cell {
    let cell = Cell::new(word);
    match colour_of(word) {
        Some(colour) if colours() => cell.fg(colour),
        _ => cell,
    }
}

/// A status word in its colour, where colours are shown.
#[must_use]
pub fn status(word: &str) -> String {
    use owo_colors::OwoColorize;
    match colour_of(word) {
        Some(Color::Green) if colours() => word.green().to_string(),
        Some(Color::Red) if colours() => word.red().to_string(),
        Some(Color::Yellow) if colours() => word.yellow().to_string(),
        Some(Color::Cyan) if colours() => word.cyan().to_string(),
        _ => word.to_owned(),
    }
}

fn colour_of(word: &str) -> Option<Color> {
    Some(match word {
        "succeeded" | "done" | "confirmed" | "ok" => Color::Green,
        "failed" | "cancelled" | "damaged" | "problem" | "unknown" => Color::Red,
        "waiting" | "paused" | "interrupted" | "partial" | "warning" | "started" => Color::Yellow,
        "running" | "active" => Color::Cyan,
        _ => return None,
    })
}

/// Whether standard output is a terminal that wants colours.
fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
