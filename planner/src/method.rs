//! What a method is.

use std::collections::BTreeMap;

use schema::{Bytes, Nanos};
use simulator::{Infeasible, Outcome};

use crate::{Allowed, Decided, Monitor, PlanError, Problem, Result};

/// Shares of the budget for which a method decides, one after another, until its decisions can be
/// lowered.
pub(crate) const DECIDED_PERMILLE: [u64; 10] = [1000, 990, 980, 965, 940, 900, 850, 800, 750, 700];

/// What a method is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// The publication that it follows.
    pub source: &'static str,
}

/// What the host has in every plan of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// The optimizer's state and the updates, which its processor runs. Parameters come in once.
    Updates,
    /// The same, and the parameters, which come in for each of their uses.
    Parameters,
}

/// A way to decide.
pub trait Method: Sync {
    /// What it is, for people.
    fn about(&self) -> About;

    /// Its name on the command line.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// Decisions that fit `target` bytes of device memory.
    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided>;

    /// The same decisions, and before them others that were its best on the way: who knows more of what they
    /// are for than the problem says may find one of these better.
    fn candidates(
        &self,
        problem: &Problem,
        target: Bytes,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Decided>> {
        self.decide(problem, target, monitor).map(|decided| vec![decided])
    }

    /// Shares of the budget, in thousandths, for which it decides, one after another, until its
    /// decisions can be lowered.
    fn targets(&self) -> &'static [u64] {
        &DECIDED_PERMILLE
    }

    /// Whether it cannot do without a codec, so that a problem without any is none for it.
    fn needs_codecs(&self) -> bool {
        false
    }

    /// Whether a comparison leaves it out unless it is named: it takes long, and seldom beats what
    /// it starts from, or it is for few traces.
    fn only_on_request(&self) -> bool {
        false
    }

    /// Whether its plans may have what outlives the iteration on the host between iterations, where the
    /// device has no room for all of it.
    fn moves_state(&self) -> bool {
        false
    }

    /// What is on the host in all of its plans, whether or not the device has room for it.
    fn offloads(&self) -> Option<Offload> {
        None
    }

    /// Whether the batches that it trains with are powers of two.
    fn batches_are_powers_of_two(&self) -> bool {
        false
    }

    /// What this method makes use of where it is allowed. Its own decisions and those of the
    /// methods that it includes keep to it: [`plan`](crate::plan) gives them a problem that allows
    /// no more.
    fn uses(&self) -> Allowed {
        Allowed::ALL
    }

    /// The same method with a parameter of its lossy codec, where that slides over the epochs of a
    /// training.
    fn with_parameter(&self, _: u32) -> Option<Box<dyn Method>> {
        None
    }

    /// What its plans state as settings.
    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Methods that this one includes: where one of their plans is faster, it is this one's, too.
    fn includes(&self) -> Vec<Box<dyn Method>> {
        Vec::new()
    }
}

pub(crate) fn needs_swap(problem: &Problem) -> Result<()> {
    if problem.allowed.swap { Ok(()) } else { Err(PlanError::NotAllowed { what: "swap" }) }
}

pub(crate) fn needs_recompute(problem: &Problem) -> Result<()> {
    if problem.allowed.recompute {
        Ok(())
    } else {
        Err(PlanError::NotAllowed { what: "recompute" })
    }
}

/// That the problem has a codec that a method needs, and may use it.
pub(crate) fn needs_codec(
    problem: &Problem,
    what: &'static str,
    option: &'static str,
    has_it: bool,
) -> Result<()> {
    match problem.allowed.compress && has_it {
        true => Ok(()),
        false => Err(PlanError::NoCodec { what, option }),
    }
}

/// The fastest of what a method tries and, where nothing fits, what came nearest to it.
pub(crate) struct Fastest<T> {
    best: Option<(Nanos, T)>,
    nearest: Option<Infeasible>,
}

impl<T> Fastest<T> {
    pub fn new() -> Self {
        Self { best: None, nearest: None }
    }

    /// Notes what one try was evaluated to.
    pub fn tried(&mut self, outcome: Result<Outcome, Infeasible>, decided: T) {
        match outcome {
            Ok(Outcome { iteration, .. }) => {
                if self.best.as_ref().is_none_or(|(time, _)| iteration < *time) {
                    self.best = Some((iteration, decided));
                }
            }
            Err(cause) => {
                if self.nearest.is_none_or(|known| cause.needed() < known.needed()) {
                    self.nearest = Some(cause);
                }
            }
        }
    }

    /// The fastest, of at least one try.
    pub fn found(self, problem: &Problem) -> Result<T> {
        match (self.best, self.nearest) {
            (Some((_, decided)), _) => Ok(decided),
            (None, Some(cause)) => Err(PlanError::from_infeasible(cause, problem.budget)),
            (None, None) => unreachable!("something was tried"),
        }
    }
}
