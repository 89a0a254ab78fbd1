//! Training on graphs whose nodes' features lie in host memory.

use planner::inference::{Lookups, Prediction, Staging, choose};
use scenarios::{Graph, GraphTraining, LookupQuantity, LookupStudy, PackedTable};
use schema::Machine;

use super::{LINK, PLAIN, Supposed, cache_of, looked_up, packed_to, sizes, staged};
use crate::Result;

const BOTH: Staging = Staging::ZeroCopy { link: true, cache: true };

/// How a batch's rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// While the batch before is computed, from a cache and from host memory, with rows packed in such places: Legion.
    Beside(Staging),
    /// Before it is computed, from host memory, which DGL reads in aligned lines.
    InTurn,
}

impl Way {
    /// The way that such figures are of, if they are of any.
    pub fn of(of: LookupQuantity) -> Option<Self> {
        match of {
            LookupQuantity::Trained => Some(Self::Beside(BOTH)),
            LookupQuantity::TrainedLink => Some(Self::Beside(LINK)),
            LookupQuantity::TrainedInTurn => Some(Self::InTurn),
            _ => None,
        }
    }
}

/// By how much training gets faster with packed rows: the geometric mean over tables, as the authors' own scripts take
/// it.
pub fn speedup(
    study: &LookupStudy,
    machine: &Machine,
    tables: &[&PackedTable],
    way: Way,
    supposed: Supposed,
) -> Result<Option<f64>> {
    let mut logarithms = Vec::with_capacity(tables.len());
    for table in tables {
        let (Some(graph), Some(training)) = (&table.graph, &study.training) else {
            return Ok(None);
        };
        let (rows, computing) = step(training, graph, table, machine, supposed.arithmetic);
        let cached = table.cached.filter(|_| way != Way::InTurn).unwrap_or(0);
        let lookups = Lookups {
            rows: graph.nodes,
            rows_per_lookup: rows.round() as u64,
            cache: cache_of(table, cached),
            ..looked_up(study, machine, table)
        };
        let spread = sizes(table.row_bytes as f64 / table.ratio, table.row_bytes);
        let choice = choose(&lookups, &[packed_to(spread)])?;
        let plain = match way {
            Way::Beside(_) if supposed.unaligned => Staging::Unaligned,
            _ => PLAIN,
        };
        let in_turn = way == Way::InTurn && !supposed.beside;
        let of_step = |of: &Prediction| {
            let fetching = of.time.0 as f64 / 1e9;
            if in_turn { fetching + computing } else { fetching.max(computing) }
        };
        let packed = match way {
            Way::Beside(staging) => staging,
            Way::InTurn => LINK,
        };
        let [plain, packed] = [plain, packed].map(|way| staged(&choice, way).map(of_step));
        let (Some(plain), Some(packed)) = (plain, packed) else { return Ok(None) };
        logarithms.push((plain / packed).ln());
    }
    let count = logarithms.len() as f64;
    Ok((count > 0.0).then(|| (logarithms.iter().sum::<f64>() / count).exp()))
}

/// How many different nodes so many draws among `nodes` come to, each of any of them alike.
fn different(nodes: f64, draws: f64) -> f64 {
    nodes * (1.0 - (-draws / nodes).exp())
}

/// The rows that a batch reads, and the seconds in which GraphSAGE is trained on it.
///
/// Neighbours are drawn of any nodes alike, as many as the fan-out says: of the graph only its size is printed. Layers
/// compute as DGL's `SAGEConv` with means does, which multiplies before it gathers where that leaves less to gather, and
/// take what the device's arithmetic or its memory takes at best. Drawing, the loss and the optimizer are not counted.
fn step(
    training: &GraphTraining,
    graph: &Graph,
    table: &PackedTable,
    machine: &Machine,
    arithmetic: f64,
) -> (f64, f64) {
    let nodes = graph.nodes as f64;
    // From the batch's nodes on: those of a layer's output, and what they are made of.
    let mut layers = Vec::with_capacity(training.fanouts.len());
    let mut outputs = graph.batch as f64;
    for fanout in &training.fanouts {
        let edges = outputs * *fanout as f64;
        let inputs = different(nodes, outputs + edges);
        layers.push([inputs, edges, outputs]);
        outputs = inputs;
    }
    let rows = outputs;
    let device = &machine.device.compute;
    let element = graph.feature_bytes as f64;
    let flops = if graph.feature_bytes == 2 { device.f16_flops } else { device.f32_flops };
    let (flops, bandwidth) = (flops as f64 * arithmetic, device.memory_bandwidth.0 as f64);
    let product = |rows: f64, [from, to]: [f64; 2]| {
        let bytes = element * (rows * (from + to) + from * to);
        (2.0 * rows * from * to / flops).max(bytes / bandwidth)
    };
    let gathering =
        |edges: f64, outputs: f64, width: f64| element * (edges + outputs) * width / bandwidth;
    let mut time = 0.0;
    let mut from = (table.row_bytes / graph.feature_bytes) as f64;
    for (index, [inputs, edges, outputs]) in layers.into_iter().rev().enumerate() {
        let is_last = index + 1 == training.fanouts.len();
        let to = if is_last { graph.classes } else { training.width } as f64;
        // Forward, gradients of weights, and of what is read where that is no feature.
        let passes = if index == 0 { 2.0 } else { 3.0 };
        let multiplied = if from > to { inputs } else { outputs };
        time += passes * (product(outputs, [from, to]) + product(multiplied, [from, to]));
        time += 2.0 * gathering(edges, outputs, from.min(to));
        from = to;
    }
    (rows, time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::read_machine;

    #[test]
    fn draws_that_are_few_among_many_are_all_different() {
        assert!((different(1e9, 1e3) - 1e3).abs() < 0.01);
        assert!((different(100.0, 1e6) - 100.0).abs() < 1e-9);
    }

    /// One layer from one feature to another, of one batch whose nodes' neighbours are all different.
    #[test]
    fn a_step_is_what_its_layers_come_to() {
        let machine = read_machine("ibp-a100").expect("bundled");
        let training = GraphTraining { fanouts: vec![3], width: 7 };
        let graph = Graph { nodes: 1 << 50, batch: 1000, classes: 500, feature_bytes: 4 };
        let table = PackedTable {
            name: String::new(),
            row_bytes: 400,
            ratio: 1.0,
            cached: None,
            graph: None,
        };
        let (rows, time) = step(&training, &graph, &table, &machine, 1.0);
        assert_eq!(rows.round(), 4000.0, "the batch's own, and three of each");
        // Gathered first, as 100 features are less than 500: two products of 1000 rows, forward and for the weights.
        let device = &machine.device.compute;
        let products = 4.0 * 2.0 * 1000.0 * 100.0 * 500.0 / device.f32_flops as f64;
        let gathered = 2.0 * 4.0 * (3000.0 + 1000.0) * 100.0 / device.memory_bandwidth.0 as f64;
        assert!((time / (products + gathered) - 1.0).abs() < 1e-9, "{time}");
        let (_, slower) = step(&training, &graph, &table, &machine, 0.5);
        assert!(slower > 1.5 * time, "{slower} {time}");
    }
}
