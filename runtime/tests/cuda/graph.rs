//! Iterations as CUDA graphs, on the driver that is none (`graph.h`).

use std::collections::BTreeSet;

use runtime::cuda::commands::{Commands, Shares};
use runtime::cuda::launches::Means;
use runtime::cuda::{CudaDevice, CudaOptions, open};
use runtime::device::{Device, RunFailure, Stop};
use runtime::network::Network;
use schema::{ActionId, Lane, Plan, Trace};
use simulator::HappensBefore;

use crate::device::{is_inside_with, opened, outcome};
use crate::networks;
use crate::problem::{SEED, machine, planned, trace, zvc};

const LIBRARIES: [&str; 2] = ["libcublas.so", "libcudnn.so"];

fn as_graph<'a>(network: &'a Network, trace: &'a Trace, plan: &'a Plan) -> CudaDevice<'a> {
    let options = CudaOptions { seed: SEED, graph: true, ..CudaOptions::default() };
    open(network, trace, plan, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// The first iteration command by command, the second and third as one graph; with libraries, copies
/// both ways, a lane of codecs, and compressed forms that do not fit, of which kernels decide.
#[test]
fn graphs_leave_the_same_bits() {
    if !is_inside_with("graph::graphs_leave_the_same_bits", &LIBRARIES, &[]) {
        return;
    }
    for (name, method, percent, codec_lane) in [
        ("vgg", "swap-all", 60, false),
        ("vgg", "cswap", 70, true),
        ("resnet", "tide", 70, false),
        ("transformer", "tide", 70, false),
    ] {
        let network = networks::small(name);
        let mut trace = trace(&network);
        for tensor in &mut trace.tensors {
            tensor.sparsity = tensor.sparsity.map(|share| (share * 1.6).min(0.95));
        }
        let models = zvc(0);
        let codecs = codec_lane.then_some(&models);
        let plan = planned(&trace, &machine(codec_lane), method, percent, codecs);
        let mut plain = opened(&network, &trace, &plan);
        let expected = outcome(&mut plain, &network, &plan);
        let memory = plain.memory();
        drop(plain);
        let mut device = as_graph(&network, &trace, &plan);
        assert!(outcome(&mut device, &network, &plan) == expected, "{name}, {method}");
        assert_eq!(
            device.memory(),
            runtime::device::MemoryUse { live: device.memory().live, ..memory }
        );
        assert_eq!(device.memory().fallbacks > 0, codec_lane, "{name}, {method}");
    }
}

/// The nodes of a graph: whether it is an event, and what it comes after.
fn nodes(text: &str) -> Vec<(bool, Vec<usize>)> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let is_event = words.next() == Some("event");
        (is_event, words.map(|word| word.parse().unwrap()).collect())
    };
    text.lines().map(line).collect()
}

/// For each node the nodes before it.
fn closure(nodes: &[(bool, Vec<usize>)]) -> Vec<BTreeSet<usize>> {
    let mut all: Vec<BTreeSet<usize>> = Vec::new();
    for (_, after) in nodes {
        let mut before: BTreeSet<usize> = after.iter().copied().collect();
        after.iter().for_each(|on| before.extend(&all[*on]));
        all.push(before);
    }
    all
}

