//! What is on the device where most is.

use std::collections::BTreeMap;

use reports::{Part, Peak};
use schema::{Bytes, Plan, Role, TensorId, Trace};

/// So many are listed of layers and of tensors.
const LISTED: usize = 10;

/// Something on the device: a tensor, or what an op needs beside.
#[derive(Clone, Copy)]
struct Piece {
    tensor: Option<TensorId>,
    bytes: u64,
}

/// The peak of a trace that is run without a memory limit: as [`simulator::in_core`] has it.
pub(super) fn of_trace(trace: &Trace) -> Peak {
    let mut written = vec![false; trace.tensors.len()];
    trace.ops.iter().flat_map(|op| &op.writes).for_each(|t| written[t.index()] = true);
    let mut live: Vec<u64> = vec![0; trace.tensors.len()];
    let mut appears = vec![Vec::new(); trace.ops.len()];
    for (index, tensor) in trace.tensors.iter().enumerate().filter(|(t, _)| !written[*t]) {
        match tensor.appears_before {
            Some(op) => appears[op.index()].push(index),
            None => live[index] = tensor.bytes.0,
        }
    }
    let start = live.clone();
    let mut most = (start.iter().sum(), None);
    // Twice the same way: first where, then what.
    for pass in 0..2 {
        live.clone_from(&start);
        let mut sum: u64 = live.iter().sum();
        for (index, op) in trace.ops.iter().enumerate() {
            let made = appears[index].iter().copied().chain(op.writes.iter().map(|t| t.index()));
            for tensor in made {
                live[tensor] = trace.tensors[tensor].bytes.0;
                sum += live[tensor];
            }
            for pair in &op.in_place {
                let (input, output) = (pair.input.index(), pair.output.index());
                let shared = live[input].min(live[output]);
                live[input] -= shared;
                sum -= shared;
            }
            let now = sum + op.workspace.0;
            if pass == 0 && now > most.0 {
                most = (now, Some(index));
            }
            if pass == 1 && most.1 == Some(index) {
                let at = format!("at op {index} ({}), in {}", op.name, phase(op.phase));
                return peak(at, trace, pieces(&live, op.workspace));
            }
            for tensor in &op.frees {
                sum -= std::mem::take(&mut live[tensor.index()]);
            }
        }
    }
    peak("before the first op".into(), trace, pieces(&start, Bytes::ZERO))
}

fn pieces(live: &[u64], workspace: Bytes) -> Vec<Piece> {
    let of = |(index, bytes): (usize, &u64)| Piece {
        tensor: Some(TensorId::from_index(index)),
        bytes: *bytes,
    };
    let workspace = Piece { tensor: None, bytes: workspace.0 };
    let tensors = live.iter().enumerate().map(of);
    tensors.chain([workspace]).filter(|piece| piece.bytes > 0).collect()
}

/// The peak of a plan's buffers, in the order of its actions.
pub(super) fn of_plan(plan: &Plan, trace: &Trace) -> Peak {
    let buffers = &plan.buffers;
    let mut last = vec![None; buffers.len()];
    for (index, action) in plan.actions.iter().enumerate() {
        let used = action.reads.iter().chain(&action.writes).chain(&action.holds);
        used.for_each(|buffer| last[buffer.index()] = Some(index));
    }
    let mut born = vec![None; buffers.len()];
    for (index, action) in plan.actions.iter().enumerate() {
        action.writes.iter().for_each(|buffer| born[buffer.index()] = Some(index));
    }
    let lives = |buffer: usize, at: usize| {
        let of = &buffers[buffer];
        (of.at_start || born[buffer].is_some_and(|born| born <= at))
            && (of.at_end || last[buffer].is_some_and(|last| at <= last))
    };
    let mut changes = vec![(0u64, 0u64); plan.actions.len() + 1];
    for (buffer, of) in buffers.iter().enumerate() {
        let from = if of.at_start { Some(0) } else { born[buffer] };
        let Some(from) = from else { continue };
        changes[from].0 += of.bytes.0;
        if let Some(last) = last[buffer].filter(|_| !of.at_end) {
            changes[last + 1].1 += of.bytes.0;
        }
    }
    let (mut sum, mut most) = (0u64, (0u64, 0usize));
    for (index, (more, less)) in changes.iter().enumerate() {
        sum = (sum + more).saturating_sub(*less);
        most = if sum > most.0 { (sum, index) } else { most };
    }
    let there = (0..buffers.len()).filter(|buffer| lives(*buffer, most.1));
    let pieces = there
        .map(|buffer| Piece { tensor: buffers[buffer].tensor, bytes: buffers[buffer].bytes.0 });
    let pieces = pieces.collect();
    peak(format!("at action {} of {}", most.1, plan.actions.len()), trace, pieces)
}

