//! From a method's decisions to its plan.

use schema::{Bytes, Nanos, Plan};
use simulator::{GapId, Policy, Step, Treatment};

use crate::methods::Method;
use crate::monitor::Cancellation;
use crate::{Monitor, PlanError, Problem, bound, lower};

/// Decisions, and when copies start under them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// One for each gap of the problem's model.
    pub treatments: Vec<Treatment>,
    /// When copies start.
    pub policy: Policy,
    /// The gaps that the method considered.
    pub considered: Vec<GapId>,
    /// The order of computation, where the method states it: then this is what is carried out, and
    /// the treatments only tell what becomes of each tensor.
    pub steps: Option<Vec<Step>>,
    /// Memory is given back when the framework did so, not after the last use.
    pub as_recorded: bool,
}

/// Shares of the budget for which a method decides, one after another, until its decisions can be
/// lowered.
pub(crate) const DECIDED_PERMILLE: [u64; 10] = [1000, 990, 980, 965, 940, 900, 850, 800, 750, 700];

/// How often a decision is lowered with ever less memory until its buffers can be packed into the
/// whole budget: what fits byte for byte need not fit address for address, and copies in that
/// start a little later leave room.
const LOWERINGS: usize = 8;

/// How often the middle between two of these is tried.
const MIDDLES: usize = 2;

/// What the settings of a plan have where its search was told to stop before it was done.
pub const INTERRUPTED: &str = "interrupted";

/// Plans with a method: its own decisions lowered, or the plan of a method that it includes where
/// that is faster.
///
/// # Errors
///
/// If there is no plan, or none yet when the monitor says that the search is not to go on. A plan that
/// there was by then says [`INTERRUPTED`] among its settings.
pub fn plan(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
) -> Result<Plan, PlanError> {
    if problem.once() > u128::from(Nanos::MOST.0) {
        return Err(PlanError::TooLong);
    }
    let allowed = method.restricts(problem.allowed);
    let monitor = &Cancellation::new(monitor);
    let mut plan = match allowed == problem.allowed {
        true => fastest(method, problem, monitor),
        false => fastest(method, &problem.restricted_to(allowed), monitor),
    }?;
    monitor.found(plan.predicted.iteration);
    plan.method = method.name().to_string();
    plan.settings = method.settings();
    if monitor.cancelled() {
        let what = "before the search was done: the best plan until then";
        plan.settings.insert(INTERRUPTED.to_string(), what.to_string());
    }
    plan.predicted.bound = bound(problem).time();
    Ok(plan)
}

fn fastest(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
) -> Result<Plan, PlanError> {
    let mut best = own_plan(method, problem, monitor);
    for included in method.includes() {
        // What gives up, or may not do what it needs, has no plan of another's either.
        let no_answer = |error: &PlanError| {
            use PlanError::{Interrupted, NoCodec, NotAllowed};
            matches!(error, Interrupted | NoCodec { .. } | NotAllowed { .. })
        };
        if best.as_ref().is_err_and(no_answer) {
            break;
        }
        let plan = fastest(included.as_ref(), problem, monitor);
        let better = match (&plan, &best) {
            (Ok(plan), Ok(best)) => plan.predicted.iteration < best.predicted.iteration,
            (Ok(_), Err(_)) => true,
            (Err(_), Ok(_)) => false,
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

/// Decides for smaller targets until the decisions can be lowered.
fn own_plan(
    method: &dyn Method,
    problem: &Problem,
    monitor: &dyn Monitor,
) -> Result<Plan, PlanError> {
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
        match lower_where_it_fits(problem, problem.budget, &decided) {
            Ok(plan) => return Ok(plan),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
        tried = Some(decided);
    }
    Err(failure.expect("there is at least one target"))
}

/// Lowers decisions for `target` bytes, or for as much less as it takes to pack them; then for the
/// middle between what could be packed and what could not, as long as that is faster.
pub(crate) fn lower_where_it_fits(
    problem: &Problem,
    target: Bytes,
    decided: &Decided,
) -> Result<Plan, PlanError> {
    let (mut room, mut too_much) = (target, target);
    let mut failure = None;
    let mut packed = None;
    for _ in 0..LOWERINGS {
        match lower(problem, room, decided) {
            Ok(plan) => {
                packed = Some((plan, room));
                break;
            }
            Err(error @ PlanError::Fragmented { short_by, budget }) => {
                failure.get_or_insert(error);
                too_much = room;
                room = share(shrunk(room, budget, short_by), 998);
            }
            // What does not fit this target fits no smaller one.
            Err(error) => return Err(failure.unwrap_or(error)),
        }
    }
    let Some((mut plan, mut enough)) = packed else {
        return Err(failure.expect("there is at least one lowering"));
    };
    for _ in 0..MIDDLES {
        let middle = enough + Bytes((too_much - enough).0 / 2);
        if middle - enough <= share(target, 1) {
            break;
        }
        match lower(problem, middle, decided) {
            Ok(other) => {
                enough = middle;
                if other.predicted.iteration < plan.predicted.iteration {
                    plan = other;
                }
            }
            Err(_) => too_much = middle,
        }
    }
    Ok(plan)
}

/// As much less memory as if the arena, which is too large by some bytes, shrank with it.
pub(crate) fn shrunk(target: Bytes, budget: Bytes, short_by: Bytes) -> Bytes {
    let wanted = u128::from(target.0) * u128::from(budget.0);
    Bytes((wanted / u128::from((budget + short_by).0)) as u64)
}

pub(crate) fn share(budget: Bytes, permille: u64) -> Bytes {
    Bytes((u128::from(budget.0) * u128::from(permille) / 1000) as u64)
}
