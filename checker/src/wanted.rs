//! What a trace wants of a plan.

use schema::{InPlace, Phase, Processor, TensorId, Trace};

/// What a trace wants of a plan. One serves for any number of plans.
#[derive(Debug)]
pub struct Wanted {
    pub(crate) tensors: Vec<Storage>,
    pub(crate) ops: Vec<Work>,
}

#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) bytes: u64,
    /// Bytes of an element; four where it is not known.
    pub(crate) element: u64,
    /// No op writes it: it is there before the iteration begins.
    pub(crate) is_constant: bool,
    /// How often it has changed in place when the iteration ends.
    pub(crate) last_version: u32,
    /// It must be there when the iteration ends.
    pub(crate) outlives: bool,
    pub(crate) is_held: bool,
}

#[derive(Debug)]
pub(crate) struct Work {
    /// Each tensor that it reads, and the version that it needs.
    pub(crate) reads: Vec<(TensorId, u32)>,
    pub(crate) writes: Vec<TensorId>,
    /// The same of a rerun.
    pub(crate) again: (Vec<(TensorId, u32)>, Vec<TensorId>),
    /// What its first run changes in place.
    pub(crate) changes: Vec<TensorId>,
    pub(crate) in_place: Vec<InPlace>,
    pub(crate) workspace: u64,
    pub(crate) is_rerunnable: bool,
    pub(crate) on: Processor,
    /// It is an update, which the host's processor may run in the device's stead.
    pub(crate) may_be_there: bool,
}

impl Wanted {
    /// What a well-formed trace wants.
    pub fn of(trace: &Trace) -> Self {
        let mut tensors: Vec<Storage> = (trace.tensors.iter())
            .map(|tensor| Storage {
                bytes: tensor.bytes.0,
                element: tensor.dtype.map_or(4, element_bytes),
                is_constant: true,
                last_version: 0,
                outlives: true,
                is_held: tensor.held,
            })
            .collect();
        for op in &trace.ops {
            for tensor in &op.writes {
                tensors[tensor.index()].is_constant = false;
            }
            for tensor in &op.frees {
                tensors[tensor.index()].outlives = false;
            }
        }
        // Parameters and inputs are there again when the next iteration begins, whatever a
        // recording gave back.
        for tensor in tensors.iter_mut().filter(|tensor| tensor.is_constant) {
            tensor.outlives = true;
        }
        let mut ops = Vec::with_capacity(trace.ops.len());
        for op in &trace.ops {
            let version = |tensor: &TensorId| (*tensor, tensors[tensor.index()].last_version);
            let (reads_again, writes_again) = match &op.rerun {
                Some(rerun) => (&rerun.reads, &rerun.writes),
                None => (&op.reads, &op.writes),
            };
            let constants = op.reads.iter().filter(|t| tensors[t.index()].is_constant);
            let changes: Vec<TensorId> = match &op.mutates {
                Some(mutates) => mutates.clone(),
                None if op.rerunnable => Vec::new(),
                None => constants.copied().collect(),
            };
            ops.push(Work {
                reads: op.reads.iter().map(version).collect(),
                writes: op.writes.clone(),
                again: (reads_again.iter().map(version).collect(), writes_again.clone()),
                changes: changes.clone(),
                in_place: op.in_place.clone(),
                workspace: op.workspace.0,
                is_rerunnable: op.rerunnable,
                on: op.on,
                may_be_there: op.on == Processor::Device
                    && op.phase == Phase::Update
                    && !op.rerunnable
                    && op.writes.is_empty(),
            });
            changes.iter().for_each(|tensor| tensors[tensor.index()].last_version += 1);
        }
        Self { tensors, ops }
    }
}

fn element_bytes(dtype: schema::Dtype) -> u64 {
    use schema::Dtype;
    match dtype {
        Dtype::F64 | Dtype::I64 | Dtype::Complex64 => 8,
        Dtype::F32 | Dtype::I32 => 4,
        Dtype::F16 | Dtype::Bf16 | Dtype::I16 => 2,
        Dtype::U8 | Dtype::Bool | Dtype::I8 | Dtype::F8E4m3 | Dtype::F8E5m2 => 1,
    }
}
