//! What a plan's codecs make of tensors.

use std::collections::BTreeMap;

use schema::{Bytes, Plan, Trace};

/// The tensors that a plan makes smaller, each counted once.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct CompressedForms {
    pub count: usize,
    pub raw: Bytes,
    pub reserved: Bytes,
}

impl CompressedForms {
    /// Of a plan for a trace.
    pub fn of(plan: &Plan, trace: &Trace) -> Self {
        let small = plan.buffers.iter().filter(|buffer| buffer.compressed.is_some());
        let small: BTreeMap<_, _> = small.filter_map(|b| Some((b.tensor?, b.bytes))).collect();
        Self {
            count: small.len(),
            raw: small.keys().map(|tensor| trace.tensors[tensor.index()].bytes).sum(),
            reserved: small.values().copied().sum(),
        }
    }

    /// In a line; nothing where there are none.
    pub fn sentence(&self) -> String {
        match self.count {
            0 => String::new(),
            count => format!(
                "{count} tensors of {} become {} with margins: {:.1}x\n",
                self.raw,
                self.reserved,
                self.raw.0 as f64 / self.reserved.0.max(1) as f64
            ),
        }
    }
}
