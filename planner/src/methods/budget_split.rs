//! One share of the layers kept, one offloaded, one recomputed.

use schema::Bytes;
use simulator::{Policy, Step};

use crate::method::{About, Fastest, Method, needs_recompute};
use crate::methods::chain::{Chain, ChainOp, Keep, carry_out};
use crate::{Allowed, Decided, Monitor, Problem, Result};

/// What training frameworks offer as two numbers: a share of the layers keeps its activations, a
/// share has them offloaded to the host, and the others are recomputed from their inputs
/// (Megatron-LM's `--recompute-num-layers` and `--cpu-offloading-num-layers`, and the like).
/// Layers are the stages of the trace's chain, and each kind is spread evenly over them. All
/// splits into eighths are tried; the fastest that fits counts.
///
/// The last layer is recomputed in no split: its backward follows at once.
pub struct BudgetSplit;

/// Shares are counted in these parts of all layers.
const PARTS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kept,
    Offloaded,
    Recomputed,
}

impl Method for BudgetSplit {
    fn about(&self) -> About {
        About {
            name: "budget-split",
            summary: "keep, offload and recompute whole layers, the best shares of each",
            source: "per-layer recompute and offload settings of training frameworks",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        let chain = Chain::of(problem)?;
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let mut fastest = Fastest::new();
        for offloaded in 0..=if problem.allowed.swap { PARTS } else { 0 } {
            let most = if problem.allowed.recompute { PARTS - offloaded } else { 0 };
            for recomputed in 0..=most {
                let kinds = spread(chain.len(), offloaded, recomputed);
                let away: Vec<bool> = kinds.iter().map(|kind| *kind == Kind::Offloaded).collect();
                let steps = carry_out(problem, &chain, &schedule(&kinds), &away);
                // What a stage leaves out is made again, whatever the shares.
                if steps.iter().any(|step| matches!(step, Step::Again(_))) {
                    needs_recompute(problem)?;
                }
                fastest.tried(evaluator.evaluate_steps(&steps), steps);
            }
        }
        Ok(Decided::from_steps(problem, fastest.found(problem)?, Policy::EARLY))
    }

    fn uses(&self) -> Allowed {
        Allowed::WITHOUT_CODECS
    }
}

/// Kinds of the layers, each spread evenly: what has fallen behind its share the most comes next.
fn spread(layers: usize, offloaded: usize, recomputed: usize) -> Vec<Kind> {
    let shares = [
        (Kind::Recomputed, recomputed),
        (Kind::Offloaded, offloaded),
        (Kind::Kept, PARTS - offloaded - recomputed),
    ];
    let mut given = [0usize; 3];
    let mut kinds = Vec::with_capacity(layers);
    for layer in 1..=layers {
        // Compared in parts of a layer; the first kind among equals.
        let behind = |i: usize| (shares[i].1 * layer) as i64 - (given[i] * PARTS) as i64;
        let next = (0..3).rev().max_by_key(|i| behind(*i)).expect("there are kinds");
        given[next] += 1;
        kinds.push(shares[next].0);
    }
    kinds
}

/// Forward once, then backward, each recomputed layer running forward again just before.
fn schedule(kinds: &[Kind]) -> Vec<ChainOp> {
    let last = kinds.len() - 1;
    let is_recomputed = |stage: usize| kinds[stage] == Kind::Recomputed && stage != last;
    let forward = (0..=last).map(|stage| {
        let keep = if is_recomputed(stage) { Keep::InputAndOutput } else { Keep::All };
        ChainOp::Forward { stage, keep }
    });
    let backward = (0..=last).rev().flat_map(|stage| {
        let again = ChainOp::Forward { stage, keep: Keep::All };
        let again = is_recomputed(stage).then_some(again);
        again.into_iter().chain([ChainOp::Backward { stage }])
    });
    forward.chain(backward).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_spread_evenly_and_in_their_shares() {
        let letters = |kinds: Vec<Kind>| -> String {
            let letter = |kind| match kind {
                Kind::Kept => 'k',
                Kind::Offloaded => 'o',
                Kind::Recomputed => 'r',
            };
            kinds.into_iter().map(letter).collect()
        };
        assert_eq!(letters(spread(8, 2, 4)), "rokrrokr");
        assert_eq!(letters(spread(12, 0, 2)), "krkkkrkkkrkk");
        assert_eq!(letters(spread(5, 8, 0)), "ooooo");
    }
}
