//! From a problem to its proven plan, in one direction: the method decides ([`Method::decide`]),
//! the evaluator makes a schedule of that, the buffers of which are packed into addresses
//! ([`lower`](crate::lower)), and the plan that results is proven.
//!
//! There are two ways back. Decisions that fit byte for byte and not address for address are
//! lowered with less memory ([`fit`](crate::fit)); where that does not help, [`own_plan`] has the
//! method decide again, for a smaller target.

use schema::{Nanos, Plan};
use simulator::{Infeasible, ProvenPlan};

use crate::bound::{Bound, tightened_while};
use crate::fit::{lower_where_it_fits, share};
use crate::method::Method;
use crate::monitor::Cancellation;
use crate::{Decided, Monitor, PlanError, Problem, Result, moving};

/// What the settings of a plan have where its search was told to stop before it was done.
pub const INTERRUPTED: &str = "interrupted";

/// Plans with a method: its own decisions lowered, or the plan of a method that it includes where
/// that is faster. The plan carries its proof, the bound of the problem, and the settings of the
/// method and of the problem.
///
/// # Errors
///
/// If there is no plan, or none yet when the monitor says that the search is not to go on. A plan
/// that there was by then says [`INTERRUPTED`] among its settings.
pub fn plan(method: &dyn Method, problem: &Problem, monitor: &dyn Monitor) -> Result<ProvenPlan> {
    if problem.once() > u128::from(Nanos::MOST.0) {
        return Err(PlanError::TooLong);
    }
    let allowed = problem.allowed.and(method.uses());
    let monitor = &Cancellation::new(monitor);
    // What the plan is held against is found beside it.
    let (plan, _) = rayon::join(
        || match allowed == problem.allowed {
            true => fastest_or_moving(method, problem, monitor),
            false => fastest_or_moving(method, &problem.restricted_to(allowed), monitor),
        },
        || tightened_while(problem, &|_, _| !monitor.cancelled()),
    );
    let mut plan = plan?;
    monitor.found(plan.predicted.iteration);
    plan.method = method.name().to_string();
    plan.settings.extend(method.settings());
    if monitor.cancelled() {
        let what = "before the search was done: the best plan until then";
        plan.settings.insert(INTERRUPTED.to_string(), what.to_string());
    }
    proven(plan, problem)
}

/// The plan of a problem with what the problem says of it, proven.
pub(crate) fn proven(mut plan: Plan, problem: &Problem) -> Result<ProvenPlan> {
    plan.settings.extend(problem.settings.clone());
    let moves = plan.host_buffers.iter().any(|host| host.at_start);
    let bound = match moves {
        true => moving::bound::bound(problem),
        false => tightened_while(problem, &|_, _| true),
    };
    plan.predicted.bound = bound.time();
    let method = plan.method.clone();
    ProvenPlan::check(plan, problem.trace).map_err(|cause| PlanError::Unproven { method, cause })
}

/// The method's plan; where there is none because memory does not suffice, or it takes longer than it might with what more
/// memory there would be, the one in which what outlives the iteration moves, if the method may do that.
fn fastest_or_moving(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
) -> Result<Plan> {
    if let Some(offload) = method.offloads() {
        return moving::offloaded(method, offload, problem, monitor);
    }
    let may_move = method.moves_state() && problem.allowed.swap;
    if method.moves_state()
        && let Bound::Infeasible { needed, op } = problem.resident()
    {
        // What no plan can do is not searched for.
        let cause = Infeasible::Memory { needed, op };
        return match may_move {
            true => moving::plan(method, problem, monitor, false),
            false => Err(PlanError::from_infeasible(cause, problem.budget)),
        };
    }
    let kept = match fastest(method, problem, monitor, None) {
        Err(error) if may_move && error.short_by().is_some() => {
            return moving::plan(method, problem, monitor, false).map_err(|_| error);
        }
        plan => plan?.expect("nothing is known that is as fast"),
    };
    if !may_move || !moving::may_pay(problem, kept.predicted.iteration) {
        return Ok(kept);
    }
    let moved = moving::plan(method, problem, monitor, true).ok();
    let moved = moved.filter(|moved| moved.predicted.iteration < kept.predicted.iteration);
    Ok(moved.unwrap_or(kept))
}

/// The method's own plan, or that of a method that it includes, whichever is faster; none where another plan is known
/// that is as fast.
fn fastest(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
    known: Option<Nanos>,
) -> Result<Option<Plan>> {
    let mut best = own_plan(method, problem, monitor, known).map(|found| Some(found?.1));
    for included in method.includes() {
        // What gives up, or may not do what it needs, has no plan of another's either.
        let no_answer = |error: &PlanError| {
            use PlanError::{Interrupted, NoCodec, NotAllowed};
            matches!(error, Interrupted | NoCodec { .. } | NotAllowed { .. })
        };
        if best.as_ref().is_err_and(no_answer) {
            break;
        }
        let time = |plan: &Plan| plan.predicted.iteration;
        let so_far = best.as_ref().ok().and_then(Option::as_ref).map(time);
        let plan = fastest(included.as_ref(), problem, monitor, so_far.or(known));
        let better = match (&plan, &best) {
            (Ok(Some(plan)), _) => so_far.is_none_or(|best| time(plan) < best),
            (Ok(None), _) | (Err(_), Ok(_)) => false,
            // Of two failures, the one that came nearer says what would be needed.
            (Err(error), Err(best)) => {
                error.short_by().is_some_and(|short| best.short_by().is_none_or(|b| short < b))
            }
        };
        if better {
            best = plan;
        }
    }
    best
}

/// What a method decides itself, of which its plan is made: for another problem, which carries it out as it is.
///
/// # Errors
/// As [`plan`]'s, but for the proof.
pub fn decisions(method: &dyn Method, problem: &Problem, monitor: &dyn Monitor) -> Result<Decided> {
    let found = own_plan(method, problem, &Cancellation::new(monitor), None)?;
    Ok(found.expect("nothing is known that is as fast").0)
}

/// Has the method decide for smaller targets until its decisions can be lowered, or would take no less time than a plan
/// that is known: for less memory, they are taken to be no faster.
fn own_plan(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
    known: Option<Nanos>,
) -> Result<Option<(Decided, Plan)>> {
    let mut failure = None;
    let mut tried: Option<Decided> = None;
    for permille in method.targets() {
        let decided = match method.decide(problem, share(problem.budget, *permille), monitor) {
            Ok(decided) => decided,
            Err(PlanError::Interrupted) => return Err(PlanError::Interrupted),
            Err(error) => return Err(failure.unwrap_or(error)),
        };
        if tried.as_ref() == Some(&decided) {
            continue;
        }
        if known.is_some_and(|known| is_no_faster(problem, &decided, known)) {
            return Ok(None);
        }
        match lower_where_it_fits(problem, problem.budget, &decided) {
            Ok(plan) => return Ok(Some((decided, plan))),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
        tried = Some(decided);
    }
    Err(failure.expect("there is at least one target"))
}

/// Whether decisions take no less than such a time, as far as that is known before they are lowered: codecs may run a
/// little sooner than evaluated.
fn is_no_faster(problem: &Problem, decided: &Decided, known: Nanos) -> bool {
    let is_as_evaluated = decided.steps.is_none() && !decided.as_recorded && !decided.compresses();
    is_as_evaluated && decided.evaluated(problem, problem.budget).is_ok_and(|time| time >= known)
}
