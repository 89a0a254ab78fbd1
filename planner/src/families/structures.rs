//! The structures.

use schema::TensorId;

use super::Family;
use super::tape::{Tape, Work};

/// Part of the ops that are forward where backward follows once.
const FORWARD: f64 = 0.3;

pub(super) const ALL: &[Family] = &[
    Family {
        name: "chain",
        description: "one op after the other",
        build: |tape| once(tape, |tape, x| until(tape, FORWARD, x, Tape::any)),
    },
    Family {
        name: "residual",
        description: "blocks with a way around each",
        build: |tape| once(tape, |tape, x| until(tape, FORWARD, x, residual)),
    },
    Family {
        name: "dense",
        description: "blocks in which each op reads all before it",
        build: |tape| once(tape, |tape, x| until(tape, FORWARD, x, dense)),
    },
    Family {
        name: "u-shaped",
        description: "down to small tensors and up again, with ways across",
        build: |tape| once(tape, u_shaped),
    },
    Family {
        name: "branches",
        description: "branches of unequal length that are joined",
        build: |tape| once(tape, |tape, x| until(tape, FORWARD, x, branches)),
    },
    Family {
        name: "recurrent",
        description: "one cell over many steps of time, with a loss at each",
        build: |tape| once(tape, recurrent),
    },
    Family {
        name: "tree",
        description: "one cell over trees, from the leaves to the root",
        build: |tape| once(tape, tree),
    },
    Family {
        name: "several-phases",
        description: "an adversarial pair: forward and backward in turns",
        build: several_phases,
    },
    Family {
        name: "unrolled",
        description: "a loss of what some steps of an optimizer lead to",
        build: unrolled,
    },
    Family {
        name: "second-order",
        description: "a penalty on gradients: backward through backward",
        build: second_order,
    },
    Family {
        name: "shared-weights",
        description: "transformer layers that have the same weights",
        build: |tape| once(tape, shared_weights),
    },
    Family {
        name: "experts",
        description: "transformer layers, some of whose parts see a part of the tokens each",
        build: |tape| once(tape, |tape, x| until(tape, FORWARD, x, experts)),
    },
    Family {
        name: "series-parallel",
        description: "in a row and side by side, at random, one within the other",
        build: |tape| once(tape, |tape, x| until(tape, FORWARD, x, |tape, x| nested(tape, x, 5))),
    },
    Family {
        name: "random",
        description: "ops that read anything, most of it made lately",
        build: |tape| once(tape, random),
    },
];

/// One forward phase, one backward phase, and the updates.
fn once(tape: &mut Tape, forward: impl Fn(&mut Tape, TensorId) -> TensorId) {
    let x = tape.input();
    let result = forward(tape, x);
    tape.backward(0, result, false);
    tape.update();
}

/// Block after block until there are so many ops.
fn until(
    tape: &mut Tape,
    share: f64,
    mut x: TensorId,
    block: impl Fn(&mut Tape, TensorId) -> TensorId,
) -> TensorId {
    loop {
        x = block(tape, x);
        if tape.random.below(12) == 0 {
            let factor = [0.5, 0.7, 1.4][tape.random.below(3) as usize];
            tape.scale(factor);
        }
        if tape.has(share) {
            return x;
        }
    }
}

/// So many ops in a row.
fn exactly(tape: &mut Tape, x: TensorId, count: usize) -> TensorId {
    (0..count).fold(x, |x, _| tape.any(x))
}

/// Some ops in a row.
fn row(tape: &mut Tape, x: TensorId, most: u64) -> TensorId {
    let count = 1 + tape.random.below(most) as usize;
    exactly(tape, x, count)
}

fn residual(tape: &mut Tape, x: TensorId) -> TensorId {
    let around = x;
    let x = row(tape, x, 6);
    let sum = tape.apply(Work::Join, &[around, x]);
    tape.apply(Work::Pointwise, &[sum])
}

fn dense(tape: &mut Tape, x: TensorId) -> TensorId {
    let mut all = vec![x];
    for _ in 0..3 + tape.random.below(9) {
        let joined = tape.apply(Work::Join, &all);
        let normed = tape.apply(Work::Norm, &[joined]);
        let active = tape.apply(Work::Pointwise, &[normed]);
        all.push(tape.apply(Work::Dear, &[active]));
    }
    let joined = tape.apply(Work::Join, &all);
    tape.apply(Work::Dear, &[joined])
}

