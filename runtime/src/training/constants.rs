//! What lasts from one iteration to the next, carried from device to device.

use schema::TensorId;

use crate::device::{AccessError, Device};
use crate::network::Network;

/// A network's constants: its weights, their momentum, and what the last iteration was given.
#[derive(Debug, Clone, Default)]
pub struct Constants(Vec<(TensorId, Vec<f32>)>);

impl Constants {
    /// Those of a device.
    ///
    /// # Errors
    /// If the device runs another network, or has failed.
    pub fn read(device: &mut dyn Device, network: &Network) -> Result<Self, AccessError> {
        let mut constants = Vec::new();
        for (index, tensor) in network.tensors().iter().enumerate() {
            if tensor.is_constant() {
                let (id, mut cells) = (TensorId::from_index(index), vec![0.0; tensor.elements]);
                device.read(id, &mut cells)?;
                constants.push((id, cells));
            }
        }
        Ok(Self(constants))
    }

    /// Gives them to a device, which goes on as the one that they are from would have. Where its network has
    /// another batch, what iterations are given is left out.
    ///
    /// # Errors
    /// As for [`Constants::read`].
    pub fn write(&self, device: &mut dyn Device, network: &Network) -> Result<(), AccessError> {
        let fits = |id: TensorId, cells: &[f32]| {
            network.tensors().get(id.index()).is_some_and(|tensor| tensor.elements == cells.len())
        };
        let mut fitting = self.0.iter().filter(|(id, cells)| fits(*id, cells));
        fitting.try_for_each(|(id, cells)| device.write(*id, cells))
    }
}

/// Bit for bit: indices in cells are no numbers.
impl PartialEq for Constants {
    fn eq(&self, other: &Self) -> bool {
        let bits = |(id, cells): &(TensorId, Vec<f32>)| {
            (*id, cells.iter().map(|cell| cell.to_bits()).collect::<Vec<_>>())
        };
        self.0.iter().map(bits).eq(other.0.iter().map(bits))
    }
}
