//! The memory that an iteration in core takes, from the network's shapes alone.

use std::collections::BTreeMap;

use schema::TensorId;

use crate::network::{Network, Op};

/// Bytes that an iteration takes which keeps everything. Sums that no 64 bits hold are as large as
/// those can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// What [`InCore`](super::InCore) allocates, however many iterations
    /// they run: cells of 4 bytes, and what was given back is kept for tensors of the same size.
    pub in_core: u64,
    /// The most that is live at once, elements as they are stored, with the workspace of the op
    /// that runs: the peak of the network's trace.
    pub peak: u64,
    /// Of it, what lasts from one iteration to the next.
    pub constants: u64,
}

impl Needs {
    /// Of a network.
    pub fn of(network: &Network) -> Self {
        let largest = network.ops().iter().map(|op| op.step.workspace_floats()).max();
        let mut walk = Walk {
            network,
            there: vec![false; network.tensors().len()],
            spare: BTreeMap::new(),
            allocated: bytes(largest.unwrap_or(0), 4),
            live: 0,
            peak: 0,
        };
        for (index, tensor) in network.tensors().iter().enumerate() {
            if tensor.is_constant() {
                walk.make(TensorId::from_index(index));
            }
        }
        let constants = walk.live;
        network.ops().iter().for_each(|op| walk.run(op));
        let peak = walk.peak;
        // What an iteration results in is still there in the next, of which a trace knows nothing.
        network.ops().iter().for_each(|op| walk.run(op));
        Self { in_core: walk.allocated, peak, constants }
    }
}

fn bytes(elements: usize, width: usize) -> u64 {
    (elements as u64).saturating_mul(width as u64)
}

/// What [`InCore`](super::InCore) does, without its memory.
struct Walk<'a> {
    network: &'a Network,
    there: Vec<bool>,
    /// How many pieces of so many cells were given back.
    spare: BTreeMap<usize, usize>,
    allocated: u64,
    live: u64,
    peak: u64,
}

impl Walk<'_> {
    fn run(&mut self, op: &Op) {
        for &tensor in &op.writes {
            let input = op.in_place.filter(|pair| pair.output == tensor).map(|pair| pair.input);
            match input {
                _ if self.there[tensor.index()] => {}
                Some(input) if self.there[input.index()] => {
                    (self.there[input.index()], self.there[tensor.index()]) = (false, true);
                }
                _ => self.make(tensor),
            }
        }
        let workspace = bytes(op.step.workspace_floats(), 4);
        self.peak = self.peak.max(self.live.saturating_add(workspace));
        for tensor in &op.frees {
            if std::mem::take(&mut self.there[tensor.index()]) {
                let tensor = self.network.tensor(*tensor);
                let stored = bytes(tensor.elements, tensor.element_bytes());
                self.live = self.live.saturating_sub(stored);
                *self.spare.entry(tensor.elements).or_default() += 1;
            }
        }
    }

    fn make(&mut self, id: TensorId) {
        let tensor = self.network.tensor(id);
        match self.spare.get_mut(&tensor.elements) {
            Some(spare) if *spare > 0 => *spare -= 1,
            _ => self.allocated = self.allocated.saturating_add(bytes(tensor.elements, 4)),
        }
        self.there[id.index()] = true;
        let stored = bytes(tensor.elements, tensor.element_bytes());
        self.live = self.live.saturating_add(stored);
    }
}

#[cfg(test)]
mod tests {
    use schema::OpId;

    use super::*;
    use crate::network::tests::{built, tiny, trace};
    use crate::profile::InCore;

    /// A network whose results are gradients, so that they are still there in the next iteration.
    fn without_update() -> Network {
        built("gradients", 4, networks::Optimizer::None, |net| {
            let x = net.input("x", &[6])?;
            let x = net.linear("one", x, 6, true)?;
            net.linear("two", x, 6, true)
        })
    }

    #[test]
    fn as_much_is_needed_as_is_then_allocated() {
        let small = tiny(2, 40);
        assert!(small.ops().iter().any(|op| op.updates.len() == 2), "updates keep something");
        for network in [small.clone().in_bf16(), small, without_update()] {
            let mut in_core = InCore::new(&network, 1).expect("it is small");
            for id in (0..3).flat_map(|_| (0..network.ops().len()).map(OpId::from_index)) {
                in_core.run(id).expect("it runs");
                in_core.free(id);
            }
            let needs = Needs::of(&network);
            assert_eq!(needs.in_core, in_core.allocated().0, "{}", network.name);
            assert_eq!(needs.peak, simulator::in_core(&trace(&network)).peak.0);
        }
    }
}
