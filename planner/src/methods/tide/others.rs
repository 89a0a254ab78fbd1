//! What other methods decide, where they take little time.

use super::packed::Packed;
use crate::decide::share;
use crate::methods::{Capuchin, Method, Pooch, Selective};

/// On traces of at most so many ops, PooCH takes little time.
const FEW_OPS: usize = 3000;

/// Shares of the memory, in thousandths, for which a method decides until that can be packed.
const ROOMS: [u64; 4] = [1000, 990, 980, 965];

impl Packed<'_> {
    /// Tries what Capuchin, selective checkpointing and, on traces that are not too long, PooCH
    /// decide: where little has to leave they are near the best, and what they find may have
    /// addresses where what a search found has none.
    pub fn try_others(&mut self) {
        let few = self.problem.trace.ops.len() <= FEW_OPS;
        let quick: [&dyn Method; 2] = [&Capuchin, &Selective];
        for method in quick.into_iter().chain(few.then_some(&Pooch as &dyn Method)) {
            for room in ROOMS {
                let target = share(self.target, room);
                let Ok(decided) = method.decide(self.problem, target, self.watch) else { break };
                if self.lower(decided) {
                    break;
                }
            }
        }
    }
}
