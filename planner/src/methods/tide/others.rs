//! What other methods decide, where they take little time.

use super::packed::Packed;
use crate::Allowed;
use crate::fit::share;
use crate::method::DECIDED_PERMILLE;
use crate::method::Method;
use crate::methods::{Capuchin, Dtr, Pooch, Selective};

/// On traces of at most so many ops, PooCH takes little time.
const FEW_OPS: usize = 3000;

/// Shares of the memory, in thousandths, for which a method decides until that can be packed.
const ROOMS: [u64; 4] = [1000, 990, 980, 965];

/// The part of the effort that goes into reruns alone where a plan may copy or compress, too.
const LESS_EFFORT: u64 = 4;

impl Packed<'_> {
    /// Tries sequences without codecs, reruns alone, what DTR does, and what Capuchin, selective
    /// checkpointing and, on traces that are not too long, PooCH decide: where little has to leave
    /// they are near the best, and what they find may have addresses where what a search found has
    /// none.
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
        let few = self.problem.trace.ops.len() <= FEW_OPS;
        let quick: [(&dyn Method, &[u64]); 3] =
            [(&Capuchin, &ROOMS), (&Selective, &ROOMS), (&Dtr, &DECIDED_PERMILLE)];
        let pooch = few.then_some((&Pooch as &dyn Method, &ROOMS as &[u64]));
        for (method, rooms) in quick.into_iter().chain(pooch) {
            for room in rooms {
                let target = share(self.target, *room);
                let Ok(decided) = method.decide(self.problem, target, self.monitor) else { break };
                if self.lower(decided.taken_from(method.name())) {
                    break;
                }
            }
        }
    }
}
