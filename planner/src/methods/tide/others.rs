//! What other methods decide.

use rayon::prelude::*;
use schema::Nanos;

use super::packed::Packed;
use crate::fit::share;
use crate::lower::Effort;
use crate::method::Method;
use crate::methods::Dtr;
use crate::{Allowed, Decided, Problem, Result};

/// On traces of more ops than these, other methods decide first, with less effort: what they find is
/// where the search begins, which is too short there to find as much from nothing.
pub(super) const LONG: usize = 3000;

/// So many evaluations each of them may make there, and for a rough plan; and of those through so many ops.
const FEW: u64 = 200;
const FEW_OPS: u64 = 2_700_000;

/// So many tensors DTR weighs at most, with their neighbours. Where nearly all that is evicted is one class,
/// each eviction weighs anew most of what there is, so that long traces take longer than all else here.
pub(super) const MOST_WEIGHED: u64 = 20_000_000;

/// So many of what they decide are begun from, the fastest.
const BEGUN_FROM: usize = 3;

/// On traces of at most so many ops, a method of which what it decides is no faster may decide for less memory, too:
/// it does where its decisions cannot be packed, and by accident these may be faster.
const SHORT: usize = 1000;

/// There, what is slower by no more than such a part is packed all the same: with less room, by accident, it may be faster.
const ACCIDENT: u64 = 50;

/// What is to be done with what a method decides.
#[derive(PartialEq, Eq)]
enum Worth {
    /// It may be faster than what is kept.
    Packing,
    /// It does not fit, or is slower; what its method decides for less memory may be another matter.
    LessMemory,
    Nothing,
}

impl Packed<'_> {
    /// Tries sequences without codecs and reruns alone, which searches with more choices may miss.
    pub fn try_less(&mut self) {
        let allowed = self.problem.allowed;
        if allowed.compress && (allowed.swap || allowed.recompute) {
            let without = allowed.and(Allowed::WITHOUT_CODECS);
            if self.may_gain(without) {
                self.search_sequences(without, self.fullest());
            }
        }
        let is_less = allowed.recompute && (allowed.swap || allowed.compress);
        if is_less && !self.had_alone && self.may_gain(Allowed::RERUNS) {
            self.search_alone();
        }
    }

    /// Searches for sequences of reruns alone.
    pub fn search_alone(&mut self) {
        self.had_alone = true;
        self.search_sequences(Allowed::RERUNS, self.fullest());
    }

    /// Tries what DTR runs again: slower than what a search finds, and there before it.
    pub fn try_online(&mut self) {
        for permille in Dtr.targets() {
            let Ok(decided) = self.decided_by(&Dtr, self.problem, *permille) else { return };
            if self.lower_first(vec![decided.taken_from(Dtr.name())], Effort::Little)[0].is_ok() {
                return;
            }
        }
    }

    /// Tries what all other methods decide that do not take long: none of their plans is faster than
    /// what is kept then.
    pub fn try_methods(&mut self) {
        let mut problem = self.problem.clone();
        let is_long = problem.trace.ops.len() > LONG;
        if is_long || problem.is_rough {
            let few = FEW.min(FEW_OPS / problem.trace.ops.len().max(1) as u64).max(1);
            problem.limits.evaluations = problem.limits.evaluations.min(few);
        }
        if is_long {
            problem.slowest = Nanos(self.time());
            problem.most_weighed = MOST_WEIGHED;
        }
        let is_tried = |method: &dyn Method| !method.only_on_request() && method.name() != "tide";
        let mut methods = crate::methods::all();
        methods.retain(|method| is_tried(method.as_ref()));
        if !is_long && !problem.is_rough {
            let uses: Vec<Allowed> = methods.iter().map(|method| method.uses()).collect();
            let may_gain = self.which_may_gain(&uses);
            methods.retain(|method| may_gain.contains(&method.uses()));
        }
        // Some take a hundred times as long as others.
        let decided: Vec<_> = (methods.par_iter().with_max_len(1))
            .map(|method| self.decided_until_worth(method.as_ref(), &problem))
            .collect();
        for (method, decided) in methods.iter().zip(decided) {
            self.try_method(method.as_ref(), &problem, decided);
        }
        self.others.sort_by_key(|(time, _)| *time);
        self.others.truncate(BEGUN_FROM);
    }

    /// Which of several ways to plan may make a faster plan than what is kept.
    fn which_may_gain(&self, all: &[Allowed]) -> Vec<Allowed> {
        let mut ways: Vec<Allowed> = Vec::new();
        for allowed in all.iter().map(|uses| self.problem.allowed.and(*uses)) {
            if !ways.contains(&allowed) {
                ways.push(allowed);
            }
        }
        ways.into_par_iter().filter(|allowed| self.may_gain(*allowed)).collect()
    }

    fn decided_by(&self, method: &dyn Method, problem: &Problem, permille: u64) -> Result<Decided> {
        let problem = problem.restricted_to(problem.allowed.and(method.uses()));
        method.decide(&problem, share(self.target, permille), self.monitor)
    }

    /// What a method decides for its targets, up to the first that says whether it has a faster plan.
    fn decided_until_worth(&self, method: &dyn Method, problem: &Problem) -> Vec<Decided> {
        let mut all = Vec::new();
        for permille in method.targets() {
            let Ok(decided) = self.decided_by(method, problem, *permille) else { break };
            let worth = self.worth(&decided);
            all.push(decided);
            if worth != Worth::LessMemory {
                break;
            }
        }
        all
    }

    fn worth(&self, decided: &Decided) -> Worth {
        let is_long = self.problem.trace.ops.len() > SHORT;
        let accident = if is_long { 0 } else { self.time() / ACCIDENT };
        match self.time_of(decided) {
            None => Worth::LessMemory,
            Some(time) if time.is_none_or(|t| t < self.time().saturating_add(accident)) => {
                Worth::Packing
            }
            _ if is_long => Worth::Nothing,
            _ => Worth::LessMemory,
        }
    }

    /// Keeps what [`plan`](crate::plan) would make a method's own plan of, if that is faster.
    fn try_method(&mut self, method: &dyn Method, problem: &Problem, decided: Vec<Decided>) {
        let mut known = decided.into_iter();
        let mut tried: Option<Decided> = None;
        for permille in method.targets() {
            let next = known.next().map_or_else(|| self.decided_by(method, problem, *permille), Ok);
            let Ok(decided) = next else { return };
            if tried.as_ref() == Some(&decided) {
                continue;
            }
            if let Some(Some(time)) = self.time_of(&decided) {
                self.others.push((time, decided.clone()));
            }
            let own = || decided.clone().taken_from(method.name());
            match self.worth(&decided) {
                Worth::Packing if self.lower(own()).is_ok() => return,
                Worth::Packing | Worth::LessMemory => {}
                Worth::Nothing => return,
            }
            tried = Some(decided);
        }
    }

    /// What decisions take, if they fit; `Some(None)` where that is not known. With a lane of codecs it may
    /// be less than is evaluated, and what is as recorded is not evaluated.
    fn time_of(&self, decided: &Decided) -> Option<Option<u64>> {
        let has_lane = self.problem.codecs.costs.lane().is_some() && decided.compresses();
        if decided.as_recorded || has_lane {
            return Some(None);
        }
        Some(Some(decided.evaluated(self.problem, self.target).ok()?.0))
    }
}
