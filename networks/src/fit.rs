//! Fits efficiencies on recordings, and says how far the modelled times then are from them.

use std::collections::BTreeMap;

use schema::{Compute as DeviceCompute, Machine, Nanos, Op, OpKind, Phase, Trace};

use super::class::Class;
use super::conventions::Conventions;
use super::efficiency::{Efficiencies, Efficiency};
use super::layer::Network;
use super::work::Work;

/// A recording, and what it is a recording of.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The recorded iteration.
    pub recorded: &'a Trace,
    /// The same network at the same batch. Without one only matrix products are compared, whose
    /// operations follow from the sizes of their operands.
    pub network: Option<&'a Network>,
    /// The machine that it was recorded on.
    pub machine: &'a Machine,
}

/// Fitted efficiencies, and how far off they leave each recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The efficiencies.
    pub efficiencies: Efficiencies,
    /// One a sample, in their order.
    pub residuals: Vec<Residual>,
}

/// How far modelled times are from recorded ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// The recorded network.
    pub network: String,
    /// The device.
    pub device: String,
    /// How many recorded ops were compared, of how many.
    pub compared: (usize, usize),
    /// Recorded time of the ops that were compared.
    pub recorded: Nanos,
    /// Their modelled time.
    pub modelled: Nanos,
    /// Median over the ops of |modelled - recorded| / recorded.
    pub median_error: f64,
}

impl std::fmt::Display for Residual {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (compared, all) = self.compared;
        let off = 100.0 * (self.modelled.0 as f64 / self.recorded.0.max(1) as f64 - 1.0);
        write!(
            f,
            "{} on {}: {compared} of {all} ops, recorded {}, modelled {} ({off:+.1} %), \
             median error of an op {:.1} %",
            self.network,
            self.device,
            self.recorded,
            self.modelled,
            100.0 * self.median_error
        )
    }
}

/// A recorded op, and the modelled ops that do the same.
struct Pair {
    works: Vec<Work>,
    recorded: Nanos,
    device: DeviceCompute,
    /// So that a recording with many ops counts no more than one with few.
    weight: f64,
}

/// Fits efficiencies so that, over all samples, the sum of |ln(modelled / recorded)| is small,
/// each op weighted by the root of its time and each recording alike. Classes that no sample has
/// keep what `from` says.
pub fn fit_efficiencies(samples: &[Sample<'_>], from: &Efficiencies) -> Fit {
    let mut pairs = Vec::new();
    for sample in samples {
        let mut own = paired(sample);
        let total: f64 = own.iter().map(|pair| pair.weight).sum();
        own.iter_mut().for_each(|pair| pair.weight /= total);
        pairs.extend(own);
    }
    let depths = [0.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0];
    let fits = depths.map(|half_depth| {
        let mut fitted = Efficiencies { half_depth, ..from.clone() };
        // A recorded op may stand for ops of two classes, which so depend on each other.
        for _ in 0..4 {
            for class in Class::all() {
                fit_class(class, &pairs, &mut fitted);
            }
        }
        (cost(pairs.iter(), &fitted), fitted)
    });
    let best = fits.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut efficiencies = best.map_or_else(|| from.clone(), |(_, fitted)| fitted);
    name_sources(samples, &pairs, &mut efficiencies);
    let residuals = samples.iter().map(|sample| residual(sample, &efficiencies)).collect();
    Fit { efficiencies, residuals }
}

/// How far modelled times are from a recording.
pub fn residual(sample: &Sample<'_>, efficiencies: &Efficiencies) -> Residual {
    let pairs = paired(sample);
    let times: Vec<(Nanos, Nanos)> =
        pairs.iter().map(|pair| (pair.recorded, pair.modelled(efficiencies))).collect();
    let error = |(recorded, modelled): &(Nanos, Nanos)| {
        (modelled.0.abs_diff(recorded.0)) as f64 / recorded.0.max(1) as f64
    };
    let mut errors: Vec<f64> = times.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    Residual {
        network: sample.recorded.title(),
        device: sample.machine.device.name.clone(),
        compared: (pairs.len(), sample.recorded.ops.len()),
        recorded: times.iter().map(|(recorded, _)| *recorded).sum(),
        modelled: times.iter().map(|(_, modelled)| *modelled).sum(),
        median_error: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
    }
}

impl Pair {
    fn modelled(&self, efficiencies: &Efficiencies) -> Nanos {
        self.works.iter().map(|work| efficiencies.time(work, &self.device)).sum()
    }

    fn cost(&self, efficiencies: &Efficiencies) -> f64 {
        let modelled = self.modelled(efficiencies).0.max(1) as f64;
        self.weight * (modelled / self.recorded.0.max(1) as f64).ln().abs()
    }
}

fn cost<'a>(pairs: impl Iterator<Item = &'a Pair>, efficiencies: &Efficiencies) -> f64 {
    pairs.map(|pair| pair.cost(efficiencies)).sum()
}

