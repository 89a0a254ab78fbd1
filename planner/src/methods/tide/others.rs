//! What other methods decide, where they take little time.

use super::packed::Packed;
use super::options::policy;
use crate::cut::lazy;
use crate::decide::{DECIDED_PERMILLE, share};
use crate::methods::{Capuchin, Dtr, Method, Pooch, Selective};
use crate::{Allowed, Decided};

/// On traces of at most so many ops, PooCH takes little time.
const FEW_OPS: usize = 3000;

/// Shares of the memory, in thousandths, for which a method decides until that can be packed.
const ROOMS: [u64; 4] = [1000, 990, 980, 965];

impl Packed<'_> {
    /// Tries the cuts that bound the problem, carried out as they stand. With recomputation alone many fit, and
    /// are then all but as fast as the bound; what fits byte for byte need not have addresses, so they are
    /// made for a little less memory, too.
    pub fn try_cuts(&mut self) {
        let allowed = Allowed { compress: false, ..self.problem.allowed };
        for room in ROOMS {
            let mut problem = self.problem.restricted_to(allowed);
            problem.budget = share(self.target, room);
            for steps in lazy(&problem) {
                let decided = Decided::from_steps(self.problem, steps, policy(self.problem));
                if self.lower(decided) {
                    return;
                }
            }
        }
    }

    /// Tries what DTR does, and what Capuchin, selective checkpointing and, on traces that are not too long, PooCH
    /// decide: where little has to leave they are near the best, and what they find may have
    /// addresses where what a search found has none.
    pub fn try_others(&mut self) {
        let few = self.problem.trace.ops.len() <= FEW_OPS;
        let quick: [(&dyn Method, &[u64]); 3] =
            [(&Capuchin, &ROOMS), (&Selective, &ROOMS), (&Dtr, &DECIDED_PERMILLE)];
        let pooch = few.then_some((&Pooch as &dyn Method, &ROOMS as &[u64]));
        for (method, rooms) in quick.into_iter().chain(pooch) {
            for room in rooms {
                let target = share(self.target, *room);
                let Ok(decided) = method.decide(self.problem, target, self.watch) else { break };
                if self.lower(decided) {
                    break;
                }
            }
        }
    }
}