fn phase(phase: schema::Phase) -> &'static str {
    match phase {
        schema::Phase::Forward => "forward",
        schema::Phase::Backward => "backward",
        schema::Phase::Update => "the update",
    }
}

fn kind(role: Role) -> &'static str {
    match role {
        Role::Activation => "activations",
        Role::Parameter => "parameters",
        Role::Gradient => "gradients",
        Role::OptimizerState => "optimizer state",
        Role::Input => "inputs",
        Role::Workspace => "workspace",
    }
}

fn peak(at: String, trace: &Trace, mut pieces: Vec<Piece>) -> Peak {
    let tensor = |piece: &Piece| piece.tensor.and_then(|id| trace.tensors.get(id.index()));
    let kinds = parts(&pieces, |piece| match tensor(piece) {
        Some(tensor) => kind(tensor.role).into(),
        None => "workspace".into(),
    });
    let by = |name: fn(&str) -> String| {
        parts(&pieces, |piece| match tensor(piece) {
            Some(tensor) => name(&tensor.name),
            None => "workspace".into(),
        })
    };
    let mut layers = by(layer);
    if layers.len() > LISTED {
        layers = by(kind_of_layer);
    }
    let rest = layers.split_off(layers.len().min(LISTED));
    layers.extend((!rest.is_empty()).then(|| Part {
        what: format!("{} others", rest.len()),
        tensors: rest.iter().map(|part| part.tensors).sum(),
        bytes: rest.iter().map(|part| part.bytes).sum(),
    }));
    pieces.sort_by_key(|piece| (std::cmp::Reverse(piece.bytes), piece.tensor));
    let largest = pieces.iter().take(LISTED).map(|piece| {
        let what = match tensor(piece) {
            Some(of) => format!("{} ({})", of.name, kind(of.role)),
            None => "workspace".into(),
        };
        Part { what, tensors: 1, bytes: Bytes(piece.bytes) }
    });
    Peak { at, kinds, layers, largest: largest.collect() }
}

/// A tensor's name without the number that a recording gives to an op behind its name.
fn unnumbered(name: &str) -> &str {
    let numbered = name.match_indices(' ').find(|(at, _)| name[at + 1..].starts_with(is_digit));
    numbered.map_or(name, |(at, _)| &name[..at])
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// The layer, or the block of layers, that a tensor's name begins with.
fn layer(name: &str) -> String {
    let name = unnumbered(name);
    name.split_once('.').map_or(name, |(first, _)| first).into()
}

/// Numbers at the end of a block's name are those of equal blocks, whose like parts count together.
fn kind_of_layer(name: &str) -> String {
    let mut names = unnumbered(name).split('.');
    let first = names.next().unwrap_or_default();
    let block = first.trim_end_matches(is_digit);
    if block.len() == first.len() {
        return first.into();
    }
    names.next().map_or(format!("{block}*"), |part| format!("{block}*.{part}"))
}

/// Pieces by what they are, the largest first.
fn parts(pieces: &[Piece], what: impl Fn(&Piece) -> String) -> Vec<Part> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for piece in pieces {
        let sum = sums.entry(what(piece)).or_default();
        *sum = (sum.0 + 1, sum.1 + piece.bytes);
    }
    let part = |(what, (tensors, bytes))| Part { what, tensors, bytes: Bytes(bytes) };
    let mut parts: Vec<Part> = sums.into_iter().map(part).collect();
    parts.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.what.cmp(&other.what)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_parts_are_the_peak() {
        for name in ["resnet18-host", "unet-h100", "resnet50-h100"] {
            let trace = scenarios::trace(name).expect("it is bundled");
            let peak = of_trace(&trace);
            let sum = |parts: &[Part]| parts.iter().map(|part| part.bytes).sum::<Bytes>();
            let whole = simulator::in_core(&trace).peak;
            assert_eq!((sum(&peak.kinds), sum(&peak.layers)), (whole, whole), "{name}");
        }
    }

    #[test]
    fn equal_blocks_are_one_layer() {
        assert_eq!(layer("layer1.0.conv"), "layer1");
        assert_eq!(kind_of_layer("h12.attention.q.weight"), "h*.attention");
        assert_eq!(kind_of_layer("stem.conv"), "stem");
        let before = "memory from before the iteration";
        for name in [layer, kind_of_layer] {
            assert_eq!(name("aten::conv2d 15 after aten::relu_"), "aten::conv2d");
            assert_eq!(name(before), before);
            assert_eq!(name("loss"), "loss");
        }
    }
}
