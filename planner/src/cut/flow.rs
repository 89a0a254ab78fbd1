//! The least cut of a network, by the greatest flow (Dinic, 1970).
//!
//! Every node may take in flow from the source and let some out to the sink; these arcs are numbers
//! at the node. The arcs between nodes stay while capacities change, so that one network serves
//! many prices.

/// Never the least thing to cut.
pub(super) const UNCUT: u64 = 1 << 62;

const NONE: u32 = u32::MAX;

/// Nodes, and arcs between them; each arc is followed, in `ends`, by its reverse.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// Nodes that arcs lead from and to.
    ends: Vec<(u32, u32)>,
    /// Where the arcs from each node begin, and each arc's place among them.
    first: Vec<u32>,
    place: Vec<u32>,
    /// By place: the node that the arc leads to, the place of its reverse, and what more it
    /// carries.
    to: Vec<u32>,
    reverse: Vec<u32>,
    left: Vec<u64>,
    /// By node: what is still to come in, and what more may go out.
    pub supply: Vec<u64>,
    pub demand: Vec<u64>,
    /// Arcs from here to a node that lets flow out.
    distance: Vec<u32>,
    /// By node, the place of the arc that is tried next.
    next: Vec<u32>,
    queue: Vec<u32>,
}

impl Network {
    /// Adds an arc from one node to another, and returns its number.
    pub fn arc(&mut self, from: u32, to: u32) -> usize {
        self.ends.extend([(from, to), (to, from)]);
        self.ends.len() / 2 - 1
    }

    /// How many nodes and arcs there are.
    pub fn len(&self) -> usize {
        self.supply.len() + self.ends.len() / 2
    }

    /// Sorts the arcs, all of which have been added, by the nodes that they lead from.
    pub fn finish(&mut self, nodes: usize) {
        self.first = vec![0; nodes + 1];
        self.ends.iter().for_each(|(from, _)| self.first[*from as usize + 1] += 1);
        for node in 0..nodes {
            self.first[node + 1] += self.first[node];
        }
        let mut next = self.first.clone();
        let place = |(from, _): &(u32, u32)| {
            next[*from as usize] += 1;
            next[*from as usize] - 1
        };
        self.place = self.ends.iter().map(place).collect();
        self.to = vec![0; self.ends.len()];
        self.reverse = vec![0; self.ends.len()];
        for (arc, (_, to)) in self.ends.iter().enumerate() {
            let place = self.place[arc] as usize;
            self.to[place] = *to;
            self.reverse[place] = self.place[arc ^ 1];
        }
        self.left = vec![0; self.ends.len()];
        self.supply = vec![0; nodes];
        self.demand = vec![0; nodes];
        self.distance = vec![NONE; nodes];
        self.next = vec![0; nodes];
    }

    /// Takes back all flow.
    pub fn clear(&mut self) {
        self.left.fill(0);
        self.supply.fill(0);
        self.demand.fill(0);
    }

    /// What an arc carries at most.
    pub fn set(&mut self, arc: usize, capacity: u64) {
        self.left[self.place[2 * arc] as usize] = capacity;
    }

    /// Lets as much flow through as there is way for, and returns how much. It is less where
    /// looking at that many arcs does not suffice; no cut carries less than any flow.
    pub fn fill(&mut self, work: &mut usize) -> u128 {
        let mut filled = 0u128;
        for (supply, demand) in self.supply.iter_mut().zip(&mut self.demand) {
            let at_once = *supply.min(demand);
            *supply -= at_once;
            *demand -= at_once;
            filled += u128::from(at_once);
        }
        let mut path = Vec::new();
        while *work > 0 && self.find_distances() {
            *work = work.saturating_sub(self.len());
            self.next.copy_from_slice(&self.first[..self.supply.len()]);
            for node in 0..self.supply.len() as u32 {
                if self.supply[node as usize] > 0 && self.distance[node as usize] != NONE {
                    filled += u128::from(self.push_from(node, &mut path, work));
                }
            }
        }
        filled
    }

    /// Whether any supply can go on to a demand, and how far each node is from one.
    fn find_distances(&mut self) -> bool {
        self.distance.fill(NONE);
        self.queue.clear();
        for (node, demand) in self.demand.iter().enumerate() {
            if *demand > 0 {
                self.distance[node] = 0;
                self.queue.push(node as u32);
            }
        }
        let (mut head, mut reached) = (0, false);
        while let Some(&node) = self.queue.get(head) {
            head += 1;
            reached |= self.supply[node as usize] > 0;
            for place in self.first[node as usize]..self.first[node as usize + 1] {
                let from = self.to[place as usize] as usize;
                let carries = self.left[self.reverse[place as usize] as usize] > 0;
                if carries && self.distance[from] == NONE {
                    self.distance[from] = self.distance[node as usize] + 1;
                    self.queue.push(from as u32);
                }
            }
        }
        reached
    }

