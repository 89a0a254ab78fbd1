//! Tensors that are there between iterations, and where.

use schema::{BufferId, Plan, TensorId, Trace};

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

/// Where a tensor is between iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resident {
    Device(Place),
    Host(Place),
}

/// Where tensors are when an iteration begins and when it ends.
pub(crate) struct Residents {
    before: Vec<Option<Resident>>,
    after: Vec<Option<Resident>>,
    /// Constants that end elsewhere than they begin: from where, to where.
    moved: Vec<(Place, Place)>,
}

impl Residents {
    pub fn new(plan: &Plan, trace: &Trace) -> Result<Self, DeviceError> {
        let tensors = trace.tensors.len();
        let before = places(plan, tensors, false)?;
        let after = places(plan, tensors, true)?;
        let moved = before.iter().zip(&after).filter_map(|places| match places {
            (Some(Resident::Device(before)), Some(Resident::Device(after))) => {
                (before != after).then_some((*after, *before))
            }
            // What is on the host ends where it begins, as the contract has it.
            _ => None,
        });
        Ok(Self { moved: moved.collect(), before, after })
    }

    /// Where a tensor is that is there now, and is to have `cells` cells.
    pub fn place(
        &self,
        (network, state): (&Network, State),
        tensor: TensorId,
        cells: usize,
    ) -> Result<Resident, AccessError> {
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
    ) -> Result<Resident, AccessError> {
        if self.before.get(tensor.index()).copied().flatten().is_none() {
            return Err(AccessError::NotThere { tensor, when: "when an iteration begins" });
        }
        self.place(now, tensor, cells)
    }

    /// All that is there when the iteration begins.
    pub fn before(&self) -> impl Iterator<Item = (TensorId, Resident)> {
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

/// Where each tensor is that is there at the start, or at the end.
fn places(plan: &Plan, tensors: usize, end: bool) -> Result<Vec<Option<Resident>>, DeviceError> {
    // One at most, as the contract has it.
    let mut places = vec![None; tensors];
    let of = |address: u64, bytes: schema::Bytes| Place {
        begin: address as usize,
        bytes: bytes.0 as usize,
    };
    for (index, buffer) in plan.buffers.iter().enumerate() {
        let Some(tensor) = buffer.tensor else { continue };
        if !(if end { buffer.at_end } else { buffer.at_start }) {
            continue;
        }
        if !buffer.address.is_multiple_of(4) {
            let why = "does not lie at a multiple of 4 bytes";
            return Err(DeviceError::Buffer { buffer: BufferId::from_index(index), why });
        }
        places[tensor.index()] = Some(Resident::Device(of(buffer.address, buffer.bytes)));
    }
    let hosts = plan.host_buffers.iter().filter(|b| if end { b.at_end } else { b.at_start });
    for host in hosts {
        places[host.tensor.index()] = Some(Resident::Host(of(host.address, host.bytes)));
    }
    Ok(places)
}
