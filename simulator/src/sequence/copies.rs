//! Tensors that leave for the host as themselves, and come back.
//!
//! Where copies stay on the host ([`crate::Policy::copies_stay`]), a tensor that has been copied
//! leaves again without a copy.

use schema::TensorId;

use super::{RESIDENT, SMALL, Sequence, is_gone};
use crate::evaluator::Infeasible;
use crate::parts::{Materialised, Return, Swap, Treatment};
use crate::{Codecs, Model, NO_OP};

/// Beside a departure: what comes back for another tensor's sake does not stay.
const EACH_TIME: u32 = 1 << 30;

/// A tensor leaves for where a swap has put it, with the end of a position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    swap: u32,
    left_after: u32,
}

/// Whether a tensor is on the host, and is to be so again when it was back for another tensor.
pub(super) fn is_away_each_time(state: u32) -> bool {
    !is_gone(state) && state != RESIDENT && state & SMALL == 0 && state & EACH_TIME != 0
}

impl Sequence {
    /// A position reads a tensor that is on the device or, as itself, on the host.
    pub(crate) fn use_at(&mut self, model: &Model, tensor: u32, position: u32) {
        let state = self.state[tensor as usize];
        if state != RESIDENT {
            let Departure { swap, left_after } = self.departures[(state & !EACH_TIME) as usize];
            let origin = Materialised::CopiedIn(self.returns.len() as u32);
            self.returns.push(Return { swap, before: position, left_after });
            self.moves[position as usize].copied_in += model.bytes[tensor as usize];
            self.open(tensor, position, origin);
        }
        self.last_position[tensor as usize] = position;
    }

    /// A tensor leaves after the run of the op that uses it last: without a copy, where the host
    /// has one.
    pub(super) fn swap(
        &mut self,
        model: &Model,
        codecs: &Codecs,
        tensor: u32,
        treatment: Treatment,
        position: u32,
    ) -> Result<(), Infeasible> {
        let as_itself = matches!(treatment, Treatment::Swap | Treatment::SwapEachTime);
        if as_itself && self.is_on_host(model, tensor) {
            self.leave_without_copy(model, tensor, treatment);
            return Ok(());
        }
        let bytes = model.bytes[tensor as usize];
        let (there, host_bytes) = match treatment {
            Treatment::SwapCompressedOnHost(codec) => {
                let Some(cost) = codecs.host_cost(codec, TensorId(tensor)) else {
                    return Err(Infeasible::NotCompressible { tensor: TensorId(tensor) });
                };
                (Some(codec), cost.reserved.0)
            }
            // A hypothesis takes none.
            Treatment::SwapAtNoCost => (None, 0),
            _ => (None, bytes),
        };
        let swap = Swap {
            tensor,
            bytes,
            host_bytes,
            codec: None,
            there,
            out_after: position,
            made_there: model.alters(self.positions[position as usize].op, tensor),
            at_no_cost: treatment == Treatment::SwapAtNoCost,
        };
        self.d2h(swap, treatment);
        Ok(())
    }

    /// A tensor leaves that is on the host as well.
    pub(super) fn leave_without_copy(&mut self, model: &Model, tensor: u32, treatment: Treatment) {
        let left_after = self.last_position[tensor as usize];
        self.drop_tensor(model, tensor);
        self.depart(tensor, self.copied_by[tensor as usize], left_after, treatment);
    }

    /// A tensor leaves by a copy.
    pub(super) fn d2h(&mut self, swap: Swap, treatment: Treatment) {
        let id = self.swaps.len() as u32;
        self.close(swap.tensor, Some(id));
        self.moves[swap.out_after as usize].copied_out += swap.bytes;
        self.depart(swap.tensor, id, swap.out_after, treatment);
        if swap.is_plain() {
            self.copied_by[swap.tensor as usize] = id;
        }
        self.swaps.push(swap);
    }

    /// Whether a tensor that is on the device is on the host as well, as itself, and stays there.
    pub(super) fn is_on_host(&self, model: &Model, tensor: u32) -> bool {
        let is_copy = |swap: &Swap| swap.tensor == tensor && swap.is_plain();
        // What no op makes may have changed in place since it was copied.
        self.copies_stay
            && model.producer[tensor as usize] != NO_OP
            && self.swaps.get(self.copied_by[tensor as usize] as usize).is_some_and(is_copy)
    }

    /// A tensor is on the host alone after a position.
    fn depart(&mut self, tensor: u32, swap: u32, left_after: u32, treatment: Treatment) {
        let each_time = self.copies_stay && treatment == Treatment::SwapEachTime;
        let departure = self.departures.len() as u32;
        self.departures.push(Departure { swap, left_after });
        self.state[tensor as usize] = departure | if each_time { EACH_TIME } else { 0 };
    }

    /// A tensor that was back for another's sake leaves again, for where it was.
    pub(super) fn depart_again(&mut self, tensor: u32, state: u32, left_after: u32) {
        let Departure { swap, .. } = self.departures[(state & !EACH_TIME) as usize];
        self.depart(tensor, swap, left_after, Treatment::SwapEachTime);
    }
}
