//! The figures, for people and for programs.

use serde::Serialize;

/// One figure beside its bar.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// The figure.
    pub(crate) value: f64,
    /// How it is told to people.
    pub(crate) measured: String,
    /// What it is to reach; empty where nothing is promised.
    pub(crate) bar: String,
    /// How far it is from the bar, 1 and less is within; none where nothing is promised.
    pub(crate) share_of_bar: Option<f64>,
}

impl Row {
    /// A figure that should be at most `bar`.
    pub(crate) fn at_most(what: impl Into<String>, value: f64, bar: f64, unit: &str) -> Self {
        Self {
            what: what.into(),
            value,
            measured: told(value, unit),
            bar: format!("at most {}", told(bar, unit)),
            share_of_bar: Some(value / bar),
        }
    }

    /// A figure that should be at least `bar`.
    pub(crate) fn at_least(what: impl Into<String>, value: f64, bar: f64, unit: &str) -> Self {
        Self {
            what: what.into(),
            value,
            measured: told(value, unit),
            bar: format!("at least {}", told(bar, unit)),
            share_of_bar: Some(bar / value),
        }
    }

    /// A figure without a bar.
    pub(crate) fn plain(what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self { what: what.into(), value, measured: told(value, unit), bar: String::new(), share_of_bar: None }
    }

    /// Something that can't be measured here, and why.
    pub(crate) fn missing(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), value: f64::NAN, measured: why.into(), bar: String::new(), share_of_bar: None }
    }

    /// Adds to what people are told.
    pub(crate) fn note(mut self, note: &str) -> Self {
        self.measured = format!("{} ({note})", self.measured);
        self
    }

    fn verdict(&self) -> &'static str {
        match self.share_of_bar {
            None => "",
            Some(share) if share <= 1.0 => "ok",
            Some(_) => "SHORT",
        }
    }
}

fn told(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        small if small < 10.0 => 2,
        medium if medium < 100.0 => 1,
        _ => 0,
    };
    let number = format!("{value:.digits$}");
    let number = match number.split_once('.') {
        Some((_, fraction)) if fraction.bytes().all(|digit| digit == b'0') => {
            number.split('.').next().unwrap_or_default().to_owned()
        }
        _ => number,
    };
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// Prints a table in Markdown.
pub(crate) fn table(rows: &[Row], quick: bool) {
    let mut lines = vec![["what".to_owned(), "measured".to_owned(), "bar".to_owned(), String::new()]];
    lines.extend(
        rows.iter().map(|row| [row.what.clone(), row.measured.clone(), row.bar.clone(), row.verdict().to_owned()]),
    );
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3);
    let widths = [width(0), width(1), width(2), width(3)];
    for (index, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        println!("| {} |", cells.join(" | "));
        if index == 0 {
            println!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|"));
        }
    }
    let short = rows.iter().filter(|row| row.verdict() == "SHORT").count();
    println!("\n{short} of {} short of their bar", rows.iter().filter(|row| row.share_of_bar.is_some()).count());
    if quick {
        println!("measured quickly: see what works, not how fast it is");
    }
}

/// Prints the figures as JSON.
pub(crate) fn json(rows: &[Row], quick: bool) {
    println!("{}", serde_json::json!({ "quick": quick, "figures": rows }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_with_as_many_digits_as_mean_something() {
        assert_eq!(told(1.0, ""), "1");
        assert_eq!(told(0.816, ""), "0.82");
        assert_eq!(told(57.123, "ms"), "57.1 ms");
        assert_eq!(told(12345.6, "/s"), "12346 /s");
    }

    #[test]
    fn what_falls_short_is_marked() {
        assert_eq!(Row::at_most("x", 2.0, 1.0, "").verdict(), "SHORT");
        assert_eq!(Row::at_least("x", 2.0, 1.0, "").verdict(), "ok");
        assert_eq!(Row::plain("x", 2.0, "").verdict(), "");
    }
}
