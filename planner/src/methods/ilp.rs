//! Integer programmes: all decisions at once, and the published special cases.

mod gaps;
mod model;
mod programme;

use std::collections::BTreeMap;

use schema::{Bytes, Nanos};
use simulator::Policy;

use crate::fit::{lower_where_it_fits, share};
use crate::method::{About, Method, needs_recompute, needs_swap};
use crate::methods::Tide;
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result};
use model::Model;
use programme::SOLVER;

/// An integer programme over the gaps: each is kept, swapped, recomputed, or made smaller by a
/// codec, in place or on its way to the host, such that memory suffices and the iteration is as
/// short as can be.
///
/// - Time is an axis of *points*: of each op's start on short traces, else of as many ops, those
///   with the most on the device in stretches of equal time. Each point has a delay, which only
///   grows; reruns and codecs between two points add to it. The delay of the end is minimised.
/// - Memory is looked at at each point: what would be there if all were kept, less what is absent.
/// - The link carries between two points no more than there is time, one direction beside the
///   other. A tensor is absent once it has left as a whole and until it begins to come back, each
///   by a point of its own; nothing leaves before it is made or returns before it has left. Where
///   that would be too many variables, treatments stay whole, and copies are flows.
/// - An op is run again between two points. What it reads must be there, back by then, or is run
///   again, too, and so on for tensors that are dead by then.
///
/// What it leaves out: memory that reruns themselves take, the disturbance of two directions of
/// the link, a tensor that is given up more than once in a gap, and on coarse axes all that
/// happens between two points. So its optimum is no bound, and its decisions are judged by the
/// evaluator: where they do not fit, the programme is solved for a little less memory. It starts
/// from the plan of [`Tide`] under the same restrictions, whose time a solution has to stay below
/// (a warm start that any solver takes), and which stands where none does. How far a plan is from
/// optimal is what its bound says.
///
/// Of more gaps than a solver can do, all but the largest are settled beforehand, by giving up what
/// is cheapest per byte. The search is limited by a count of nodes, not by a clock, so that the
/// same problem gives the same plan. The solver is `microlp`, or HiGHS with the feature `highs`.
///
/// The programmes of the literature are this one with less allowed:
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ilp {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    swap: bool,
    recompute: bool,
    compress: bool,
}

impl Ilp {
    /// All that the problem allows.
    pub const ALL: Self = Self {
        name: "ilp",
        summary: "an integer programme over keep, swap, recompute and compress",
        source: "tidegate; includes AutoTM, Checkmate and POET as special cases",
        swap: true,
        recompute: true,
        compress: true,
    };

    /// Recomputation alone, as in Checkmate (Jain et al., MLSys 2020, section 4). Checkmate has
    /// one variable per op and stage, of which there are as many as ops, for what is recomputed
    /// and what is stored; ours has one for each gap and point, on a coarser axis where the trace
    /// is long. So a tensor is recomputed at most once in a gap here, and any number of times
    /// there. Its rounding (section 5) is not used.
    pub const CHECKMATE: Self = Self {
        name: "checkmate",
        summary: "an integer programme over keep and recompute",
        source: "Checkmate (Jain et al., 2020), section 4",
        swap: false,
        recompute: true,
        compress: false,
    };

    /// Recomputation and paging, as in POET (Patil et al., ICML 2022, section 4). POET minimises
    /// energy under a limit on time, and its copies run with the ops of their stage; ours
    /// minimises time, and copies may take as long as several ops.
    pub const POET: Self = Self {
        name: "poet",
        summary: "an integer programme over keep, swap and recompute",
        source: "POET (Patil et al., 2022), section 4",
        swap: true,
        recompute: true,
        compress: false,
    };

    /// Moves between two memories, as in AutoTM (Hildebrand et al., ASPLOS 2020, section 4), in
    /// its asynchronous form. AutoTM lets ops read tensors where they are, in slow memory, too;
    /// an op of ours has all its tensors on the device.
    pub const AUTOTM: Self = Self {
        name: "autotm",
        summary: "an integer programme over keep and swap",
        source: "AutoTM (Hildebrand et al., 2020), section 4",
        swap: true,
        recompute: false,
        compress: false,
    };
}

impl Ilp {
    /// What the programmes decide by themselves: in less time than a plan that is `known` takes, if
    /// there is any.
    ///
    /// # Errors
    ///
    /// If no programme has a solution that the evaluator finds to fit, or the monitor says stop.
    pub fn programmes(
        &self,
        problem: &Problem,
        target: Bytes,
        known: Option<Nanos>,
        monitor: &dyn Monitor,
    ) -> Result<Decided> {
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let mut failure = None;
        for (done, room) in ROOMS.into_iter().enumerate() {
            let (done, of) = (done as u64, ROOMS.len() as u64);
            if !monitor.proceed(Progress { phase: "integer programme", done, of }) {
                return Err(PlanError::Interrupted);
            }
            let mut model = Model::new(problem, share(target, room));
            if let Some(known) = known {
                model.less_than(known);
            }
            let Some(treatments) = model.solve() else {
                failure.get_or_insert(PlanError::Unsolved {
                    solver: SOLVER,
                    variables: model.programme.len(),
                    nodes: model.programme.nodes(),
                });
                // Nor is there anything with less memory.
                break;
            };
            match evaluator.evaluate(&treatments) {
                Ok(_) => {
                    let considered = model.items.iter().map(|item| item.gap).collect();
                    return Ok(Decided::new(treatments, Policy::EARLY, considered));
                }
                Err(cause) => {
                    failure.get_or_insert(PlanError::from_infeasible(cause, problem.budget));
                }
            }
        }
        Err(failure.expect("there is at least one room"))
    }
}

/// Shares of the memory, in thousandths, for which the programme is solved until its decisions
/// fit.
const ROOMS: [u64; 6] = [1000, 985, 960, 930, 890, 840];

impl Method for Ilp {
    fn about(&self) -> About {
        About { name: self.name, summary: self.summary, source: self.source }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        if !self.recompute {
            needs_swap(problem)?;
        }
        if !self.swap {
            needs_recompute(problem)?;
        }
        let planned = Tide.decide(problem, target, monitor);
        let time = |decided: &Decided| {
            let plan = lower_where_it_fits(problem, target, decided).ok()?;
            Some(plan.predicted.iteration)
        };
        let known = planned.as_ref().ok().and_then(time);
        match (self.programmes(problem, target, known, monitor), planned) {
            (Ok(decided), Ok(planned)) => {
                let faster = time(&decided).is_some_and(|time| known.is_none_or(|k| time < k));
                Ok(if faster { decided } else { planned })
            }
            (Ok(decided), Err(_)) | (Err(_), Ok(decided)) => Ok(decided),
            (Err(error), Err(_)) => Err(error),
        }
    }

    fn targets(&self) -> &'static [u64] {
        &[1000, 960]
    }

    fn only_on_request(&self) -> bool {
        true
    }

    fn uses(&self) -> Allowed {
        Allowed { swap: self.swap, recompute: self.recompute, compress: self.compress }
    }

    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("solver".to_string(), SOLVER.to_string())])
    }
}
