//! Iterations as CUDA graphs, on the driver that is none (`graph.h`).

use std::collections::BTreeSet;

use runtime::cuda::commands::{Commands, Shares};
use runtime::cuda::launches::Means;
use runtime::cuda::{CudaDevice, CudaOptions, open};
use runtime::device::Device;
use schema::{ActionId, Lane, Plan};
use simulator::HappensBefore;

use crate::inside::inside;
use crate::problem::{SEED, Subject, zvc};

fn as_graph<'a>(subject: &'a Subject, plan: &'a Plan) -> CudaDevice<'a> {
    let options = CudaOptions { seed: SEED, graph: true, ..CudaOptions::default() };
    let opened = open(&subject.network, &subject.trace, plan, &options);
    opened.unwrap_or_else(|error| panic!("{error}"))
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

fn closure(nodes: &[(bool, Vec<usize>)]) -> Vec<BTreeSet<usize>> {
    let mut all: Vec<BTreeSet<usize>> = Vec::new();
    for (_, after) in nodes {
        let mut before: BTreeSet<usize> = after.iter().copied().collect();
        after.iter().for_each(|on| before.extend(&all[*on]));
        all.push(before);
    }
    all
}

/// Of two actions one ends before the other starts in the graph exactly where streams have it so,
/// and all that an action does lies between its two moments.
#[test]
fn a_graph_has_the_order_of_the_streams() {
    let path = std::env::temp_dir().join(format!("tidegate-graph-{}", std::process::id()));
    let settings = [("TIDEGATE_GRAPH", path.to_str().unwrap())];
    if inside(&[], &settings).is_none() {
        // Where there is no compiler, there is no such file.
        let _ = std::fs::remove_file(&path);
        return;
    }
    let path = std::env::var_os("TIDEGATE_GRAPH").unwrap();
    let subject = Subject::small("vgg");
    for (method, percent, codec_lane) in
        [("swap-all", 60, false), ("tide", 70, true), ("cswap", 70, true)]
    {
        let models = zvc(300);
        let codecs = (method == "cswap").then_some(&models);
        let plan = subject.plan(method, percent, codec_lane, codecs);
        let mut device = as_graph(&subject, &plan);
        device.run().unwrap();
        device.run().unwrap();
        let nodes = nodes(&std::fs::read_to_string(&path).unwrap());
        let before = closure(&nodes);
        let mut moments = (0..nodes.len()).filter(|node| nodes[*node].0);
        let origin = moments.next().unwrap();

        let layers = Means::kernels(1);
        let shares = Shares { layers, codecs: 1 };
        let commands = Commands::new(&plan, &subject.network, shares, &BTreeSet::new()).unwrap();
        let mut order = HappensBefore::default();
        for issue in &commands.issues {
            order.push(issue.lane, &issue.waits);
        }
        // An action that its stream comes to without waiting starts when the one before it has
        // ended.
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
