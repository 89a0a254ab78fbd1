//! Lists of what comes with tidegate.

use planner::methods;
use reports::columns;
use schema::{Bytes, Direction, Link};
use serde::Serialize;

use crate::Result;

/// One line of a list.
#[derive(Serialize)]
pub struct Entry {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    figures: Vec<String>,
    description: String,
}

/// A list as columns, with a description behind each line.
pub fn text(entries: &[Entry]) -> String {
    let row =
        |entry: &Entry| [std::slice::from_ref(&entry.name), entry.figures.as_slice()].concat();
    let table = columns(&entries.iter().map(row).collect::<Vec<_>>());
    table.lines().zip(entries).map(|(line, e)| format!("{line}  {}\n", e.description)).collect()
}

fn entry(name: impl Into<String>, figures: Vec<String>, description: impl Into<String>) -> Entry {
    Entry { name: name.into(), figures, description: description.into() }
}

fn speeds(link: &Link) -> String {
    let speed = |direction| {
        let size = Bytes(256 << 20);
        let bandwidth = match direction {
            Direction::D2h => link.d2h.at(size),
            Direction::H2d => link.h2d.at(size),
        };
        format!("{:.1}", bandwidth / 1e9)
    };
    format!("{}/{} GB/s", speed(Direction::D2h), speed(Direction::H2d))
}

/// Machines.
pub fn machines() -> Vec<Entry> {
    let of = |machine: schema::Machine| {
        let (memory, link) = (machine.device.memory.to_string(), &machine.link);
        let figures = vec![memory, speeds(link), link.name.clone()];
        entry(machine.name, figures, machine.description)
    };
    scenarios::machines().map(of).collect()
}

/// Links.
pub fn links() -> Vec<Entry> {
    let of = |(name, link): (&str, Link)| {
        entry(name, vec![speeds(&link)], format!("{} (out/in)", link.name))
    };
    scenarios::links().map(of).collect()
}

/// Methods.
pub fn methods() -> Vec<Entry> {
    let of = |method: Box<dyn methods::Method>| {
        entry(
            method.name(),
            vec![],
            format!("{} [{}]", method.about().summary, method.about().source),
        )
    };
    methods::all().into_iter().map(of).collect()
}

/// Traces.
///
/// # Errors
/// If one cannot be read.
pub fn traces() -> Result<Vec<Entry>> {
    let of = |name| {
        let trace = scenarios::trace(name)?;
        let in_core = simulator::in_core(&trace);
        let ops = format!("{} ops", trace.ops.len());
        let figures = vec![ops, in_core.iteration.to_string(), in_core.peak.to_string()];
        let description = format!("{}, measured on {}", trace.title(), trace.provenance.device);
        Ok(entry(name, figures, description))
    };
    scenarios::traces().map(of).collect()
}

/// Networks.
pub fn networks() -> Vec<Entry> {
    networks::networks().map(|network| entry(network.name, vec![], network.description)).collect()
}

/// Families of methods.
pub fn families() -> Vec<Entry> {
    let name = |name| format!("family:{name}");
    planner::families::all().map(|f| entry(name(f.name), vec![], f.description)).collect()
}

/// Studies.
///
/// # Errors
/// If one cannot be read.
pub fn studies() -> Result<Vec<Entry>> {
    let of = |name| {
        let study = crate::study::read(name)?;
        Ok(entry(name, vec![format!("{} points", study.points().count())], study.description))
    };
    scenarios::studies().map(of).collect()
}

/// Codecs.
pub fn codecs() -> Vec<Entry> {
    let of = |codec: &codecs::Entry| {
        entry(codec.form, vec![], format!("{} [{}]", codec.summary, codec.source))
    };
    codecs::all().iter().map(of).collect()
}
