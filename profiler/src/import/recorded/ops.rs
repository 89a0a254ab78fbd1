//! An iteration of a recording, by what its ops did.

use networks::{Call, Units, Work};
use schema::{Nanos, Phase};

/// An iteration of a recording, by what it did.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Recorded {
    pub kind: &'static str,
    /// The device's name, where it is stated.
    pub device: Option<String>,
    /// Element type of most arithmetic.
    pub dtype: &'static str,
    pub ops: Vec<RecordedOp>,
    /// What an iteration took, where that was measured.
    pub iteration: Option<Nanos>,
    pub forward: Option<Nanos>,
    pub backward: Option<Nanos>,
    /// The most that was allocated.
    pub peak: Option<u64>,
    /// Whether that is without what was allocated before the recording, which states no totals.
    pub peak_from_nothing: bool,
    /// Whether the times are sums of kernels, so that what the host takes is in none of them.
    pub kernels_only: bool,
}

/// What one op did.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedOp {
    /// When.
    pub phase: Phase,
    /// With which kernels.
    pub works: Vec<Work>,
    /// How often in an iteration.
    pub times: u32,
    /// What its kernels took, where it was timed alone.
    pub recorded: Option<Nanos>,
}

/// What of a phase each op did: an op whose name is known stands for all that it calls.
pub(super) struct Nested {
    pub calls: Vec<Call>,
    pub children: Vec<Vec<usize>>,
}

impl Nested {
    /// Appends the kernels of an op, or else of those that it calls.
    pub fn works(&self, index: usize, into: &mut Vec<(usize, Vec<Work>)>) {
        let call = &self.calls[index];
        let children = &self.children[index];
        match call.works() {
            Some(works) => into.push((index, works)),
            None if children.is_empty() => {
                if call.name.contains("::") && !call.name.starts_with("autograd") {
                    into.push((index, call.elementwise()));
                }
            }
            None => children.iter().for_each(|child| self.works(*child, into)),
        }
    }
}

/// The element type that most arithmetic is in.
pub(super) fn dtype_of(ops: &[RecordedOp]) -> &'static str {
    let flops = |units: Units| -> u64 {
        let works = ops.iter().flat_map(|op| &op.works);
        works.filter(|work| work.units == units).map(|work| work.flops / 1000).sum()
    };
    let [f32, tf32, half] = [Units::Vectors, Units::Tf32, Units::Half].map(flops);
    if half >= f32.max(tf32) && half > 0 {
        "bf16"
    } else if tf32 > f32 {
        "tf32"
    } else {
        "f32"
    }
}
