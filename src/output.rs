//! Printing.

use std::fmt::Display;
use std::io::Write;

use crate::exit::{Exit, OrExit, Result};

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs; `tidegate schema` describes it.
    Json,
}

/// Prints to the standard output. A failed write is an error, not a panic.
pub fn print(text: impl Display) -> Result {
    write!(std::io::stdout().lock(), "{text}").or_exit(Exit::Failed)
}

/// Prints a value as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result {
    let text = serde_json::to_string_pretty(value).or_exit(Exit::Failed)?;
    print(format!("{text}\n"))
}

/// Columns of text, each as wide as its widest cell. The first is flush left, the others right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