fn u_shaped(tape: &mut Tape, x: TensorId) -> TensorId {
    let levels = 3 + tape.random.below(4);
    let each = (FORWARD * tape.ops as f64 / (3.0 * levels as f64)) as usize;
    let (mut x, mut across) = (x, Vec::new());
    tape.scale(4.0);
    for _ in 0..levels {
        x = exactly(tape, x, each + 1);
        across.push(x);
        tape.scale(0.4);
    }
    while let Some(other) = across.pop() {
        x = exactly(tape, x, each / 2 + 1);
        tape.scale(2.5);
        x = tape.apply(Work::Join, &[x, other]);
        x = exactly(tape, x, each / 2 + 1);
    }
    x
}

fn branches(tape: &mut Tape, x: TensorId) -> TensorId {
    let ends: Vec<TensorId> = (0..2 + tape.random.below(4)).map(|_| row(tape, x, 6)).collect();
    tape.apply(Work::Join, &ends)
}

fn recurrent(tape: &mut Tape, x: TensorId) -> TensorId {
    let weights = [tape.parameter(), tape.parameter()];
    let (mut state, mut losses) = (x, Vec::new());
    tape.scale(0.2);
    loop {
        let token = tape.input();
        state = cell(tape, &weights, &[state, token]);
        if tape.random.below(4) == 0 {
            losses.push(tape.apply(Work::Pointwise, &[state]));
        }
        if tape.has(FORWARD) {
            losses.push(state);
            return tape.apply(Work::Join, &losses);
        }
    }
}

/// A cell with gates.
fn cell(tape: &mut Tape, weights: &[TensorId; 2], inputs: &[TensorId]) -> TensorId {
    let gates = tape.apply_with(Work::Dear, inputs, Some(weights[0]));
    let gate = tape.apply(Work::Pointwise, &[gates]);
    let candidate = tape.apply_with(Work::Dear, &[gate, inputs[0]], Some(weights[1]));
    let candidate = tape.apply(Work::Pointwise, &[candidate]);
    tape.apply(Work::Join, &[inputs[0], candidate])
}

fn tree(tape: &mut Tape, x: TensorId) -> TensorId {
    let weights = [tape.parameter(), tape.parameter()];
    tape.scale(0.2);
    let mut roots = vec![x];
    while !tape.has(FORWARD) {
        let mut level: Vec<TensorId> =
            (0..2 + tape.random.below(30)).map(|_| tape.input()).collect();
        while level.len() > 1 {
            // Trees are not balanced.
            let at = tape.random.below(level.len() as u64 - 1) as usize;
            let pair = [level[at], level.remove(at + 1)];
            level[at] = cell(tape, &weights, &pair);
        }
        roots.extend(level);
    }
    tape.apply(Work::Join, &roots)
}

fn several_phases(tape: &mut Tape) {
    let x = tape.input();
    let generated = until(tape, 0.1, x, residual);
    let length = 1 + tape.ops / 10;
    let since = tape.mark();
    let judged = exactly(tape, generated, length);
    tape.backward(since, judged, false);
    let (since, real) = (tape.mark(), tape.input());
    let judged = exactly(tape, real, length);
    tape.backward(since, judged, false);
    tape.update();
    let judged = exactly(tape, generated, length);
    tape.backward(0, judged, false);
    tape.update();
}

fn unrolled(tape: &mut Tape) {
    let x = tape.input();
    let mut x = tape.any(x);
    while !tape.has(0.4) {
        let since = tape.mark();
        let result = row(tape, x, 20);
        let gradients = tape.backward(since, result, true);
        // What the step starts from moves along its gradient.
        let gradient = gradients.get(&x).copied();
        let moved: Vec<TensorId> = [Some(x), gradient].into_iter().flatten().collect();
        x = tape.apply(Work::Join, &moved);
    }
    tape.backward(0, x, false);
    tape.update();
}

