//! Profiles per op, as MONeT makes them.
//!
//! The file is a graph: each op has one output and names the ops whose outputs it reads. Lifetimes
//! are not recorded but follow from that: an output lives until its last reader has run. What is
//! resident beside the outputs (`fixed_bytes`) is recorded as a level at each op.

mod file;
mod fixed;
mod layout;

use std::path::Path;

use schema::{Bytes, InPlace, Op, Origin, Phase, Provenance, Role, Tensor, TensorId, Trace};

use self::file::Record;
use self::fixed::Piece;
use self::layout::Layout;
use super::error::ImportError;
use super::recording::{ImportOptions, file_name};

/// Imports a graph; the caller checks the trace.
pub(super) fn import(
    text: &str,
    file: &Path,
    options: &ImportOptions,
) -> Result<Trace, ImportError> {
    let graph = file::read(text, file)?;
    let layout = Layout::new(&graph.ops, options.in_place);
    let pieces = fixed::pieces(graph.ops.iter().map(|op| op.fixed));
    let (tensors, ops) = tensors_and_ops(&graph.ops, &layout, &pieces);

    let mut notes = vec![
        "every op is taken as one that can run again with the same result, random state saved"
            .to_string(),
    ];
    notes.extend(graph.note_on_total());
    notes.extend(layout.notes);
    let unknown = || "an unstated device".to_string();
    let source = match graph.source {
        Some(source) => format!("{source}; {}", file_name(file)),
        None => file_name(file),
    };
    Ok(Trace {
        network: options.network.clone().unwrap_or(graph.network),
        batch: graph.batch,
        provenance: Provenance {
            framework: graph.framework,
            notes,
            ..Provenance::new(Origin::Imported, graph.device.unwrap_or_else(unknown), source)
        },
        tensors,
        ops,
    })
}

/// Tensors, in this order: the pieces of the fixed level, then the outputs by op.
fn tensors_and_ops(
    records: &[Record],
    layout: &Layout,
    pieces: &[Piece],
) -> (Vec<Tensor>, Vec<Op>) {
    let mut tensors = Vec::new();
    let mut ops: Vec<Op> = (records.iter().zip(&layout.workspace))
        .map(|(record, workspace)| Op {
            recompute: record.recompute,
            workspace: Bytes(*workspace),
            ..Op::new(&record.name, (record.kind, record.phase), record.duration)
        })
        .collect();

    for piece in pieces {
        let id = TensorId::from_index(tensors.len());
        tensors.push(piece.tensor(records));
        if let Some(op) = piece.from {
            ops[op].writes.push(id);
        }
        if let Some(op) = piece.until {
            ops[op].frees.push(id);
        }
    }

    // The tensor that holds each op's output. An output without bytes that nobody reads is none.
    let mut outputs: Vec<Option<TensorId>> = vec![None; records.len()];
    for (index, record) in records.iter().enumerate() {
        if layout.storage[index] != index {
            outputs[index] = outputs[layout.storage[index]];
            continue;
        }
        if record.output == 0 && layout.last_use[index] == index {
            continue;
        }
        let id = TensorId::from_index(tensors.len());
        tensors.push(output_tensor(record));
        outputs[index] = Some(id);
        ops[index].writes.push(id);
        ops[layout.last_use[index]].frees.push(id);
    }
    for (index, op) in ops.iter_mut().enumerate() {
        op.reads.extend(layout.reads[index].iter().filter_map(|storage| outputs[*storage]));
        if let Some(storage) = layout.laid_over[index]
            && let (Some(input), Some(output)) = (outputs[storage], outputs[index])
        {
            op.in_place.push(InPlace { input, output });
        }
    }
    (tensors, ops)
}

fn output_tensor(record: &Record) -> Tensor {
    let role = match record.phase {
        Phase::Forward => Role::Activation,
        Phase::Backward | Phase::Update => Role::Gradient,
    };
    Tensor::new(format!("{} {}", record.name, record.id), Bytes(record.output), role)
}

impl Piece {
    fn tensor(&self, records: &[Record]) -> Tensor {
        let Some(op) = self.from else {
            return Tensor::new("fixed memory", Bytes(self.bytes), Role::Parameter);
        };
        let record = &records[op];
        let role = match record.phase {
            Phase::Backward => Role::Gradient,
            Phase::Forward | Phase::Update => Role::Workspace,
        };
        Tensor::new(
            format!("fixed memory from {} {}", record.name, record.id),
            Bytes(self.bytes),
            role,
        )
    }
}
