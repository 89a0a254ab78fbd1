//! What a reader of a trace computes, written as plainly as it is defined.

use std::path::PathBuf;

use schema::Trace;

/// Largest sum over the ops: of the tensors there, an in-place pair counted as the larger of the
/// two, and of the op's workspace.
pub fn in_core_peak(trace: &Trace) -> u64 {
    (0..trace.ops.len()).map(|op| bytes_at(trace, op)).max().unwrap_or(0)
}

pub fn bytes_at(trace: &Trace, op: usize) -> u64 {
    let mut first = vec![0; trace.tensors.len()];
    let mut last = vec![usize::MAX; trace.tensors.len()];
    for (index, tensor) in trace.tensors.iter().enumerate() {
        first[index] = tensor.appears_before.map_or(0, |op| op.index());
    }
    for (index, op) in trace.ops.iter().enumerate() {
        op.writes.iter().for_each(|t| first[t.index()] = index);
        op.frees.iter().for_each(|t| last[t.index()] = index);
    }
    let there = |t: &usize| first[*t] <= op && op <= last[*t];
    let tensors: u64 = (0..first.len()).filter(there).map(|t| trace.tensors[t].bytes.0).sum();
    let bytes = |t: schema::TensorId| trace.tensors[t.index()].bytes.0;
    let op = &trace.ops[op];
    let shared: u64 =
        op.in_place.iter().map(|pair| bytes(pair.input).min(bytes(pair.output))).sum();
    tensors - shared + op.workspace.0
}

/// The folder of recordings, where it is present.
pub fn recordings() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/traces"));
    if !folder.is_dir() {
        eprintln!("skipped: the folder of recordings {} is absent", folder.display());
        return None;
    }
    Some(folder)
}

/// A trace as a few lines of text.
pub fn text_of(trace: &Trace) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let _ = writeln!(text, "{}", trace.title());
    let ids = |list: &[schema::TensorId]| {
        list.iter().map(|t| t.0.to_string()).collect::<Vec<_>>().join(",")
    };
    for (index, t) in trace.tensors.iter().enumerate() {
        let appears = t.appears_before.map_or(String::new(), |op| format!(" before {op}"));
        let _ = writeln!(text, "tensor {index}: {} {:?} {} B{appears}", t.name, t.role, t.bytes.0);
    }
    for (index, op) in trace.ops.iter().enumerate() {
        let _ = write!(
            text,
            "op {index}: {} {:?} {:?} {} ns; reads [{}] writes [{}] frees [{}]",
            op.name,
            op.kind,
            op.phase,
            op.duration.0,
            ids(&op.reads),
            ids(&op.writes),
            ids(&op.frees)
        );
        for pair in &op.in_place {
            let _ = write!(text, " {} over {}", pair.output.0, pair.input.0);
        }
        if op.workspace.0 > 0 {
            let _ = write!(text, " workspace {}", op.workspace.0);
        }
        if let Some(again) = op.recompute {
            let _ = write!(text, " again {} ns", again.0);
        }
        let _ = writeln!(text, "; {} B", bytes_at(trace, index));
    }
    for note in &trace.provenance.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
