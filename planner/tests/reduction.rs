//! The dependencies of a plan are its transitive reduction, as a graph library sees it.

mod common;

use common::random::{self, Random};
use petgraph::algo::toposort;
use petgraph::algo::tred::{dag_to_toposorted_adjacency_list, dag_transitive_reduction_closure};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::IntoNeighbors;
use planner::{Decided, lower};
use schema::Lane;

#[test]
fn no_dependency_follows_from_the_others() {
    let mut checked = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let trace = random::trace(&mut random, 40);
        let machine = random::machine(&mut random);
        let policy = random::policy(&mut random);
        let problem = random::problem(&mut random, &trace, &machine);
        let treatments = random::treatments(&mut random, &problem);
        let decided =
            Decided { treatments, policy, considered: Vec::new(), steps: None, as_recorded: false };
        let Ok(plan) = lower(&problem, problem.budget, &decided) else { continue };
        let mut graph = DiGraph::<(), (), u32>::new();
        let nodes: Vec<NodeIndex> = plan.actions.iter().map(|_| graph.add_node(())).collect();
        let mut last = [None; Lane::COUNT];
        for (index, action) in plan.actions.iter().enumerate() {
            let lane = plan.lane(action.task).index();
            if let Some(previous) = last[lane].replace(nodes[index]) {
                graph.add_edge(previous, nodes[index], ());
            }
            for dependency in &action.after {
                graph.add_edge(nodes[dependency.index()], nodes[index], ());
            }
        }
        let sorted = toposort(&graph, None).expect("an order without a circle");
        let (list, position) = dag_to_toposorted_adjacency_list::<_, u32>(&graph, &sorted);
        let (reduction, _) = dag_transitive_reduction_closure(&list);
        for (index, action) in plan.actions.iter().enumerate() {
            for dependency in &action.after {
                let (from, to) = (position[dependency.index()], position[index]);
                let needed = reduction.neighbors(from).any(|next| next == to);
                assert!(needed, "seed {seed}: action {index} need not name {dependency}");
                checked += 1;
            }
        }
    }
    assert!(checked > 500, "only {checked} dependencies were checked");
}