/// Of two actions one ends before the other starts in the graph exactly where streams have it so, and
/// all that an action does lies between its two moments.
#[test]
fn a_graph_has_the_order_of_the_streams() {
    let path = std::env::temp_dir().join(format!("tidegate-graph-{}", std::process::id()));
    let settings = [("TIDEGATE_GRAPH", path.to_str().unwrap())];
    if !is_inside_with("graph::a_graph_has_the_order_of_the_streams", &[], &settings) {
        // Where there is no compiler, there is no such file.
        let _ = std::fs::remove_file(&path);
        return;
    }
    let path = std::env::var_os("TIDEGATE_GRAPH").unwrap();
    let network = networks::small("vgg");
    let trace = trace(&network);
    for (method, percent, codec_lane) in
        [("swap-all", 60, false), ("tide", 70, true), ("cswap", 70, true)]
    {
        let models = zvc(300);
        let codecs = (method == "cswap").then_some(&models);
        let plan = planned(&trace, &machine(codec_lane), method, percent, codecs);
        let mut device = as_graph(&network, &trace, &plan);
        device.run().unwrap();
        device.run().unwrap();
        let nodes = nodes(&std::fs::read_to_string(&path).unwrap());
        let before = closure(&nodes);
        let mut moments = (0..nodes.len()).filter(|node| nodes[*node].0);
        let origin = moments.next().unwrap();

        let layers = Means::kernels(1);
        let shares = Shares { layers, codecs: 1 };
        let commands = Commands::new(&plan, &network, shares, &BTreeSet::new()).unwrap();
        let mut order = HappensBefore::default();
        for issue in &commands.issues {
            order.push(issue.lane, &issue.waits);
        }
        // An action that its stream comes to without waiting starts when the one before it has ended.
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let mut last = [None; Lane::COUNT];
        for issue in &commands.issues {
            let last = &mut last[issue.lane.index()];
            let follows = last.filter(|_| issue.waits.is_empty());
            starts.push(follows.or_else(|| moments.next()).unwrap());
            *last = moments.next();
            ends.push(last.unwrap());
        }
        assert_eq!(moments.next(), None, "{method}: a moment of no action");
        let own = starts.iter().filter(|start| !ends.contains(start)).count();
        assert!((1..plan.actions.len()).contains(&own), "{method}: {own} starts of their own");
        let (start, end) = (|action: usize| starts[action], |action: usize| ends[action]);
        for one in 0..plan.actions.len() {
            assert!(before[start(one)].contains(&origin), "{method}: before the origin");
            assert!(before[end(one)].contains(&start(one)), "{method}: {one} ends, then starts");
            for other in 0..plan.actions.len() {
                let (a, b) = (ActionId::from_index(one), ActionId::from_index(other));
                let of_streams = one != other && order.ends_before(a, b);
                let begins = start(other);
                let of_graph = begins == end(one) || before[begins].contains(&end(one));
                assert_eq!(of_graph, of_streams, "{method}: {a} and {b}");
            }
        }
        // What is done between start and end of an action is in nobody else's.
        let work = (0..nodes.len()).filter(|node| !nodes[*node].0);
        for node in work {
            let begun: Vec<usize> = (0..plan.actions.len())
                .filter(|action| {
                    before[node].contains(&start(*action)) && before[end(*action)].contains(&node)
                })
                .collect();
            assert_eq!(begun.len(), 1, "{method}: node {node} is of {begun:?}");
        }
    }
}

#[test]
fn a_stop_is_taken_between_graphs() {
    if !is_inside_with("graph::a_stop_is_taken_between_graphs", &[], &[]) {
        return;
    }
    let network = networks::small("vgg");
    let trace = trace(&network);
    let plan = planned(&trace, &machine(false), "swap-all", 60, None);
    let stop = Stop::default();
    let options = CudaOptions { graph: true, stop: stop.clone(), ..CudaOptions::default() };
    let mut device = open(&network, &trace, &plan, &options).unwrap();
    device.run().unwrap();
    device.run().unwrap();
    stop.request();
    assert_eq!(device.run(), Err(RunFailure::Stopped));
}

/// A wrong label is found in a graph as it is without one.
#[test]
fn a_wrong_label_fails_the_loss_in_a_graph() {
    if !is_inside_with("graph::a_wrong_label_fails_the_loss_in_a_graph", &[], &[]) {
        return;
    }
    let network = networks::small("vgg");
    let trace = trace(&network);
    let plan = planned(&trace, &machine(false), "in-core", 130, None);
    let mut device = as_graph(&network, &trace, &plan);
    device.run().unwrap();
    let labels = network.labels().unwrap();
    let wrong = runtime::layers::cell_from_index(1 << 30);
    device.write(labels, &vec![wrong; network.tensor(labels).elements]).unwrap();
    let failure = device.run().expect_err("no class has that number");
    assert!(matches!(failure, RunFailure::Action { ref name, .. } if name.starts_with("loss")));
    assert_eq!(device.run(), Err(RunFailure::Unusable));
}
