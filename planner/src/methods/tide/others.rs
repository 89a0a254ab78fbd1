//! What other methods decide.

use super::packed::Packed;
use crate::fit::share;
use crate::method::Method;
use crate::{Allowed, Decided};

/// Methods that take longer than `tide` on traces of more ops than these, and are not tried there, nor where
/// a rough plan will do.
const MOST_OPS: [(&str, usize); 6] = [
    ("rotor", 3000),
    ("rotor-offload", 3000),
    ("swap-opt", 3000),
    ("pooch", 3000),
    ("swapadvisor", 3000),
    ("capuchin", 5000),
];

/// On traces of at most so many ops, what cannot be faster is packed all the same: where it cannot
/// be, its method decides for less memory, which by accident may be faster.
const SHORT: usize = 1000;

/// The part of the effort that goes into reruns alone where a plan may copy or compress, too.
const LESS_EFFORT: u64 = 4;

impl Packed<'_> {
    /// Tries sequences without codecs, reruns alone, and what all other methods decide that do not
    /// take longer than this one: none of their plans is faster than what is kept then.
    pub fn try_others(&mut self) {
        let allowed = self.problem.allowed;
        let place = self.fullest();
        if allowed.compress && (allowed.swap || allowed.recompute) {
            let without = Allowed { compress: false, ..allowed };
            self.search_sequences(without, place, LESS_EFFORT);
        }
        if allowed.recompute && (allowed.swap || allowed.compress) {
            let alone = Allowed { swap: false, recompute: true, compress: false };
            self.search_sequences(alone, place, LESS_EFFORT);
        }
        let ops = if self.problem.is_rough { usize::MAX } else { self.problem.trace.ops.len() };
        let is_quick = |name| !MOST_OPS.iter().any(|(slow, most)| *slow == name && ops > *most);
        let is_tried = |method: &dyn Method| {
            !method.only_on_request() && method.name() != "tide" && is_quick(method.name())
        };
        for method in crate::methods::all().iter().filter(|method| is_tried(method.as_ref())) {
            self.try_method(method.as_ref());
        }
    }

    /// Keeps what [`plan`](crate::plan) would make a method's own plan of, if that is faster.
    fn try_method(&mut self, method: &dyn Method) {
        let problem = self.problem.restricted_to(method.restricts(self.problem.allowed));
        let mut tried: Option<Decided> = None;
        for permille in method.targets() {
            let target = share(self.target, *permille);
            let Ok(decided) = method.decide(&problem, target, self.monitor) else { return };
            if tried.as_ref() == Some(&decided) {
                continue;
            }
            let is_long = problem.trace.ops.len() > SHORT;
            match self.may_be_faster(&decided) {
                Some(false) if is_long => return,
                Some(_) if self.lower(decided.clone().taken_from(method.name())).is_ok() => return,
                _ => {}
            }
            tried = Some(decided);
        }
    }

    /// Whether a plan of some decisions may be faster than what is kept, if there may be one. With a
    /// lane of codecs it may take less than is evaluated, and what is as recorded is not evaluated.
    fn may_be_faster(&self, decided: &Decided) -> Option<bool> {
        let has_lane = self.problem.allowed.compress && self.problem.codecs.costs.lane().is_some();
        if decided.as_recorded || has_lane {
            return Some(true);
        }
        let mut evaluator = self.problem.evaluator(decided.policy, self.target);
        let outcome = match &decided.steps {
            Some(steps) => evaluator.evaluate_steps(steps),
            None => evaluator.evaluate(&decided.treatments),
        };
        Some(outcome.ok()?.iteration.0 < self.time())
    }
}
