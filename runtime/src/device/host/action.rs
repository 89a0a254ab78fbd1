//! What lanes do in an action's turn.

use std::sync::atomic::Ordering;

use codecs::Seal;
use codecs::{Codec, TensorView};
use rayon::ThreadPool;
use schema::{ActionId, Bytes, Direction};

use super::gate::{Aborted, Gate, Turn};
use super::injection::Injected;
use super::link::Throttle;
use super::memory::Memory;
use super::widened::with_operands;
use crate::device::ActionError;
use crate::device::forms::{Form, Forms};
use crate::device::script::{CodecWork, CopyWork, Packing, Script, Work};
use crate::network::{Network, Operands};

pub(super) enum Interrupted {
    Aborted,
    Failed(ActionError),
}

impl From<Aborted> for Interrupted {
    fn from(_: Aborted) -> Self {
        Self::Aborted
    }
}

impl<E: Into<ActionError>> From<E> for Interrupted {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Memory of one lane for what its codecs and ops work in.
pub(super) struct Workbench {
    pub small: Vec<u8>,
    pub raw: Vec<u8>,
    /// What ops compute on where operands are stored in 16 bits.
    pub cells: Vec<f32>,
}

impl Workbench {
    pub fn bytes(&self) -> usize {
        self.small.len() + self.raw.len() + size_of_val(&self.cells[..])
    }
}

pub(super) struct ActionContext<'a> {
    pub network: &'a Network,
    pub script: Script,
    pub memory: Memory,
    pub throttle: Throttle,
    pub forms: Forms,
    /// The threads of codecs; none where the plan has no codec.
    pub threads: Option<ThreadPool>,
}

