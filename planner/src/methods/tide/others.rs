//! What other methods decide, where they take little time.

use super::packed::Packed;
use crate::Allowed;
use crate::fit::share;
use crate::method::DECIDED_PERMILLE;
use crate::method::Method;
use crate::methods::{Capuchin, Dtr, Pooch, Selective};

/// On traces of at most so many ops, PooCH takes little time.
const FEW_OPS: usize = 3000;

/// On traces of at most so many ops, every method does.
const SHORT: usize = 200;

/// Shares of the memory, in thousandths, for which a method decides until that can be packed.
const ROOMS: [u64; 4] = [1000, 990, 980, 965];

/// The part of the effort that goes into reruns alone where a plan may copy or compress, too.
const LESS_EFFORT: u64 = 4;

impl Packed<'_> {
    /// Tries sequences without codecs, reruns alone, what DTR does, and what Capuchin, selective
    /// checkpointing and, on traces that are not too long, PooCH decide: where little has to leave
    /// they are near the best, and what they find may have addresses where what a search found has
    /// none. On short traces, where little is lost by any accident of rounding, all are tried.
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
        let ops = self.problem.trace.ops.len();
        let quick: [(Box<dyn Method>, &[u64]); 3] = [
            (Box::new(Capuchin), &ROOMS),
            (Box::new(Selective), &ROOMS),
            (Box::new(Dtr), &DECIDED_PERMILLE),
        ];
        let pooch =
            (ops <= FEW_OPS).then(|| (Box::new(Pooch) as Box<dyn Method>, &ROOMS as &[u64]));
        let is_left = |method: &dyn Method| {
            let tried = ["tide", "pooch", "capuchin", "selective"];
            !tried.contains(&method.name()) && !method.only_on_request()
        };
        let all = if ops <= SHORT { super::super::all() } else { Vec::new() };
        let all = all
            .into_iter()
            .filter(|method| is_left(method.as_ref()))
            .map(|method| (method, &ROOMS as &[u64]));
        for (method, rooms) in quick.into_iter().chain(pooch).chain(all) {
            let problem = self.problem.restricted_to(method.restricts(allowed));
            for room in rooms {
                let target = share(self.target, *room);
                let Ok(decided) = method.decide(&problem, target, self.monitor) else { break };
                if self.lower(decided.taken_from(method.name())) {
                    break;
                }
            }
        }
    }
}
