//! What methods make of one problem, side by side.

use std::collections::BTreeMap;
use std::time::Instant;

use networks::suggest::instead;
use planner::methods::{self, Method};
use planner::{
    Monitor, NoMonitor, PlanError, Problem, ProvenPlan, least_budget, moving_bound, tightened,
};
use reports::{Comparison, MethodResult, Moved, Status};
use schema::{
    Bytes, Choice, Document, InCore, Nanos, Plan, Processor, Reference, Role, Task, Trace,
};
use simulator::{Infeasible, predict};

use crate::{Error, Inputs, Result, Scatter};

/// Finds a method or lists those that there are.
///
/// # Errors
/// If there is none of this name.
pub fn method(name: &str) -> Result<Box<dyn Method>> {
    methods::by_name(name).ok_or_else(|| {
        let all = methods::all();
        Error::NoMethod(name.into(), instead(name, all.iter().map(|method| method.name())))
    })
}

/// The methods of these names, none twice; without a name all that a comparison has.
///
/// # Errors
/// If there is none of a name, or it comes twice.
pub fn methods_of(names: &[String], no_codecs: bool) -> Result<Vec<Box<dyn Method>>> {
    if names.is_empty() {
        let mut chosen = methods::all();
        chosen.retain(|m| !(m.only_on_request() || no_codecs && m.needs_codecs()));
        return Ok(chosen);
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(Error::Twice("--methods", name.clone()));
        }
    }
    names.iter().map(|name| method(name)).collect()
}

/// What one method came up with.
pub struct Found {
    /// The plan.
    pub plan: std::result::Result<ProvenPlan, PlanError>,
    /// Its row in a comparison.
    pub row: MethodResult,
}

/// Plans with one method, to the end of its search: what is compared with other points, or kept, is the
/// plan of a whole search.
///
/// # Errors
/// If the search is interrupted, or the plan cannot be proven safe: that is our error, never a result.
pub fn result_of(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
    in_core: &InCore,
) -> Result<Found> {
    let found =
        found_by(method.name(), problem, in_core, || planner::plan(method, problem, monitor))?;
    let plan = found.plan.as_ref().ok();
    match plan.is_some_and(|plan| plan.settings.contains_key(planner::INTERRUPTED)) {
        true => Err(Error::Interrupted("interrupted")),
        false => Ok(found),
    }
}

/// The same for a method whose plan is made in some way, and whose search may have been cut short.
///
/// # Errors
/// If there is no plan yet when the search is interrupted, or it cannot be proven safe.
pub fn found_by(
    method: &str,
    problem: &Problem,
    in_core: &InCore,
    plan: impl FnOnce() -> std::result::Result<ProvenPlan, PlanError>,
) -> Result<Found> {
    let begin = Instant::now();
    let plan = plan();
    let seconds = begin.elapsed().as_secs_f64();
    let mut row = match &plan {
        Ok(plan) => {
            MethodResult { moved: moved(plan, problem.trace), ..row_of(plan, problem, in_core) }
        }
        Err(PlanError::Interrupted) => return Err(Error::Interrupted("interrupted")),
        Err(error @ PlanError::Unproven { .. }) => return Err(error.clone().into()),
        Err(error) => {
            let reason = with_op_name(error, problem.trace);
            let mut row = MethodResult::without_plan(method, Status::Infeasible, reason);
            row.shortfall = error.short_by();
            row
        }
    };
    row.plan_seconds = Some(seconds);
    Ok(Found { plan, row })
}

/// The error's sentence, in which the op that it names by number has its name, too.
fn with_op_name(error: &PlanError, trace: &Trace) -> String {
    let text = error.to_string();
    let (PlanError::OverBudget { cause, .. } | PlanError::Impossible(cause)) = error else {
        return text;
    };
    let op = match cause {
        Infeasible::Memory { op, .. }
        | Infeasible::Prefetch { op, .. }
        | Infeasible::TooManyRecomputations { before: op } => *op,
        _ => return text,
    };
    let name = trace.ops.get(op.index()).map_or("", |op| op.name.as_str());
    text.replacen(&op.to_string(), &format!("{op} ({name})"), 1)
}

fn row_of(plan: &Plan, problem: &Problem, in_core: &InCore) -> MethodResult {
    let time = |wanted: fn(&Task) -> bool| -> Nanos {
        plan.actions.iter().filter(|a| wanted(&a.task)).map(|a| a.duration).sum()
    };
    let bytes = |wanted: fn(&Task) -> bool| -> Bytes {
        plan.actions.iter().filter(|a| wanted(&a.task)).map(|a| plan.moved_bytes(a)).sum()
    };
    let [kept, swapped, recomputed, compressed] = fates(plan, problem);
    let recompute = time(|task| matches!(task, Task::Recompute(_)));
    let codec = time(|task| matches!(task, Task::Compress(_) | Task::Decompress(_)));
    let predicted = &plan.predicted;
    MethodResult {
        method: plan.method.clone(),
        status: Status::Ok,
        iteration: Some(predicted.iteration),
        slowdown: Some(predicted.iteration.ratio(in_core.iteration)),
        peak: Some(predicted.peak),
        arena: Some(predicted.arena),
        gap: predicted.bound.map(|bound| predicted.iteration.ratio(bound) - 1.0),
        kept: Some(kept.0),
        swapped: Some(swapped.0),
        recomputed: Some(recomputed.0),
        compressed: Some(compressed.0),
        kept_bytes: Some(kept.1),
        swapped_bytes: Some(swapped.1),
        recomputed_bytes: Some(recomputed.1),
        compressed_bytes: Some(compressed.1),
        d2h: Some(bytes(|task| matches!(task, Task::D2h(_)))),
        h2d: Some(bytes(|task| matches!(task, Task::H2d(_)))),
        recompute: Some(recompute),
        codec: Some(codec),
        stall: Some(predict(plan, None).compute_idle()),
        ..MethodResult::default()
    }
}