impl ActionContext<'_> {
    /// Does what an action is for. Returns the bytes that went over the link.
    pub fn act(
        &self,
        gate: &Gate,
        id: ActionId,
        turn: &mut Turn,
        bench: &mut Workbench,
        damage: Injected,
    ) -> Result<u64, Interrupted> {
        match &self.script.work[id.index()] {
            Work::Op(work) => {
                let run = |operands: Operands<'_>| self.network.run_op(work.op, operands);
                with_operands((&self.memory, self.network), turn, work, &mut bench.cells, run)?;
                Ok(0)
            }
            Work::Copy(_) if damage.link_fails => Err(ActionError::Link.into()),
            Work::Copy(work) => {
                self.check_host(work.host.bytes, damage)?;
                match (work.direction, &work.packed_by_host) {
                    (_, None) => self.copy(gate, turn, work),
                    (Direction::D2h, Some(packing)) => {
                        self.copy_and_pack(gate, turn, (work, packing), bench, damage)
                    }
                    (Direction::H2d, Some(packing)) => {
                        self.unpack_and_copy(gate, turn, (work, packing), bench)
                    }
                }
            }
            Work::Compress(work) => self.compress(gate, turn, work, bench, damage),
            Work::Decompress(work) => self.decompress(gate, turn, work),
        }
    }

    fn check_host(&self, bytes: usize, damage: Injected) -> Result<(), ActionError> {
        match damage.no_host_memory {
            true => Err(ActionError::HostMemory { needed: Bytes(bytes as u64) }),
            false => Ok(()),
        }
    }

    /// A copy of a tensor, or of as much as there is of its compressed form.
    fn copy(&self, gate: &Gate, turn: &mut Turn, work: &CopyWork) -> Result<u64, Interrupted> {
        let bytes = match work.form {
            Some(form) => self.forms.get(form).copied_bytes(work.device.bytes),
            None => work.device.bytes,
        };
        let waited = turn.waited;
        let (from, to) = match work.direction {
            Direction::D2h => self.memory.outward(turn, work),
            Direction::H2d => self.memory.inward(turn, work),
        };
        self.throttle.copy(gate, work.direction, waited, &from[..bytes], &mut to[..bytes])?;
        Ok(bytes as u64)
    }

    /// A copy that the host's processor makes smaller when it has arrived.
    fn copy_and_pack(
        &self,
        gate: &Gate,
        turn: &mut Turn,
        (work, packing): (&CopyWork, &Packing),
        bench: &mut Workbench,
        damage: Injected,
    ) -> Result<u64, Interrupted> {
        let waited = turn.waited;
        let (from, to) = self.memory.outward(turn, work);
        let arrived = &mut bench.raw[..from.len()];
        self.throttle.copy(gate, work.direction, waited, from, arrived)?;
        let small = self.pack(packing, arrived, &mut bench.small)?;
        if work.form.is_some_and(|form| self.forms.keep(form, small, arrived, to)) {
            apply(to, damage);
        }
        Ok(from.len() as u64)
    }

    /// A copy of what the host's processor brings back first.
    fn unpack_and_copy(
        &self,
        gate: &Gate,
        turn: &mut Turn,
        (work, packing): (&CopyWork, &Packing),
        bench: &mut Workbench,
    ) -> Result<u64, Interrupted> {
        let waited = turn.waited;
        let (from, to) = self.memory.inward(turn, work);
        match work.form.map(|form| self.forms.take(form)).unwrap_or_default() {
            Form::Small(seal) => {
                let raw = &mut bench.raw[..to.len()];
                self.unpack(packing, seal, from, raw)?;
                self.throttle.copy(gate, work.direction, waited, raw, to)?;
            }
            Form::Kept(raw) => self.throttle.copy(gate, work.direction, waited, &raw, to)?,
            Form::None | Form::Raw => return Err(Form::never_made(self.codec(packing).id()).into()),
        }
        Ok(to.len() as u64)
    }

    fn compress(
        &self,
        gate: &Gate,
        turn: &mut Turn,
        work: &CodecWork,
        bench: &mut Workbench,
        damage: Injected,
    ) -> Result<u64, Interrupted> {
        self.check_host(work.raw.bytes, damage)?;
        let (raw, to, host) = self.memory.compressing(turn, work);
        let small = self.pack(&work.packing, raw, &mut bench.small)?;
        if let Some(to) = to.get_mut(..small.len()) {
            *self.forms.get(work.form) = Form::small(small, to);
            apply(to, damage);
            return Ok(0);
        }
        if host.len() < raw.len() {
            // Only a codec of fixed rate has none, for which enough was reserved.
            let (needed, available) = (small.len(), to.len());
            return Err(codecs::Error::OutputTooSmall { needed, available }.into());
        }
        self.forms.fallbacks.fetch_add(1, Ordering::Relaxed);
        self.throttle.copy(gate, Direction::D2h, true, raw, host)?;
        *self.forms.get(work.form) = Form::Raw;
        Ok(raw.len() as u64)
    }

    fn decompress(
        &self,
        gate: &Gate,
        turn: &mut Turn,
        work: &CodecWork,
    ) -> Result<u64, Interrupted> {
        let (small, host, raw) = self.memory.decompressing(turn, work);
        match self.forms.take(work.form) {
            Form::Small(seal) => self.unpack(&work.packing, seal, small, raw)?,
            Form::Raw => {
                let host = &host[..raw.len()];
                self.throttle.copy(gate, Direction::H2d, true, host, raw)?;
                return Ok(raw.len() as u64);
            }
            Form::None | Form::Kept(_) => {
                return Err(Form::never_made(self.codec(&work.packing).id()).into());
            }
        }
        Ok(0)
    }

    fn codec(&self, packing: &Packing) -> &dyn Codec {
        self.script.codecs[packing.codec].as_ref()
    }

    fn pack<'b>(
        &self,
        packing: &Packing,
        raw: &[u8],
        out: &'b mut [u8],
    ) -> Result<&'b [u8], codecs::Error> {
        let view = TensorView::new(&packing.layout, raw)?;
        let codec = self.codec(packing);
        let length = match &self.threads {
            Some(threads) => threads.install(|| codec.compress(view, out))?,
            None => codec.compress(view, out)?,
        };
        Ok(&out[..length])
    }

    fn unpack(
        &self,
        packing: &Packing,
        seal: Seal,
        memory: &[u8],
        raw: &mut [u8],
    ) -> Result<(), codecs::Error> {
        let payload = seal.open(memory)?;
        let codec = self.codec(packing);
        match &self.threads {
            Some(threads) => threads.install(|| codec.decompress(payload, &packing.layout, raw)),
            None => codec.decompress(payload, &packing.layout, raw),
        }
    }
}

/// Damages a compressed form where that is to go wrong.
fn apply(small: &mut [u8], damage: Injected) {
    if let Some(byte) = small.first_mut().filter(|_| damage.damages_form) {
        *byte ^= 0x80;
    }
}
