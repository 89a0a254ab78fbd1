//! Tensors that leave for the host as themselves, and come back.
//!
//! Where copies stay on the host ([`crate::Policy::copies_stay`]), a tensor that has been copied
//! leaves again without a copy.

use schema::TensorId;

use super::{RESIDENT, SMALL, Sequence, is_gone};
use crate::evaluator::Infeasible;
use crate::parts::{Home, Materialised, Return, Swap, Treatment};
use crate::{Codecs, Model};

/// Beside a departure: what comes back for another tensor's sake does not stay.
const EACH_TIME: u32 = 1 << 30;

/// A tensor leaves for where a swap has put it, with the end of a position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub swap: u32,
    left_after: u32,
}

/// Whether a tensor is on the host, and is to be so again when it was back for another tensor.
pub(super) fn is_away_each_time(state: u32) -> bool {
    !is_gone(state) && state != RESIDENT && state & SMALL == 0 && state & EACH_TIME != 0
}

/// The departure of a tensor that has left as itself.
pub(super) fn departure_of(state: u32) -> usize {
    (state & !EACH_TIME) as usize
}

impl Sequence {
    /// A position reads a tensor that is on the device or, as itself, on the host.
    pub(crate) fn use_at(&mut self, model: &Model, tensor: u32, position: u32) {
        let state = self.state[tensor as usize];
        if state != RESIDENT {
            let Departure { swap, left_after } = self.departures[(state & !EACH_TIME) as usize];
            let origin = Materialised::CopiedIn(self.returns.len() as u32);
            let updates = self.updates_before(model, tensor);
            self.returns.push(Return { swap, before: position, left_after, updates });
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
            ready: position + u32::from(model.alters(self.positions[position as usize].op, tensor)),
            at_no_cost: treatment == Treatment::SwapAtNoCost,
            home: None,
        };
        self.d2h(model, swap, treatment);
        Ok(())
    }

    /// Before the first position, a tensor is where it has its home.
    pub(super) fn begin_at_home(&mut self, model: &Model, tensor: u32) {
        let id = self.swaps.len() as u32;
        let bytes = model.bytes[tensor as usize];
        self.swaps.push(Swap {
            tensor,
            bytes,
            host_bytes: bytes,
            codec: None,
            there: None,
            out_after: 0,
            ready: 0,
            at_no_cost: false,
            home: Some(Home { at_start: true, version: 0, updates: 0 }),
        });
        self.copied_by[tensor as usize] = id;
        self.depart(tensor, id, 0, Treatment::Swap);
    }

    /// The last copy of each tensor that has its home on the host, after a build was taken back.
    pub(super) fn find_homes(&mut self, model: &Model) {
        if model.homes.is_empty() {
            return;
        }
        for (id, swap) in self.swaps.iter().enumerate().filter(|(_, swap)| swap.home.is_some()) {
            self.copied_by[swap.tensor as usize] = id as u32;
        }
    }

    /// A tensor whose home is on the host has been used for the last time.
    pub(super) fn go_home(&mut self, model: &Model, tensor: u32) {
        if self.state[tensor as usize] != RESIDENT {
            return;
        }
        if self.is_on_host(model, tensor) {
            return self.leave_without_copy(model, tensor, Treatment::SwapEachTime);
        }
        let last_use = self.last_position[tensor as usize];
        // Copies out queue in their order: one that comes after a later use waits.
        let out_after = self.swaps.last().map_or(last_use, |swap| swap.out_after.max(last_use));
        let swap = Swap {
            tensor,
            bytes: model.bytes[tensor as usize],
            host_bytes: 0,
            codec: None,
            there: None,
            out_after,
            ready: out_after + 1,
            at_no_cost: false,
            home: None,
        };
        self.d2h(model, swap, Treatment::SwapEachTime);
    }

    /// A tensor leaves that is on the host as well.
    pub(super) fn leave_without_copy(&mut self, model: &Model, tensor: u32, treatment: Treatment) {
        let left_after = self.last_position[tensor as usize];
        self.drop_tensor(model, tensor);
        self.depart(tensor, self.copied_by[tensor as usize], left_after, treatment);
    }

    /// A tensor leaves by a copy.
    pub(super) fn d2h(&mut self, model: &Model, mut swap: Swap, treatment: Treatment) {
        let id = self.swaps.len() as u32;
        if swap.is_plain() && model.is_at_home(TensorId(swap.tensor)) {
            // Its room there is its own for the whole iteration.
            swap.host_bytes = 0;
            let version = model.version(swap.tensor, self.due);
            let read = model.last_read_there(swap.tensor, self.due);
            let updates = self.updates_until(read);
            swap.home = Some(Home { at_start: false, version, updates });
        }
        self.close(swap.tensor, Some(id));
        self.moves[swap.out_after as usize].copied_out += swap.bytes;
        if swap.is_plain() {
            self.copied_by[swap.tensor as usize] = id;
        }
        self.swaps.push(swap);
        self.depart(swap.tensor, id, swap.out_after, treatment);
    }

    /// Whether a tensor that is on the device is on the host as well, as itself, and stays there.
    pub(super) fn is_on_host(&self, model: &Model, tensor: u32) -> bool {
        let is_copy = |swap: &Swap| swap.tensor == tensor && swap.is_plain();
        let copied = self.swaps.get(self.copied_by[tensor as usize] as usize);
        if model.is_at_home(TensorId(tensor)) {
            let version = copied.and_then(|swap| swap.home).map(|home| home.version);
            return version == Some(model.version(tensor, self.due));
        }
        // What ops change in place may have changed since it was copied.
        self.copies_stay && !model.is_changed(TensorId(tensor)) && copied.is_some_and(is_copy)
    }

    /// So many positions have to have ended before a tensor that is on the device is as it will be copied.
    /// Where that is not known, all before the one after which it leaves. What is noted of where a tensor
    /// came to be is so only while recording.
    pub(super) fn ready(&self, model: &Model, tensor: u32, out_after: u32) -> u32 {
        let last_use = self.last_position[tensor as usize];
        if model.alters(self.positions[last_use as usize].op, tensor) {
            return last_use + 1;
        }
        match self.origin[tensor as usize] {
            _ if model.is_changed(TensorId(tensor)) => out_after,
            Materialised::AtStart if model.is_there_at_start(tensor) => 0,
            Materialised::AtStart => out_after,
            _ => self.first_position[tensor as usize] + 1,
        }
    }

    /// A tensor is on the host alone after a position.
    fn depart(&mut self, tensor: u32, swap: u32, left_after: u32, treatment: Treatment) {
        let is_home = self.swaps[swap as usize].home.is_some();
        let each_time = (self.copies_stay || is_home) && treatment == Treatment::SwapEachTime;
        let departure = self.departures.len() as u32;
        self.departures.push(Departure { swap, left_after });
        self.state[tensor as usize] = departure | if each_time { EACH_TIME } else { 0 };
    }

    /// What is on the host has been used for the last time: for another's sake it comes back for no longer
    /// than that.
    pub(super) fn stays_home(&mut self, tensor: u32) {
        if self.state[tensor as usize] != RESIDENT {
            self.state[tensor as usize] |= EACH_TIME;
        }
    }

    /// A tensor that was back for another's sake leaves again, for where it was.
    pub(super) fn depart_again(&mut self, tensor: u32, state: u32, left_after: u32) {
        let Departure { swap, .. } = self.departures[(state & !EACH_TIME) as usize];
        self.depart(tensor, swap, left_after, Treatment::SwapEachTime);
    }
}
