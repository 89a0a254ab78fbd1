//! Codecs in the sequence of the compute lane.

use schema::TensorId;

use crate::evaluator::Infeasible;
use crate::parts::{Materialised, Packing, Residency, Return, Swap, Treatment, Work};
use crate::sequence::{SMALL, Sequence, is_small};
use crate::{Codecs, Model};

impl Sequence {
    /// Makes a resident tensor smaller right after an op; the compressed form is swapped or stays.
    pub(crate) fn pack(
        &mut self,
        model: &Model,
        codecs: &Codecs,
        tensor: u32,
        (codec, swapped): (u8, bool),
        op: u32,
    ) -> Result<(), Infeasible> {
        let position = self.compress(codecs, tensor, (codec, swapped), op)?;
        // The raw buffer dies with the compression.
        self.last_position[tensor as usize] = position;
        self.leave_packed(model, self.packings.len() - 1, position);
        Ok(())
    }

    /// Makes those tensors smaller that an op uses last before they leave in their compressed
    /// forms. They stay beside those for the op.
    pub(crate) fn pack_before(
        &mut self,
        model: &Model,
        codecs: &Codecs,
        choices: &[Treatment],
        op: usize,
    ) -> Result<(), Infeasible> {
        for gap in model.gaps_after(op) {
            let tensor = model.gaps()[gap].tensor.0;
            let Treatment::SwapCompressed(codec) = choices[gap] else { continue };
            if self.packs_before(model, tensor, op) {
                self.unpack(model, tensor, op as u32);
                let position = self.compress(codecs, tensor, (codec, true), op as u32)?;
                self.use_at(model, tensor, position);
            }
        }
        Ok(())
    }

    /// From a position on, of the tensors packed from the `packed`th on only the compressed forms
    /// are there.
    pub(crate) fn leave_packed(&mut self, model: &Model, packed: usize, position: u32) {
        for id in packed..self.packings.len() {
            let tensor = self.packings[id].tensor;
            self.close(tensor, None);
            self.state[tensor as usize] = SMALL | id as u32;
            self.moves[position as usize].gives_back += model.bytes[tensor as usize];
        }
    }

    /// The run of a codec that makes a tensor's compressed form, which is swapped or stays.
    fn compress(
        &mut self,
        codecs: &Codecs,
        tensor: u32,
        (codec, swapped): (u8, bool),
        op: u32,
    ) -> Result<u32, Infeasible> {
        let Some(&cost) = codecs.cost(codec, TensorId(tensor)) else {
            return Err(Infeasible::NotCompressible { tensor: TensorId(tensor) });
        };
        let position = self.push_position(op, Work::Compress(self.packings.len() as u32));
        self.codec_positions.push(position);
        let reserved = cost.reserved.0;
        self.moves[position as usize].allocates = reserved;
        self.codec_ns += cost.compress.0 + cost.decompress.0;
        let swap = swapped.then_some(self.swaps.len() as u32);
        if swapped {
            self.moves[position as usize].copied_out = reserved;
            self.swaps.push(Swap {
                tensor,
                bytes: reserved,
                // Where the size varies, the packing itself takes host memory for the raw tensor.
                host_bytes: if cost.variable { 0 } else { reserved },
                codec: Some(codec),
                there: None,
                out_after: position,
                ready: position + 1,
                at_no_cost: false,
                home: None,
            });
        }
        self.packings.push(Packing { tensor, codec, cost, position, swap });
        Ok(position)
    }

    /// Brings a tensor back from its compressed form, if that is what there is of it, right before
    /// a run of an op.
    pub(crate) fn unpack(&mut self, model: &Model, tensor: u32, op: u32) {
        let state = self.state[tensor as usize];
        if !is_small(state) {
            return;
        }
        let id = state & !SMALL;
        let packing = self.packings[id as usize];
        let reserved = packing.cost.reserved.0;
        let position = self.push_position(op, Work::Decompress(id));
        self.codec_positions.push(position);
        self.moves[position as usize].allocates = model.bytes[tensor as usize];
        self.moves[position as usize].gives_back = reserved;
        if let Some(swap) = packing.swap {
            self.returns.push(Return {
                swap,
                before: position,
                left_after: packing.position,
                updates: 0,
            });
            self.moves[position as usize].copied_in = reserved;
        }
        self.open(tensor, position, Materialised::Written);
        if self.recording {
            self.record_compressed_form(id, position);
        }
    }

    /// The buffers in which a compressed form was, which is needed last at `end`.
    fn record_compressed_form(&mut self, id: u32, end: u32) {
        let Packing { tensor, position: begin, swap, .. } = self.packings[id as usize];
        let (here, small) = (Materialised::Written, Some(id));
        let of = |first, last, origin, copied_out| Residency {
            tensor,
            first,
            last,
            origin,
            copied_out,
            small,
        };
        match swap {
            None => self.residencies.push(of(begin, end, here, None)),
            Some(swap) => self.residencies.extend([
                of(begin, begin, here, Some(swap)),
                of(end, end, Materialised::CopiedIn(self.returns.len() as u32 - 1), None),
            ]),
        }
    }
}
