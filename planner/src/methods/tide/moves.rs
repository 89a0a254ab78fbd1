//! What a search tries next.

use simulator::{GapId, Treatment};

use super::options::Options;
use crate::split_mix::SplitMix;

/// Treatments that one move changes at most.
pub(super) const MOST: usize = 3;

/// Draws that look for a gap of some kind, before any gap will do.
const DRAWS: u32 = 12;

/// Gaps that begin about as early, by their places in the list.
const NEAR: u64 = 24;

/// Changes one to three treatments, and notes what they were.
///
/// Mostly one gap is given up and another one is kept in its place, of those that begin about as
/// early or of all: on the edge of what fits, anything else takes too much memory or frees some
/// that nobody uses.
pub(super) fn change(
    options: &Options,
    random: &mut SplitMix,
    treatments: &mut [Treatment],
    undo: &mut Vec<(GapId, Treatment)>,
) {
    let all = options.all();
    let count = all.len() as u64;
    let kind = random.below(8);
    let first = options.draw(random);
    let drawn = other(&all[first].1, treatments[all[first].0], random);
    let was = replace(options, treatments, undo, first, drawn);
    if kind < 3 {
        return;
    }
    let (wanted, near) = match (was, drawn) {
        // What was given up is kept, or the other way round: the opposite elsewhere.
        (Treatment::Keep, _) => (false, random.below(2) == 0),
        (_, Treatment::Keep) => (true, random.below(2) == 0),
        // One way for another: any other change.
        _ => (random.below(2) == 0, random.below(2) == 0),
    };
    for draw in 0..DRAWS {
        let second = match near {
            true => {
                let from = (first as u64).saturating_sub(NEAR);
                let end = (first as u64 + NEAR + 1).min(count);
                (from + random.below(end - from)) as usize
            }
            false => options.draw(random),
        };
        let is_kept = treatments[all[second].0] == Treatment::Keep;
        if second == first || (is_kept != wanted && draw + 1 < DRAWS) {
            continue;
        }
        let to = match is_kept {
            true => other(&all[second].1, Treatment::Keep, random),
            false => Treatment::Keep,
        };
        replace(options, treatments, undo, second, to);
        break;
    }
    if kind == 7 {
        let third = random.below(count) as usize;
        let to = other(&all[third].1, treatments[all[third].0], random);
        replace(options, treatments, undo, third, to);
    }
}

fn replace(
    options: &Options,
    treatments: &mut [Treatment],
    undo: &mut Vec<(GapId, Treatment)>,
    index: usize,
    treatment: Treatment,
) -> Treatment {
    let gap = options.all()[index].0;
    let was = std::mem::replace(&mut treatments[gap], treatment);
    undo.push((gap, was));
    was
}

/// Any other treatment.
fn other(options: &[Treatment], than: Treatment, random: &mut SplitMix) -> Treatment {
    let at = options.iter().position(|option| *option == than).unwrap_or(0);
    let drawn = random.below(options.len() as u64 - 1) as usize;
    let drawn = options[if drawn < at { drawn } else { drawn + 1 }];
    match drawn {
        // Few tensors are worth being copied more than once, and those are swapped before.
        Treatment::SwapEachTime if than != Treatment::Swap && random.below(4) > 0 => {
            Treatment::Swap
        }
        _ => drawn,
    }
}
