//! Time against memory: what methods make of many budgets.

mod budgets;
mod curves;
mod drawing;

use planner::Monitor;
use planner::methods::Method;
use reports::Frontier;
use schema::{Bytes, Document, Reference};

use crate::{Inputs, Result};
use curves::Curves;

pub use budgets::{Budgets, budgets};
pub use drawing::{Drawing, is_drawable};

/// Plans every method under every budget and, where a slowdown is stated, finds the smallest budget with
/// which each is slower than in core by no more. Interrupted, it has what is finished.
///
/// # Errors
/// If a plan cannot be proven safe.
pub fn frontier(
    inputs: &Inputs,
    methods: &[Box<dyn Method>],
    budgets: &[Bytes],
    slowdown: Option<f64>,
    monitor: &dyn Monitor,
) -> Result<Frontier> {
    let curves = Curves { inputs, methods, monitor };
    let points = curves.points(budgets)?;
    let smallest = match slowdown {
        Some(slowdown) => curves.smallest(slowdown, &points)?,
        None => Vec::new(),
    };
    let Inputs { trace, machine, .. } = inputs;
    Ok(Frontier {
        trace: Reference { name: trace.title(), digest: trace.digest() },
        provenance: trace.provenance.clone(),
        machine: Reference { name: machine.name.clone(), digest: machine.digest() },
        in_core: inputs.in_core,
        methods: methods.iter().map(|method| method.name().to_string()).collect(),
        points,
        slowdown,
        smallest,
    })
}
