//! Pairs recorded ops with modelled ones, which efficiencies are fitted on.

use std::collections::BTreeMap;

use schema::{Compute as DeviceCompute, Machine, Nanos, Op, OpKind, Phase, Trace};

use super::class::Class;
use super::conventions::Conventions;
use super::efficiency::Efficiencies;
use super::layer::Network;
use super::work::{ProductExtents, Units, Work};

/// A recording, and what it is a recording of.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The recorded iteration.
    pub recorded: &'a Trace,
    /// The same network at the same batch. Without one only matrix products are compared, whose
    /// operations follow from the sizes of their operands.
    pub network: Option<&'a Network>,
    /// How the framework that was recorded cuts the network into ops.
    pub by: &'a Conventions,
    /// The machine that it was recorded on.
    pub machine: &'a Machine,
}

/// Recorded time of ops, and what they are modelled by.
#[derive(Debug, Clone)]
pub struct Timed {
    /// What was done, and how often.
    pub works: Vec<(Work, u32)>,
    /// Ops that the host launched for it, where it did not wait for each.
    pub dispatched: u32,
    /// What it took.
    pub recorded: Nanos,
    /// What it ran on.
    pub device: DeviceCompute,
    /// Which recording it is of: each counts alike.
    pub recording: usize,
}

impl Timed {
    fn one(works: Vec<Work>, recorded: Nanos, device: &DeviceCompute) -> Self {
        let works = works.into_iter().map(|work| (work, 1)).collect();
        Self { works, dispatched: 0, recorded, device: device.clone(), recording: 0 }
    }

    /// What the model says.
    pub fn modelled(&self, by: &Efficiencies) -> Nanos {
        let time = |(work, count): &(Work, u32)| by.secs(work, &self.device) * f64::from(*count);
        let device: f64 = self.works.iter().map(time).sum();
        let host = f64::from(self.dispatched) * by.dispatch_ns as f64 * 1e-9;
        Nanos((device.max(host) * 1e9).round() as u64)
    }
}

/// Finds for recorded ops the modelled ones. Ops of one kind and phase come in one order in both;
/// where the recording has one op for the two backward ops of a layer, both stand for it. Kinds
/// that the recording has more or fewer of (additions of gradients, say) are left out.
pub fn timed_ops(sample: &Sample<'_>) -> Vec<Timed> {
    let device = &sample.machine.device.compute;
    let pair = |op: &Op, works| Timed::one(works, op.duration, device);
    // The loss is one op here, and several or none in recordings.
    let compared = |op: &&Op| op.duration.0 > 0 && op.kind != OpKind::Loss;
    let recorded_ops = || sample.recorded.ops.iter().filter(compared);
    let Some(network) = sample.network else {
        let products = recorded_ops().filter(|op| op.kind == OpKind::MatrixProduct);
        let sized = |op| product_from_sizes(sample.recorded, op).map(|work| pair(op, vec![work]));
        return products.filter_map(sized).collect();
    };
    let tape = network.lower(sample.by).tape;
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
    (plain && c > 0.0).then(|| {
        let (kind, class) = (OpKind::MatrixProduct, Class::Matrix);
        let work = Work::new(kind, class, (2.0 * volume) as u64, (4.0 * (a + b + c)) as u64);
        let [rows, depth, columns] =
            [volume / b, volume / c, volume / a].map(|extent| extent as u64);
        work.of_product(ProductExtents { count: 1, rows, columns, depth }, Units::Vectors)
    })
}
