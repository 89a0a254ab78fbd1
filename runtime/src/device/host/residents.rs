//! Tensors that are there between iterations, and where.

use schema::{Buffer, BufferId, Plan, TensorId, Trace};

use super::memory::Arena;
use super::script::Place;
use crate::device::DeviceError;

/// Where tensors are when an iteration begins and when it ends.
pub(crate) struct Residents {
    before: Vec<Option<Place>>,
    after: Vec<Option<Place>>,
    /// Constants that end elsewhere than they begin: from where, to where.
    pub(crate) moved: Vec<(Place, Place)>,
}

impl Residents {
    pub fn new(plan: &Plan, trace: &Trace) -> Result<Self, DeviceError> {
        let tensors = trace.tensors.len();
        let before = places(plan, tensors, |buffer| buffer.at_start)?;
        let after = places(plan, tensors, |buffer| buffer.at_end)?;
        let moved = before.iter().zip(&after).filter_map(|(before, after)| {
            let (before, after) = ((*before)?, (*after)?);
            (before != after).then_some((after, before))
        });
        Ok(Self { moved: moved.collect(), before, after })
    }

    pub fn place_before(&self, tensor: TensorId) -> Option<Place> {
        self.before.get(tensor.index()).copied().flatten()
    }

    pub fn place_after(&self, tensor: TensorId) -> Option<Place> {
        self.after.get(tensor.index()).copied().flatten()
    }

    /// All that is there when the iteration begins.
    pub fn before(&self) -> impl Iterator<Item = (TensorId, Place)> {
        let places = self.before.iter().enumerate();
        places.filter_map(|(id, place)| Some((TensorId::from_index(id), (*place)?)))
    }

    /// Puts constants where the next iteration begins with them. Where one belongs, another may
    /// lie, so that they are taken out together.
    pub(super) fn put_back(&self, arena: &mut Arena) {
        let taken: Vec<Vec<u8>> =
            self.moved.iter().map(|(after, _)| arena.bytes(*after).to_vec()).collect();
        for ((_, before), data) in self.moved.iter().zip(taken) {
            arena.bytes(*before).copy_from_slice(&data);
        }
    }
}

/// The place of each tensor in one of the buffers that `is` chooses.
fn places(
    plan: &Plan,
    tensors: usize,
    is: impl Fn(&Buffer) -> bool,
) -> Result<Vec<Option<Place>>, DeviceError> {
    // One at most, as the contract has it.
    let mut holders: Vec<Option<BufferId>> = vec![None; tensors];
    for (index, buffer) in plan.buffers.iter().enumerate().filter(|(_, buffer)| is(buffer)) {
        if let Some(tensor) = buffer.tensor {
            holders[tensor.index()] = Some(BufferId::from_index(index));
        }
    }
    let place = |id: BufferId| {
        let buffer = &plan.buffers[id.index()];
        let place = Place { begin: buffer.address as usize, bytes: buffer.bytes.0 as usize };
        match place.begin.is_multiple_of(4) {
            true => Ok(place),
            false => Err(DeviceError::Buffer {
                buffer: id,
                why: "does not lie at a multiple of 4 bytes",
            }),
        }
    };
    holders.into_iter().map(|holder| holder.map(place).transpose()).collect()
}