    /// Lets a node's supply go along shortest paths, until it is used up or no path is left.
    fn push_from(&mut self, from: u32, path: &mut Vec<u32>, work: &mut usize) -> u64 {
        let mut pushed = 0;
        path.clear();
        let mut node = from as usize;
        while self.supply[from as usize] > 0 && *work > 0 {
            *work -= 1;
            if self.demand[node] > 0 {
                let narrowest = path.iter().map(|place| self.left[*place as usize]).min();
                let most = self.supply[from as usize].min(self.demand[node]);
                let amount = narrowest.map_or(most, |left| left.min(most));
                self.supply[from as usize] -= amount;
                self.demand[node] -= amount;
                pushed += amount;
                *work = work.saturating_sub(path.len());
                let mut full = None;
                for (index, place) in path.iter().enumerate().rev() {
                    self.left[*place as usize] -= amount;
                    self.left[self.reverse[*place as usize] as usize] += amount;
                    if self.left[*place as usize] == 0 {
                        full = Some(index);
                    }
                }
                if let Some(full) = full {
                    node = self.to[self.reverse[path[full] as usize] as usize] as usize;
                    path.truncate(full);
                }
                continue;
            }
            let end = self.first[node + 1];
            let leads_on = |place: &u32| {
                let to = self.to[*place as usize] as usize;
                self.left[*place as usize] > 0
                    && self.distance[to] < NONE
                    && self.distance[to] + 1 == self.distance[node]
            };
            match (self.next[node]..end).find(leads_on) {
                Some(place) => {
                    self.next[node] = place;
                    path.push(place);
                    node = self.to[place as usize] as usize;
                }
                None => {
                    self.next[node] = end;
                    let Some(place) = path.pop() else { return pushed };
                    node = self.to[self.reverse[place as usize] as usize] as usize;
                    self.next[node] += 1;
                }
            }
        }
        pushed
    }

    /// After [`Self::fill`]: marks the nodes on the source's side of the least cut that has the
    /// fewest; of some cut, where the flow could be more.
    pub fn source_side(&mut self, marked: &mut [bool]) {
        marked.fill(false);
        self.queue.clear();
        for (node, supply) in self.supply.iter().enumerate() {
            if *supply > 0 {
                marked[node] = true;
                self.queue.push(node as u32);
            }
        }
        while let Some(node) = self.queue.pop() {
            for place in self.first[node as usize]..self.first[node as usize + 1] {
                let to = self.to[place as usize];
                if self.left[place as usize] > 0
                    && !std::mem::replace(&mut marked[to as usize], true)
                {
                    self.queue.push(to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use petgraph::algo::dinics;
    use petgraph::graph::{DiGraph, NodeIndex};

    use super::*;
    use crate::split_mix::SplitMix;

    #[test]
    fn the_flow_is_a_graph_librarys_and_the_cut_carries_as_much() {
        for seed in 0..2_000 {
            let mut random = SplitMix::new(seed);
            let mut below = |end: u64| random.below(end);
            let nodes = 1 + below(12) as usize;
            let mut network = Network::default();
            let mut graph = DiGraph::<(), u64>::new();
            let of: Vec<NodeIndex> = (0..nodes + 2).map(|_| graph.add_node(())).collect();
            let mut arcs = Vec::new();
            for _ in 0..below(3 * nodes as u64 + 1) {
                let (from, to) = (below(nodes as u64) as u32, below(nodes as u64) as u32);
                if from != to {
                    arcs.push((from, to, network.arc(from, to), below(20)));
                }
            }
            network.finish(nodes);
            network.clear();
            let ends: Vec<(u64, u64)> = (0..nodes).map(|_| (below(15), below(15))).collect();
            for (from, to, arc, capacity) in &arcs {
                network.set(*arc, *capacity);
                graph.add_edge(of[*from as usize], of[*to as usize], *capacity);
            }
            for (node, (supply, demand)) in ends.iter().enumerate() {
                (network.supply[node], network.demand[node]) = (*supply, *demand);
                graph.add_edge(of[nodes], of[node], *supply);
                graph.add_edge(of[node], of[nodes + 1], *demand);
            }
            let (most, _) = dinics(&graph, of[nodes], of[nodes + 1]);
            assert_eq!(network.fill(&mut { usize::MAX }), u128::from(most), "seed {seed}");
            let mut source = vec![false; nodes];
            network.source_side(&mut source);
            let inner =
                arcs.iter().filter(|(a, b, ..)| source[*a as usize] && !source[*b as usize]);
            let mut cut: u64 = inner.map(|(.., capacity)| capacity).sum();
            for (node, (supply, demand)) in ends.iter().enumerate() {
                cut += if source[node] { *demand } else { *supply };
            }
            assert_eq!(cut, most, "seed {seed}");
        }
    }
}