/// Tries shares in steps of a twelfth, keeping those that fit best and, where several fit as
/// well, the ones nearest to what was there.
fn fit_class(class: Class, pairs: &[Pair], fitted: &mut Efficiencies) {
    let name = class.name();
    let own: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.works.iter().any(|work| work.class == class)).collect();
    let Some(was) = fitted.class.get(&name).cloned() else { return };
    if own.is_empty() || class == Class::View {
        return;
    }
    let steps: Vec<f64> =
        (0..48).map(|step| (20.0 * 1.09_f64.powi(step)).round() / 1000.0).collect();
    // What is no product is bound by memory. A product of matrices that is bound by memory is one
    // with a vector, which no recording has: those in recordings that seem so are just small.
    let product = own.iter().flat_map(|pair| &pair.works).any(|work| work.depth > 0);
    let computes = if product { steps.clone() } else { vec![was.compute] };
    let bandwidths = if class == Class::Matrix { vec![was.bandwidth] } else { steps };
    let mut best = (f64::INFINITY, was.clone());
    for compute in computes {
        for bandwidth in bandwidths.iter().copied().filter(|share| *share <= 1.0) {
            let far = (compute / was.compute).ln().abs() + (bandwidth / was.bandwidth).ln().abs();
            let candidate = Efficiency { compute, bandwidth, source: was.source.clone() };
            fitted.class.insert(name.clone(), candidate.clone());
            let cost = cost(own.iter().copied(), fitted) + 1e-4 * far;
            if cost < best.0 {
                best = (cost, candidate);
            }
        }
    }
    fitted.class.insert(name, best.1);
}

/// Says of each class that was fitted how many ops it was fitted on, and what on.
fn name_sources(samples: &[Sample<'_>], pairs: &[Pair], fitted: &mut Efficiencies) {
    fitted.recordings = (samples.iter())
        .map(|sample| format!("{} on {}", sample.recorded.title(), sample.machine.device.name))
        .collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for work in pairs.iter().flat_map(|pair| &pair.works).filter(|work| work.class != Class::View) {
        *counts.entry(work.class.name()).or_default() += 1;
    }
    for (class, efficiency) in &mut fitted.class {
        if let Some(count) = counts.get(class) {
            efficiency.source = format!("fitted on {count} ops of the recordings");
        }
    }
}

/// Finds for recorded ops the modelled ones. Ops of one kind and phase come in one order in both;
/// where the recording has one op for the two backward ops of a layer, both stand for it. Kinds
/// that the recording has more or fewer of (additions of gradients, say) are left out.
fn paired(sample: &Sample<'_>) -> Vec<Pair> {
    let device = &sample.machine.device.compute;
    let pair = |op: &Op, works| Pair {
        works,
        recorded: op.duration,
        device: device.clone(),
        weight: (op.duration.0 as f64).sqrt(),
    };
    // The loss is one op here, and several or none in recordings.
    let compared = |op: &&Op| op.duration.0 > 0 && op.kind != OpKind::Loss;
    let recorded_ops = || sample.recorded.ops.iter().filter(compared);
    let Some(network) = sample.network else {
        let products = recorded_ops().filter(|op| op.kind == OpKind::MatrixProduct);
        let sized = |op| product_from_sizes(sample.recorded, op).map(|work| pair(op, vec![work]));
        return products.filter_map(sized).collect();
    };
    let tape = network.lower(&Conventions::PYTORCH).tape;
    // Modelled ops by kind and phase, with the layer that each belongs to.
    let mut modelled: BTreeMap<String, Vec<(String, Work)>> = BTreeMap::new();
    for op in tape.ops() {
        let work = &op.work;
        let idle = work.flops == 0 && work.bytes == 0;
        if !idle {
            let layer = op.name.trim_end_matches("_param_grad").trim_end_matches("_ip_grad");
            let group = modelled.entry(group(work.kind, op.phase)).or_default();
            group.push((layer.to_string(), *work));
        }
    }
    let mut recorded: BTreeMap<String, Vec<&Op>> = BTreeMap::new();
    // An op that takes no longer than a launch does nothing: the gradient of the images, say.
    for op in recorded_ops().filter(|op| op.duration.0 > 4_000 && op.kind != OpKind::View) {
        recorded.entry(group(op.kind, op.phase)).or_default().push(op);
    }
    let mut pairs = Vec::new();
    for (group, ops) in recorded {
        let Some(works) = modelled.remove(&group) else { continue };
        if works.len() == ops.len() {
            pairs.extend(ops.iter().zip(works).map(|(op, (_, work))| pair(op, vec![work])));
            continue;
        }
        let mut layers: Vec<(String, Vec<Work>)> = Vec::new();
        for (layer, work) in works {
            match layers.last_mut() {
                Some((last, works)) if *last == layer => works.push(work),
                _ => layers.push((layer, vec![work])),
            }
        }
        if layers.len() == ops.len() {
            pairs.extend(ops.iter().zip(layers).map(|(op, (_, works))| pair(op, works)));
        }
    }
    pairs
}

fn group(kind: OpKind, phase: Phase) -> String {
    let phase = if phase == Phase::Forward { "forward" } else { "backward" };
    format!("{kind:?} {phase}")
}

/// The work of a product of two matrices in 32 bits. With m·k, k·n and m·n elements in operands
/// and result, m·k·n is the root of their product.
fn product_from_sizes(trace: &Trace, op: &Op) -> Option<Work> {
    let size = |id: &schema::TensorId| trace.tensors[id.index()].bytes.0 as f64 / 4.0;
    let ([a, b], [c]) = (op.reads.as_slice(), op.writes.as_slice()) else { return None };
    let (a, b, c) = (size(a), size(b), size(c));
    let volume = (a * b * c).sqrt();
    let plain = op.name == "mm" || op.name.ends_with("::mm");
    (plain && c > 0.0).then(|| Work {
        kind: OpKind::MatrixProduct,
        class: Class::Matrix,
        flops: (2.0 * volume) as u64,
        bytes: (4.0 * (a + b + c)) as u64,
        depth: (volume / c) as u64,
        matrix_units: false,
    })
}
