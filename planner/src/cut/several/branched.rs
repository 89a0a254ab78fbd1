//! What is held at a place is there or is not: the programme's shares of it are divided into cases in which one is 0 and
//! in which it is 1, and these again (branch and bound; Land and Doig, 1960).
//!
//! Every plan is in one of the two cases of each share that is divided, so that no plan beats the least bound of all
//! cases that are not divided further: these hold all plans, whichever are divided and whenever that ends. Where tensors may
//! be copied, what is held may be a part (`several.rs`), and nothing is divided.

use super::climb::{Climb, How, climb};
use super::programme::Programme;

/// For how long the prices of a case need not get better.
const PATIENCE: usize = 4;

/// So many times the least bound is more than enough for a case: others come first. What no plan does has no highest bound.
const ENOUGH: f64 = 2.0;

/// A share is not divided that is as near to 0 or 1 as this.
const WHOLE: f64 = 0.01;

/// It is given up when as many divisions have raised the bound by less than this part of it.
const DIVISIONS: usize = 16;
const RAISED: f64 = 1e-3;

/// A case: which shares are 0 or 1 in it, the best prices that were met, and the bound at these.
struct Case {
    whole: Vec<(u32, f64)>,
    found: Climb,
    bound: u64,
    /// Whether its prices were looked for, or are those of the case that it is a part of.
    is_priced: bool,
}

impl Case {
    /// With its shares 0 or 1, does something with the programme.
    fn within<T>(&self, programme: &mut Programme, act: impl FnOnce(&Programme) -> T) -> T {
        for (share, value) in &self.whole {
            programme.limits[*share as usize] = [*value; 2];
        }
        let result = act(programme);
        for (share, _) in &self.whole {
            programme.limits[*share as usize] = [0.0, 1.0];
        }
        result
    }

    /// The share of what is held of which there is most to decide: as many bytes as possible at as high a price, far from
    /// both 0 and 1.
    fn most_divided(&self, programme: &Programme) -> Option<u32> {
        let places = programme.stores.iter().zip(&self.found.stores).take(programme.places.len());
        let shares = places.flat_map(|(store, price)| {
            let worth = price / store.unit as f64;
            store.takes.iter().map(move |(share, bytes)| (*share, worth * *bytes as f64))
        });
        let divided = shares.filter_map(|(share, worth)| {
            let value = self.found.shares[share as usize];
            let apart = value.min(1.0 - value);
            (apart > WHOLE).then_some((share, worth * apart))
        });
        divided.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(share, _)| share)
    }

    fn with(&self, programme: &mut Programme, share: u32, value: f64) -> Self {
        let mut part = Self {
            whole: [&self.whole[..], &[(share, value)]].concat(),
            found: self.found.clone(),
            bound: self.bound,
            is_priced: false,
        };
        part.found.shares[share as usize] = value;
        let found = &part.found;
        let bound = part.within(programme, |of| of.bound(&found.rows, &found.stores));
        part.bound = bound.max(self.bound);
        part
    }
}

/// Raises a bound by dividing cases, as long as it may go on with the work that is left and something comes of it.
pub(super) fn branched(
    programme: &mut Programme,
    found: &Climb,
    bound: u64,
    (work, proceed): (&mut usize, &dyn Fn(usize) -> bool),
) -> u64 {
    let found = found.clone();
    let mut cases = vec![Case { whole: Vec::new(), found, bound, is_priced: true }];
    let mut known = [bound; DIVISIONS];
    let mut divisions = 0;
    loop {
        let lowest = (0..cases.len()).min_by_key(|case| cases[*case].bound);
        let Some(mut case) = lowest.map(|lowest| cases.swap_remove(lowest)) else { return bound };
        let least = case.bound;
        if !proceed(*work) {
            return least;
        }
        if !case.is_priced {
            let mut found = case.found.clone();
            case.bound = case.within(programme, |of| {
                let how = How { patience: PATIENCE, enough: ENOUGH * least as f64 };
                climb(of, &mut found, how, (&mut *work, proceed));
                of.bound(&found.rows, &found.stores).max(least)
            });
            (case.found, case.is_priced) = (found, true);
            cases.push(case);
            continue;
        }
        let Some(share) = case.most_divided(programme) else { return least };
        let before = std::mem::replace(&mut known[divisions % DIVISIONS], least);
        if divisions >= DIVISIONS && ((least - before) as f64) < RAISED * least as f64 {
            return least;
        }
        divisions += 1;
        cases.extend([0.0, 1.0].map(|value| case.with(programme, share, value)));
    }
}