/// How many activations that the backward phase reads are kept, swapped, recomputed and compressed until
/// then, and what they take: the same tensors for every method, whatever else it decides about.
fn fates(plan: &Plan, problem: &Problem) -> [(u64, Bytes); 4] {
    let decided = plan.decisions.iter().map(|d| ((d.tensor, d.after, d.before), d));
    let decided: BTreeMap<_, _> = decided.collect();
    let mut fates = [(0, Bytes::ZERO); 4];
    for gap in problem.feature_maps.iter().map(|gap| &problem.model.gaps()[*gap]) {
        let decision = decided.get(&(gap.tensor, gap.after, gap.before));
        let fate = match decision.map(|decision| (decision.choice, decision.codec)) {
            None | Some((Choice::Keep, _)) => 0,
            Some((Choice::Swap, None)) => 1,
            Some((Choice::Recompute, _)) => 2,
            Some((Choice::Compress, _) | (Choice::Swap, Some(_))) => 3,
        };
        fates[fate].0 += 1;
        fates[fate].1 += problem.trace.tensors[gap.tensor.index()].bytes;
    }
    fates
}

/// What a plan copies by kind, where part of what outlives the iteration is on the host between
/// iterations.
fn moved(plan: &Plan, trace: &Trace) -> Option<Moved> {
    let homes = plan.host_buffers.iter().filter(|host| host.at_start);
    let homes: BTreeMap<_, _> = homes.map(|host| (host.tensor, host.bytes)).collect();
    if homes.is_empty() {
        return None;
    }
    let mut moved = Moved {
        host: plan.predicted.host_arena,
        tensors: homes.len() as u64,
        bytes: homes.into_values().sum(),
        updates: plan.actions.iter().filter(|a| a.on == Processor::Host).count() as u64,
        ..Moved::default()
    };
    for action in &plan.actions {
        let (Task::D2h(tensor) | Task::H2d(tensor)) = action.task else { continue };
        let kind = match trace.tensors[tensor.index()].role {
            Role::Parameter => &mut moved.parameters,
            Role::Gradient => &mut moved.gradients,
            Role::OptimizerState => &mut moved.state,
            Role::Activation | Role::Input | Role::Workspace => &mut moved.activations,
        };
        let way = if matches!(action.task, Task::D2h(_)) { &mut kind.d2h } else { &mut kind.h2d };
        *way += plan.moved_bytes(action);
    }
    Some(moved)
}

/// What methods make of a problem of these inputs, one after the other and all held against the bound.
/// `monitor` makes whoever waits for the search of a name. Interrupted, it has what there is by then.
///
/// # Errors
/// If there is nothing yet when a search is interrupted, or a plan cannot be proven safe.
pub fn compare<M: Monitor>(
    inputs: &Inputs,
    problem: &Problem,
    methods: &[Box<dyn Method>],
    scatter: &Scatter,
    monitor: impl Fn(&'static str) -> M,
) -> Result<Comparison> {
    // Found first, so that no row's planning time has it in it.
    tightened(problem, &monitor("bound"));
    let mut rows = Vec::new();
    for method in methods {
        let monitor = monitor(method.name());
        let found = match scatter.result_of(method.as_ref(), inputs, problem, &monitor) {
            Err(error) if error.is_interruption() && !rows.is_empty() => break,
            found => found?,
        };
        rows.push(found.row);
        if found.plan.is_ok_and(|plan| plan.settings.contains_key(planner::INTERRUPTED)) {
            break;
        }
    }
    Ok(comparison_with_bound(problem, &inputs.in_core, rows))
}

/// The rows with what they have in common: each is held against the bound.
pub fn comparison(
    problem: &Problem,
    in_core: &InCore,
    bound: Option<Nanos>,
    mut methods: Vec<MethodResult>,
) -> Comparison {
    let Problem { trace, machine, budget, .. } = *problem;
    // Where a plan moves what others have on the device all the time, no bound is for those alone.
    let moves = methods.iter().any(|row| row.moved.is_some());
    let bound = if moves { moving_bound(problem).time() } else { bound };
    methods.iter_mut().for_each(|row| over_bound(row, bound));
    Comparison {
        trace: Reference { name: trace.title(), digest: trace.digest() },
        provenance: Some(trace.provenance.clone()),
        machine: Reference { name: machine.name.clone(), digest: machine.digest() },
        budget,
        in_core: *in_core,
        bound,
        least_budget: Some(least_budget(problem).0),
        sufficient: None,
        methods,
    }
}

/// The same held against the tightest bound that there is.
pub fn comparison_with_bound(
    problem: &Problem,
    in_core: &InCore,
    methods: Vec<MethodResult>,
) -> Comparison {
    comparison(problem, in_core, tightened(problem, &NoMonitor).time(), methods)
}

/// States how far a row is over a bound.
pub(crate) fn over_bound(row: &mut MethodResult, bound: Option<Nanos>) {
    row.gap = row.iteration.zip(bound).map(|(time, bound)| time.ratio(bound) - 1.0);
}
