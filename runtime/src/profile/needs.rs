//! The memory that an iteration in core takes, from the network's shapes alone.

use schema::{Origin, Provenance};

use super::in_core::Slots;
use crate::network::{Measured, Network};

/// Bytes that an iteration takes which keeps everything.
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
        let untimed = Measured { durations: Vec::new(), sparsity: Vec::new() };
        let provenance = Provenance::new(Origin::Modelled, "none", "its shapes");
        let whole = simulator::in_core(&network.trace(&untimed, provenance));
        let ops = network.ops();
        let mut cells = ops.iter().map(|op| op.step.workspace_floats()).max().unwrap_or(0);
        let mut slots = Slots::new(network, |_, elements| cells += elements);
        // What an iteration results in is still there in the next, of which a trace knows nothing.
        for op in ops.iter().chain(ops) {
            for tensor in &op.writes {
                slots.output(op, *tensor, |elements| cells += elements);
                slots.put(*tensor, ());
            }
            slots.free(op);
        }
        let in_core = (cells as u64).saturating_mul(4);
        Self { in_core, peak: whole.peak.0, constants: whole.fixed.0 }
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
