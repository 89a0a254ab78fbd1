//! Profiles: what each op of the median step did, and what its kernels took.

use std::collections::HashMap;
use std::path::Path;

use networks::{Call, Operand};
use schema::{Nanos, Phase};

use super::ops::{Nested, Recorded, RecordedOp, dtype_of};
use crate::import::error::ImportError;
use crate::import::format::Format;
use crate::import::kineto::file::File;
use crate::import::kineto::units::{Nesting, link};
use crate::import::kineto::{choose, device_name, levels, memory_of, part, step, windows};

pub(super) fn read(bytes: &[u8], path: &Path, tf32: bool) -> Result<Recorded, ImportError> {
    let file = File::read(bytes).map_err(ImportError::json(path))?;
    let nesting = Nesting::new(&file);
    let linked = link(&file, &nesting);
    let (memory, _) = memory_of(&file);
    let levels = levels(&memory, 0);
    let windows = windows(&file, &linked);
    let steps: Vec<_> =
        windows.iter().map(|window| step(window, &linked, &memory, &levels)).collect();
    let problem = ImportError::content(path, Format::Kineto);
    let chosen = choose(&steps, None).map_err(problem)?;
    let window = &windows[chosen];
    // Libraries say in the names of kernels that they take 32-bit floats to matrix units.
    let tf32 = tf32 || file.kernels.iter().any(|kernel| file.name(kernel.name).contains("tf32"));
    let calls = file.spans.iter().map(|span| Call {
        name: file.name(span.name).to_string(),
        inputs: file.operands[span.operands as usize].clone(),
        outputs: Vec::new(),
        tf32,
    });
    let mut nested = Nested { calls: calls.collect(), children: vec![vec![]; file.spans.len()] };
    outputs_of_convolutions(&mut nested.calls);
    parameters_of_optimizers(&mut nested.calls, windows.len());
    for span in 0..file.spans.len() {
        if let Some(parent) = nesting.parent(span) {
            nested.children[parent].push(span);
        }
    }
    let backward: Vec<bool> = part(&linked, window).iter().map(|op| op.node.is_some()).collect();
    let last = backward.iter().rposition(|backward| *backward);
    let mut all = Vec::new();
    for (index, op) in part(&linked, window).iter().enumerate() {
        let phase = match () {
            () if backward[index] => Phase::Backward,
            () if last.is_some_and(|last| index > last) => Phase::Update,
            () => Phase::Forward,
        };
        let mut works = Vec::new();
        if let Some(span) = op.span {
            nested.works(span, &mut works);
        }
        let works: Vec<_> = works.into_iter().flat_map(|(_, works)| works).collect();
        let recorded = Some(Nanos(op.duration));
        all.push(RecordedOp { phase, works, times: 1, recorded });
    }
    // What ops with shapes took, of what all did: without most of them nothing follows from shapes.
    let took = |shaped: bool| -> Nanos {
        let ops = all.iter().filter(|op| !shaped || !op.works.is_empty());
        ops.filter_map(|op| op.recorded).sum()
    };
    let has_works = all.iter().any(|op| !op.works.is_empty());
    if !has_works || took(true).0 < took(false).0 / 2 {
        return Err(problem(
            "it has no shapes, from which times follow: record with record_shapes=True".into(),
        ));
    }
    let time = |phase: Option<Phase>| {
        let ops = all.iter().filter(|op| phase.is_none_or(|phase| op.phase == phase));
        Some(ops.filter_map(|op| op.recorded).sum())
    };
    let (iteration, forward) = (time(None), time(Some(Phase::Forward)));
    let backward = time(Some(Phase::Backward));
    Ok(Recorded {
        kind: "kineto",
        device: Some(device_name(&file, &memory)),
        dtype: dtype_of(&all),
        iteration,
        forward,
        backward,
        peak: steps[chosen].allocated_peak_bytes,
        peak_from_nothing: memory.first().is_some_and(|first| first.allocated.is_none()),
        kernels_only: true,
        ops: all,
    })
}

/// A profile has no sizes of results. That of a convolution is its gradient's, which the backward op of
/// the same input and weights is given; without one, it is as large as the input in space.
fn outputs_of_convolutions(calls: &mut [Call]) {
    let mut known: HashMap<[Vec<u64>; 2], Operand> = HashMap::new();
    for call in calls.iter().filter(|call| call.name.contains("convolution_backward")) {
        let (input, gradient) = if call.name.contains("cudnn") { (0, 1) } else { (1, 0) };
        if let [Some(input), Some(gradient), Some(weight)] =
            [call.inputs.get(input), call.inputs.get(gradient), call.inputs.get(2)]
        {
            known.insert([input.shape.clone(), weight.shape.clone()], gradient.clone());
        }
    }
    for call in calls.iter_mut().filter(|call| call.name.contains("conv")) {
        let [Some(input), Some(weight)] = [call.inputs.first(), call.inputs.get(1)] else {
            continue;
        };
        let (Some(samples), Some(channels)) = (input.shape.first(), weight.shape.first()) else {
            continue;
        };
        if call.name.contains("backward") {
            continue;
        }
        let same = || {
            let spatial = input.shape.iter().skip(2);
            let shape: Vec<u64> = [samples, channels].into_iter().chain(spatial).copied().collect();
            Operand::tensor(&shape, input.width)
        };
        let found = known.get(&[input.shape.clone(), weight.shape.clone()]).cloned();
        call.outputs = vec![found.unwrap_or_else(same)];
    }
}

/// A profile has no sizes of what lists hold that optimizers are given. They are those of the gradients that a step
/// adds up.
fn parameters_of_optimizers(calls: &mut [Call], steps: usize) {
    let is_gradient = |call: &&Call| call.name == "torch::autograd::AccumulateGrad";
    let gradients = calls.iter().filter(is_gradient).filter_map(|call| call.inputs.first());
    let elements = gradients.map(|of| of.shape.iter().fold(1, |a: u64, b| a.saturating_mul(*b)));
    let parameters = elements.fold(0, u64::saturating_add) / steps.max(1) as u64;
    let updates = calls.iter_mut().filter(|call| {
        ["aten::_foreach_", "aten::_fused_"].iter().any(|name| call.name.starts_with(name))
    });
    for list in updates.flat_map(|call| &mut call.inputs).filter(|input| input.shape == [0]) {
        list.shape = vec![parameters];
    }
}
