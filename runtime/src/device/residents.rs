//! Tensors that are there between iterations, and where.

use schema::{Buffer, BufferId, Plan, TensorId, Trace};

use super::script::Place;
use super::{AccessError, DeviceError};
use crate::network::Network;

/// What a device's arena holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// What the first iteration begins with.
    New,
    /// What an iteration ended with.
    Between,
    /// What an iteration left that did not end.
    Unusable,
}

/// Where tensors are when an iteration begins and when it ends.
pub(crate) struct Residents {
    before: Vec<Option<Place>>,
    after: Vec<Option<Place>>,
    /// Constants that end elsewhere than they begin: from where, to where.
    moved: Vec<(Place, Place)>,
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

    /// Where a tensor is that is there now, and is to have `cells` cells.
    pub fn place(
        &self,
        (network, state): (&Network, State),
        tensor: TensorId,
        cells: usize,
    ) -> Result<Place, AccessError> {
        let (places, when) = match state {
            State::New => (&self.before, "before the first iteration"),
            State::Between => (&self.after, "between iterations"),
            State::Unusable => return Err(AccessError::Unusable),
        };
        let place = places.get(tensor.index()).copied().flatten();
        let place = place.ok_or(AccessError::NotThere { tensor, when })?;
        match network.tensor(tensor).elements {
            expected if expected == cells => Ok(place),
            expected => Err(AccessError::Length { tensor, expected, found: cells }),
        }
    }

    /// The same of a tensor that the next iteration begins with.
    pub fn place_to_write(
        &self,
        now: (&Network, State),
        tensor: TensorId,
        cells: usize,
    ) -> Result<Place, AccessError> {
        if self.before.get(tensor.index()).copied().flatten().is_none() {
            return Err(AccessError::NotThere { tensor, when: "when an iteration begins" });
        }
        self.place(now, tensor, cells)
    }

    /// All that is there when the iteration begins.
    pub fn before(&self) -> impl Iterator<Item = (TensorId, Place)> {
        let places = self.before.iter().enumerate();
        places.filter_map(|(id, place)| Some((TensorId::from_index(id), (*place)?)))
    }

    /// Puts constants where the next iteration begins with them. Where one belongs, another may
    /// lie, so that they are taken out together.
    pub fn put_back<A, E>(
        &self,
        arena: &mut A,
        read: impl Fn(&mut A, Place) -> Result<Vec<u8>, E>,
        write: impl Fn(&mut A, Place, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let taken = self.moved.iter().map(|(from, _)| read(arena, *from));
        let taken: Vec<_> = taken.collect::<Result<_, E>>()?;
        let mut placed = self.moved.iter().zip(taken);
        placed.try_for_each(|((_, to), bytes)| write(arena, *to, &bytes))
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
