//! Updates that the host's processor runs.
//!
//! Such an update has its place in the order of the device's ops, and starts when those before it have
//! ended and what it reads is on the host. What of that is on the device leaves when that place has
//! come, if it has not left before. It changes its parameter and the optimizer's state where these have
//! their homes; what comes in afterwards waits for it.

use schema::TensorId;

use super::copies::departure_of;
use super::{GONE, RESIDENT, Sequence};
use crate::Model;
use crate::evaluator::Infeasible;
use crate::parts::{Swap, Treatment, Update};

impl Sequence {
    /// An update on the host, before which the positions from `begin` on brought back what it needs.
    pub(super) fn update_there(
        &mut self,
        model: &Model,
        op: usize,
        begin: usize,
    ) -> Result<(), Infeasible> {
        self.unpack_for_update(model, op);
        self.end_burst(model);
        self.carry_load(begin);
        let last = self.positions.len() - 1;
        let before = self.moves[last];
        self.hand_over(model, op)?;
        let after = self.moves[last];
        self.carry -= after.gives_back - before.gives_back + after.copied_out - before.copied_out;
        Ok(())
    }

    /// What an update reads is as itself on the device, or has left as itself.
    pub(super) fn unpack_for_update(&mut self, model: &Model, op: usize) {
        if !self.packings.is_empty() {
            for tensor in model.reads.get(op) {
                self.unpack(model, *tensor, op as u32);
            }
        }
    }

    /// What an update reads leaves the device with the last position, unless it has left. An op of the
    /// device comes before it.
    pub(super) fn hand_over(&mut self, model: &Model, op: usize) -> Result<(), Infeasible> {
        let last = self.positions.len() as u32 - 1;
        let first_read = self.updated.len() as u32;
        let (mut outs, mut gives_back) = (0, 0);
        for &tensor in model.reads.get(op) {
            let id = TensorId(tensor);
            let state = self.state[tensor as usize];
            if state == RESIDENT {
                self.last_position[tensor as usize] = last;
                if model.is_at_home(id) && self.is_on_host(model, tensor) {
                    self.leave_without_copy(model, tensor, Treatment::Swap);
                } else {
                    let bytes = model.bytes[tensor as usize];
                    let swap = Swap {
                        tensor,
                        bytes,
                        host_bytes: bytes,
                        codec: None,
                        there: None,
                        out_after: last,
                        ready: last + 1,
                        at_no_cost: false,
                        home: None,
                    };
                    self.d2h(model, swap, Treatment::Swap);
                }
            }
            let departure = self.departures[departure_of(self.state[tensor as usize])];
            let swap = self.swaps[departure.swap as usize];
            if !swap.is_plain() {
                return Err(Infeasible::NotCompressible { tensor: id });
            }
            self.updated.push(departure.swap);
            if !swap.home.is_some_and(|home| home.at_start) {
                outs = outs.max(departure.swap + 1);
            }
            if swap.home.is_none() && model.last_use[tensor as usize] == op as u32 {
                gives_back += swap.host_bytes;
                self.state[tensor as usize] = GONE;
            }
        }
        for &tensor in model.goes_home_after.get(op) {
            self.stays_home(tensor);
        }
        self.updates.push(Update {
            op: op as u32,
            after: last,
            outs,
            reads: (first_read, self.updated.len() as u32),
            gives_back,
        });
        self.due = op as u32 + 1;
        Ok(())
    }

    /// How many updates have ended when a tensor may come in.
    pub(super) fn updates_before(&self, model: &Model, tensor: u32) -> u32 {
        self.updates_until(model.last_change_there(tensor, self.due))
    }

    pub(super) fn updates_until(&self, last: Option<u32>) -> u32 {
        let Some(last) = last else { return 0 };
        self.updates.partition_point(|update| update.op <= last) as u32
    }

    /// The swaps whose host buffers an update works on.
    pub fn swaps_of(&self, update: &Update) -> &[u32] {
        &self.updated[update.reads.0 as usize..update.reads.1 as usize]
    }
}
