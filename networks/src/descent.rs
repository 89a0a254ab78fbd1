//! The search for efficiencies: shares of classes, and what all ops have in common, one at a time.

use std::collections::BTreeMap;

use super::class::Class;
use super::efficiency::{Efficiencies, Efficiency, Full};
use super::fit::Timed;

/// Where every search begins, so that what it finds does not depend on what was found before.
const BEGIN: f64 = 0.7;
/// Each share that is tried is so many times the one before, from the smallest on.
const STEP: f64 = 1.04;
const SMALLEST: f64 = 0.01;
/// Launches that a kernel of a class takes beside its work.
const LAUNCHES: [f64; 7] = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0];

/// What all ops have in common stays as it is assumed unless another figure fits better by that share. Without the
/// devices or networks that tell a figure, the rest fits about as well with any, and the least of gains
/// would take it far from what those do that were left out. Of 0, 0.002, 0.005 and 0.01, this had the smallest errors of
/// devices left out of the one half of the recordings that it was chosen on.
const GAIN: f64 = 0.002;

/// What all ops have in common, and what is tried of it.
type Common = (fn(&mut Efficiencies, f64), &'static [f64]);
const COMMON: &[Common] = &[
    (|of, value| of.half_depth = value, &[0.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0]),
    (
        |of, value| of.convolution_half_depth = value,
        &[0.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0],
    ),
    (
        |of, value| of.unit_half_depth = value,
        &[0.0, 16.0, 32.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0],
    ),
    (|of, value| of.waves = value, &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    (|of, value| of.sides = value, &[0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    (|of, value| of.cached = value, &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
    (|of, value| of.convolution_sides = value, &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
    (|of, value| of.untuned = value, &[0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0]),
    (
        |of, value| of.dispatch_ns = value as u64,
        &[4e3, 6e3, 8e3, 12e3, 16e3, 20e3, 25e3, 30e3, 40e3, 50e3],
    ),
];

/// What of a recorded time is one op's.
struct Part {
    class: Class,
    full: Full,
    times: f64,
}

impl Part {
    fn secs(&self, shares: [f64; 3]) -> f64 {
        self.full.secs(shares) * self.times
    }
}

/// A recorded time.
struct Whole {
    parts: Vec<Part>,
    host: f64,
    recorded: f64,
    weight: f64,
}

impl Whole {
    fn cost(&self, device: f64) -> f64 {
        self.weight * (device.max(self.host).max(1e-9) / self.recorded).ln().abs()
    }
}

/// Fits shares of all classes that are in what was timed, and what ops have in common. Other classes keep
/// what `from` says.
pub fn fit_timed(timed: &[Timed], from: &Efficiencies) -> Efficiencies {
    let mut fitted = Efficiencies {
        class: from.class.clone(),
        recordings: from.recordings.clone(),
        ..Efficiencies::assumed()
    };
    let timed: Vec<&Timed> = timed.iter().filter(|timed| timed.recorded.0 > 0).collect();
    let mut counts: BTreeMap<Class, u64> = BTreeMap::new();
    for timed in &timed {
        for (work, times) in &timed.works {
            *counts.entry(work.on(&timed.device).class).or_default() += u64::from(*times);
        }
    }
    counts.remove(&Class::View);
    if counts.is_empty() {
        return fitted;
    }
    for (class, count) in &counts {
        let source = format!("fitted on {count} ops of the recordings");
        fitted
            .class
            .insert(*class, Efficiency { compute: BEGIN, bandwidth: BEGIN, kernels: 1.0, source });
    }
    let weights = weights(&timed);
    let classes: Vec<Class> = counts.into_keys().collect();
    let mut cost = descend(&timed, &weights, &classes, &mut fitted, 4);
    let host = timed.iter().any(|timed| timed.dispatched > 0);
    for _ in 0..2 {
        for (set, values) in COMMON.iter().take(if host { COMMON.len() } else { COMMON.len() - 1 })
        {
            for value in *values {
                let mut other = fitted.clone();
                set(&mut other, *value);
                let its = descend(&timed, &weights, &classes, &mut other, 1);
                if its < cost * (1.0 - GAIN) {
                    (cost, fitted) = (its, other);
                }
            }
        }
        cost = descend(&timed, &weights, &classes, &mut fitted, 2);
    }
    fitted
}

/// Each op by the root of its time, and each recording alike.
fn weights(timed: &[&Timed]) -> Vec<f64> {
    let root = |timed: &Timed| (timed.recorded.0 as f64).sqrt();
    let mut totals: BTreeMap<usize, f64> = BTreeMap::new();
    for timed in timed {
        *totals.entry(timed.recording).or_default() += root(timed);
    }
    timed.iter().map(|timed| root(timed) / totals[&timed.recording]).collect()
}

/// Fits the share of each class in turn, so many times; gives the sum of errors.
fn descend(
    timed: &[&Timed],
    weights: &[f64],
    classes: &[Class],
    fitted: &mut Efficiencies,
    turns: usize,
) -> f64 {
    let mut last = f64::INFINITY;
    for _ in 0..turns {
        let wholes: Vec<Whole> = (timed.iter().zip(weights))
            .map(|(timed, weight)| whole(timed, *weight, fitted))
            .collect();
        let mut shares: BTreeMap<Class, [f64; 3]> = (fitted.class.iter())
            .map(|(class, of)| (*class, [of.compute, of.bandwidth, of.kernels]))
            .collect();
        let mut now: Vec<f64> = wholes
            .iter()
            .map(|of| of.parts.iter().map(|part| part.secs(shares[&part.class])).sum())
            .collect();
        for class in classes {
            let own: Vec<(usize, f64)> = (wholes.iter().enumerate())
                .filter(|(_, whole)| whole.parts.iter().any(|part| part.class == *class))
                .map(|(index, whole)| {
                    let own = whole.parts.iter().filter(|part| part.class == *class);
                    (index, now[index] - own.map(|part| part.secs(shares[class])).sum::<f64>())
                })
                .collect();
            let at = |shares: [f64; 3]| -> f64 {
                let cost = |(index, rest): &(usize, f64)| {
                    let whole = &wholes[*index];
                    let own = whole.parts.iter().filter(|part| part.class == *class);
                    whole.cost(rest + own.map(|part| part.secs(shares)).sum::<f64>())
                };
                own.iter().map(cost).sum()
            };
            let mut best = shares[class];
            for &side in tried(*class) {
                let was = best;
                let mut least = at(was);
                for share in shares_tried(*class, side) {
                    let mut candidate = was;
                    candidate[side] = share;
                    // Of those that fit as well, the nearest to what was.
                    let cost = at(candidate) + 1e-6 * (share / was[side]).ln().abs();
                    if cost < least {
                        (least, best) = (cost, candidate);
                    }
                }
            }
            shares.insert(*class, best);
            for (index, rest) in &own {
                let own = wholes[*index].parts.iter().filter(|part| part.class == *class);
                now[*index] = rest + own.map(|part| part.secs(best)).sum::<f64>();
            }
        }
        for (class, of) in &mut fitted.class {
            [of.compute, of.bandwidth, of.kernels] = shares[class];
        }
        last = wholes.iter().zip(&now).map(|(whole, device)| whole.cost(*device)).sum();
    }
    last
}

/// What is tried of a share of operations, a share of bandwidth, or launches.
///
/// No device reads faster than its memory, nor multiplies matrices in fewer operations than they are counted by:
/// a share beyond the peak would stand for something else, such as a sum's length, and fail where that
/// differs. Convolutions have ways with fewer operations.
fn shares_tried(class: Class, side: usize) -> Vec<f64> {
    let is_product = matches!(class, Class::Matrix | Class::Matrix16 | Class::MatrixTf32);
    let most = [if is_product { 1.0 } else { 2.0 }, 1.0, 0.0][side];
    let steps = (0..).map(|step| (SMALLEST * STEP.powi(step) * 1e3).round() / 1e3);
    match side {
        2 => LAUNCHES.to_vec(),
        _ => steps.take_while(|share| *share <= most).collect(),
    }
}

/// Which shares of a class are looked for. Products that a model takes to be bound by memory are in truth
/// too small for a device, or have a vector; so their bandwidth is left alone. What is no product is bound by
/// memory.
fn tried(class: Class) -> &'static [usize] {
    match class {
        Class::Depthwise(_) | Class::Grouped(_) => &[0, 1, 2],
        Class::Matrix
        | Class::Matrix16
        | Class::MatrixTf32
        | Class::Convolution16
        | Class::ConvolutionTf32
        | Class::Pointwise(_)
        | Class::Square(_)
        | Class::Window(_)
        | Class::Attention(_) => &[0, 2],
        _ => &[1, 2],
    }
}

fn whole(timed: &Timed, weight: f64, by: &Efficiencies) -> Whole {
    let part = |(work, times): &(crate::Work, u32)| {
        let (class, full) = by.full(work, &timed.device);
        Part { class, full, times: f64::from(*times) }
    };
    Whole {
        parts: timed.works.iter().map(part).collect(),
        host: f64::from(timed.dispatched) * by.dispatch_ns as f64 * 1e-9,
        recorded: timed.recorded.0 as f64 * 1e-9,
        weight,
    }
}
