//! Lists of what comes with tidegate.

use planner::methods;
use reports::columns;
use schema::{Bytes, Link};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::Result;
use crate::study::Over;

/// One line of a list; in JSON, its figures are fields of their own.
pub struct Entry {
    name: String,
    figures: Vec<Figure>,
    description: String,
}

/// What a column shows, and what it is made of: whole numbers whose names end with their unit.
struct Figure {
    shown: String,
    fields: Vec<(&'static str, Value)>,
}

impl Figure {
    fn new(shown: impl ToString, name: &'static str, value: impl Into<Value>) -> Self {
        Self { shown: shown.to_string(), fields: vec![(name, value.into())] }
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        for (name, value) in self.figures.iter().flat_map(|figure| &figure.fields) {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("description", &self.description)?;
        map.end()
    }
}

/// A list as columns, with a description behind each line.
pub fn text(entries: &[Entry]) -> String {
    let row = |entry: &Entry| {
        let figures = entry.figures.iter().map(|figure| figure.shown.clone());
        std::iter::once(entry.name.clone()).chain(figures).collect::<Vec<_>>()
    };
    let table = columns(&entries.iter().map(row).collect::<Vec<_>>());
    table.lines().zip(entries).map(|(line, e)| format!("{line}  {}\n", e.description)).collect()
}

fn entry(name: impl Into<String>, figures: Vec<Figure>, description: impl Into<String>) -> Entry {
    Entry { name: name.into(), figures, description: description.into() }
}

fn speeds(link: &Link) -> Figure {
    let [d2h, h2d] = [&link.d2h, &link.h2d].map(|curve| curve.at(Bytes(256 << 20)));
    Figure {
        shown: format!("{:.1}/{:.1} GB/s", d2h / 1e9, h2d / 1e9),
        fields: vec![
            ("d2h_bytes_per_second", (d2h.round() as u64).into()),
            ("h2d_bytes_per_second", (h2d.round() as u64).into()),
        ],
    }
}

/// Machines.
pub fn machines() -> Vec<Entry> {
    let of = |machine: schema::Machine| {
        let (memory, link) = (machine.device.memory, &machine.link);
        let name = Figure::new(&link.name, "link", link.name.as_str());
        let figures = vec![Figure::new(memory, "memory_bytes", memory.0), speeds(link), name];
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
        let ops = trace.ops.len();
        let figures = vec![
            Figure::new(format!("{ops} ops"), "ops", ops),
            Figure::new(in_core.iteration, "iteration_ns", in_core.iteration.0),
            Figure::new(in_core.peak, "peak_bytes", in_core.peak.0),
        ];
        let description = format!("{}, measured on {}", trace.title(), trace.provenance.device);
        Ok(entry(name, figures, description))
    };
    scenarios::traces().map(of).collect()
}

/// Networks.
pub fn networks() -> Vec<Entry> {
    networks::networks().map(|network| entry(network.name, vec![], network.description)).collect()
}

/// Families of made-up traces.
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
        let study = crate::study::read(name, &Over::default())?;
        let points = study.points().count();
        let figures = vec![Figure::new(format!("{points} points"), "points", points)];
        Ok(entry(name, figures, study.description))
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
