//! What came of a recording that was imported.

use profiler::import::{Figures, Recording};
use reports::columns;
use schema::{Bytes, Nanos};
use serde::Serialize;
use simulator::in_core;

/// What came of a recording.
#[derive(Serialize)]
pub struct Summary<'a> {
    kind: &'static str,
    network: Option<&'a str>,
    ops: usize,
    tensors: usize,
    time_ns: u64,
    in_core_peak_bytes: u64,
    constant_bytes: u64,
    #[serde(flatten)]
    figures: &'a Figures,
    notes: &'a [String],
    #[serde(skip)]
    title: String,
}

impl<'a> Summary<'a> {
    /// Of what was imported.
    pub fn of(Recording { format, trace, figures }: &'a Recording) -> Self {
        let summary = Self {
            kind: format.into(),
            network: None,
            ops: 0,
            tensors: 0,
            time_ns: 0,
            in_core_peak_bytes: figures.recorded_peak_bytes.unwrap_or(0),
            constant_bytes: 0,
            figures,
            notes: &figures.notes,
            title: format.to_string(),
        };
        let Some(trace) = trace else { return summary };
        let in_core = in_core(trace);
        Self {
            network: Some(&trace.network),
            ops: trace.ops.len(),
            tensors: trace.tensors.len(),
            time_ns: in_core.iteration.0,
            in_core_peak_bytes: in_core.peak.0,
            constant_bytes: in_core.fixed.0,
            notes: &trace.provenance.notes,
            title: trace.title(),
            ..summary
        }
    }

    /// The same for a person.
    pub fn text(&self) -> String {
        let mut rows = vec![vec![self.title.clone(), String::new(), String::new()]];
        let bytes = |value: u64| Bytes(value).to_string();
        let mut row = |name: &str, exact: u64, shown: String| {
            rows.push(vec![name.into(), exact.to_string(), shown]);
        };
        if self.network.is_some() {
            row("ops", self.ops as u64, String::new());
            row("tensors", self.tensors as u64, String::new());
            row("time, ns", self.time_ns, Nanos(self.time_ns).to_string());
            row("in-core peak, B", self.in_core_peak_bytes, bytes(self.in_core_peak_bytes));
            row("constants, B", self.constant_bytes, bytes(self.constant_bytes));
        }
        // Elsewhere allocations are what the trace makes.
        if self.figures.recorded_peak_bytes.is_some() {
            row("allocations", self.figures.allocations, String::new());
            row("frees", self.figures.frees, String::new());
            row("unmatched", self.figures.unmatched, String::new());
        }
        let figures = self.figures;
        for (name, value) in [
            ("recorded peak, B", figures.recorded_peak_bytes),
            ("reserved peak, B", figures.reserved_peak_bytes),
            ("reserved, predicted, B", figures.predicted_reserved_bytes),
            ("reserved, from empty, B", figures.reserved_from_empty_bytes),
        ] {
            value.into_iter().for_each(|value| row(name, value, bytes(value)));
        }
        if let Some(alike) = figures.placed_alike {
            row("placed where they were", alike, format!("of {}", figures.allocations));
        }
        let mut text = columns(&rows);
        for holder in &self.figures.at_peak {
            let (held, count) = (bytes(holder.bytes), holder.allocations);
            text += &format!("at the peak: {held} in {count} from {}\n", holder.place);
        }
        for note in self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }
}