fn second_order(tape: &mut Tape) {
    let samples = tape.input();
    let first = tape.any(samples);
    let result = until(tape, 0.15, first, residual);
    let gradients = tape.backward(1, result, true);
    let penalty = gradients.get(&first).copied().unwrap_or(result);
    let loss = tape.apply(Work::Join, &[result, penalty]);
    tape.backward(0, loss, false);
    tape.update();
}

/// Attention: products, and a large table of scores between them.
fn attention(tape: &mut Tape, x: TensorId, weights: &[TensorId]) -> TensorId {
    let normed = tape.apply(Work::Norm, &[x]);
    let heads: Vec<TensorId> =
        (0..3).map(|at| tape.apply_with(Work::Dear, &[normed], weights.get(at).copied())).collect();
    tape.scale(4.0);
    let scores = tape.apply_with(Work::Dear, &heads[..2], None);
    let scores = tape.apply(Work::Pointwise, &[scores]);
    tape.scale(0.25);
    let mixed = tape.apply_with(Work::Dear, &[scores, heads[2]], None);
    tape.apply(Work::Join, &[x, mixed])
}

fn feed_forward(tape: &mut Tape, x: TensorId, weights: &[TensorId]) -> TensorId {
    tape.scale(3.0);
    let wide = tape.apply_with(Work::Dear, &[x], weights.first().copied());
    let active = tape.apply(Work::Pointwise, &[wide]);
    tape.scale(1.0 / 3.0);
    tape.apply_with(Work::Dear, &[active], weights.get(1).copied())
}

fn shared_weights(tape: &mut Tape, x: TensorId) -> TensorId {
    let weights: Vec<TensorId> = (0..5).map(|_| tape.parameter()).collect();
    let mut x = x;
    while !tape.has(FORWARD) {
        x = attention(tape, x, &weights[..3]);
        let part = feed_forward(tape, x, &weights[3..]);
        x = tape.apply(Work::Join, &[x, part]);
    }
    x
}

fn experts(tape: &mut Tape, x: TensorId) -> TensorId {
    let weights: Vec<TensorId> = (0..3).map(|_| tape.parameter()).collect();
    let x = attention(tape, x, &weights);
    let routed = tape.apply(Work::Pointwise, &[x]);
    let count = 2 + tape.random.below(6);
    tape.scale(1.0 / count as f64);
    let mut parts = vec![x];
    for _ in 0..count {
        let weights = [tape.parameter(), tape.parameter()];
        parts.push(feed_forward(tape, routed, &weights));
    }
    tape.scale(count as f64);
    tape.apply(Work::Join, &parts)
}

fn nested(tape: &mut Tape, x: TensorId, depth: u64) -> TensorId {
    match (depth, tape.random.below(3)) {
        (0, _) | (_, 0) => tape.any(x),
        (_, 1) => {
            let x = nested(tape, x, depth - 1);
            nested(tape, x, depth - 1)
        }
        _ => {
            let ends = [nested(tape, x, depth - 1), nested(tape, x, depth - 1)];
            tape.apply(Work::Join, &ends)
        }
    }
}

/// So many tensors an op joins at most: its backward op reads and makes as many.
const JOINED: usize = 1000;

fn random(tape: &mut Tape, x: TensorId) -> TensorId {
    let mut made = vec![x];
    let mut unread = vec![x];
    while !tape.has(FORWARD) {
        let mut inputs = Vec::new();
        for _ in 0..1 + tape.random.below(3) {
            let lately = if tape.random.below(4) == 0 { made.len() } else { made.len().min(6) };
            let input = made[made.len() - 1 - tape.random.below(lately as u64) as usize];
            if !inputs.contains(&input) {
                inputs.push(input);
            }
        }
        let work = [Work::Dear, Work::Pointwise, Work::Norm, Work::Join];
        let work = work[tape.random.below(4) as usize];
        unread.retain(|t| !inputs.contains(t));
        let output = tape.apply(work, &inputs);
        made.push(output);
        unread.push(output);
    }
    unread.retain(|t| *t != x);
    while unread.len() > JOINED {
        unread = unread.chunks(JOINED).map(|part| tape.apply(Work::Join, part)).collect();
    }
    tape.apply(Work::Join, &unread)
}
