//! From decisions to a plan.
//!
//! The evaluator's recording is the reference timeline: it gives every buffer an interval in the
//! order of events. The intervals are [packed](pack) into addresses. Where two buffers share
//! addresses, the later comes after all uses of the earlier; every such dependency agrees with
//! the reference timeline, in which copies in may be taken to start [later](late), so the order has
//! no circle. Dependencies that follow from others are left out.

mod actions;
mod beside;
mod buffers;
mod dependencies;
mod late;
mod pack;

use rayon::prelude::*;
use schema::{Bytes, Choice, Decision, Document, Plan, Predicted, Reference};
use simulator::{Evaluator, Infeasible, Model, PrefetchGate, Record, Treatment, figures};

use buffers::Layout;

use crate::decided::FROM;
use crate::{Decided, PlanError, Problem, Result};
pub(crate) use pack::{ALIGNMENT, Effort};

/// By how much later copies in are taken to start, in thousandths of what they can be, until there are
/// addresses: the later, the easier, and the less time they have to be late.
const LATER: [u64; 3] = [0, 500, 950];

/// Lowers decisions to a plan, as they play out with `target` bytes of device memory. The plan's
/// addresses lie within the problem's budget.
///
/// # Errors
///
/// If the decisions do not fit `target`, or no packing into the budget is found.
pub fn lower(problem: &Problem, target: Bytes, decided: &Decided) -> Result<Plan> {
    lower_with(problem, target, decided, Effort::Full)
}

/// As [`lower`], with this much effort to find addresses.
pub(crate) fn lower_with(
    problem: &Problem,
    target: Bytes,
    decided: &Decided,
    effort: Effort,
) -> Result<Plan> {
    let recorded;
    let (model, treatments) = if decided.as_recorded {
        recorded = Model::as_recorded(problem.trace);
        (&recorded, vec![Treatment::Keep; recorded.gaps().len()])
    } else {
        (&problem.model, decided.treatments.clone())
    };
    let link = &problem.machine.link;
    let mut evaluator = Evaluator::new(model, link, decided.policy, target, problem.host_budget)
        .with_codecs(&problem.codecs.costs);
    let record = match &decided.steps {
        Some(steps) => evaluator.record_steps(steps),
        None => evaluator.record(&treatments),
    };
    let record = record.map_err(|cause| PlanError::from_infeasible(cause, problem.budget))?;
    // What a policy starts with some op, or has an op wait for, keeps its place.
    let policy = decided.policy;
    let may_wait = policy.prefetch == PrefetchGate::AsMemoryAllows && !policy.synchronous;
    let tries = if may_wait && !record.backs.is_empty() { &LATER[..] } else { &LATER[..1] };
    // Where something is copied, less memory has addresses sooner than more effort.
    let most = if record.backs.is_empty() { effort } else { effort.min(Effort::Stacked) };
    let packed = |permille: u64| {
        let effort = if Some(&permille) == tries.last() { most } else { Effort::Little };
        let record = late::later(&record, permille);
        let mut layout = buffers::layout(problem, &record);
        let arena = addresses(problem, &record, &mut layout, effort);
        (record, layout, arena)
    };
    // Mostly the first is enough; else the others are tried side by side, and the last says what lacks.
    let mut found = packed(tries[0]);
    if found.2 > problem.budget && tries.len() > 1 {
        let others: Vec<_> = tries[1..].par_iter().map(|permille| packed(*permille)).collect();
        let fits = others.iter().position(|(_, _, arena)| *arena <= problem.budget);
        found = others.into_iter().nth(fits.unwrap_or(tries.len() - 2)).expect("there are some");
    }
    let (record, mut layout, arena) = found;
    if arena > problem.budget {
        let short_by = arena - problem.budget;
        let peak = record.outcome.peak;
        let (budget, beyond) = (problem.budget, layout.beyond(&record, problem.budget));
        return Err(PlanError::Fragmented { short_by, budget, peak, beyond });
    }
    let host_arena = pack::pack(&mut layout.host, problem.host_budget, effort);
    if host_arena > problem.host_budget {
        return Err(PlanError::Impossible(Infeasible::HostMemory { needed: host_arena }));
    }
    let packed_there = record.outs.iter().any(|out| out.there.is_some());
    let compresses = !record.packings.is_empty() || packed_there;
    let codec_lane = evaluator.codec_lane().filter(|_| !record.packings.is_empty());
    let mut plan = Plan {
        method: String::new(),
        settings: decided.from.map(|from| (FROM.into(), from.into())).into_iter().collect(),
        recipe: problem.trace.provenance.recipe.clone(),
        trace: Reference { name: problem.trace.title(), digest: problem.trace_digest().clone() },
        machine: Reference { name: problem.machine.name.clone(), digest: problem.machine.digest() },
        codec_models: problem.codecs.source.clone().filter(|_| compresses),
        codecs: if compresses { problem.codecs.codecs.clone() } else { Vec::new() },
        budget: problem.budget,
        host_budget: host_arena,
        both_directions_permille: evaluator.both_directions_permille(),
        codec_lane: codec_lane.is_some(),
        beside_codec_permille: codec_lane.map_or(1000, |lane| lane.beside_codec_permille),
        beside_copy_permille: evaluator.beside_copy_permille(),
        decisions: decisions(problem, decided),
        buffers: layout.device_buffers(&record),
        host_buffers: layout.host_buffers(),
        actions: actions::actions(problem, &evaluator, &record, &layout),
        predicted: Predicted::default(),
    };
    dependencies::connect(&mut plan, model);
    plan.predicted = figures(&plan);
    Ok(plan)
}

/// Gives all on the device addresses, and returns where these end.
fn addresses(problem: &Problem, record: &Record, layout: &mut Layout, effort: Effort) -> Bytes {
    let blocks = beside::longer_lives(problem, record, &layout.residencies, &layout.device);
    if let Some(mut blocks) = blocks {
        let arena = pack::pack(&mut blocks, problem.budget, Effort::Little);
        if arena <= problem.budget {
            layout.device = blocks;
            return arena;
        }
    }
    pack::pack(&mut layout.device, problem.budget, effort)
}

fn decisions(problem: &Problem, decided: &Decided) -> Vec<Decision> {
    let decision = |gap: &simulator::GapId| {
        let (choice, codec) = match decided.treatments[*gap] {
            // What an update on the host has read is there.
            _ if problem.model.runs_there(problem.model.gaps()[*gap].after) => (Choice::Swap, None),
            Treatment::Keep => (Choice::Keep, None),
            Treatment::Recompute | Treatment::RecomputeEachTime => (Choice::Recompute, None),
            Treatment::Swap | Treatment::SwapEachTime | Treatment::SwapAtNoCost => {
                (Choice::Swap, None)
            }
            Treatment::SwapCompressed(codec) | Treatment::SwapCompressedOnHost(codec) => {
                (Choice::Swap, Some(codec))
            }
            Treatment::Compress(codec) => (Choice::Compress, Some(codec)),
        };
        let codec = codec.map(buffers::codec_id);
        let gap = &problem.model.gaps()[*gap];
        Decision { tensor: gap.tensor, after: gap.after, before: gap.before, choice, codec }
    };
    decided.considered.iter().map(decision).collect()
}
