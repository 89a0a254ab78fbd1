//! Activations and gradients stored in 16 bits (bfloat16), computed in 32.
//!
//! What an op reads is widened, which is exact; the op computes in 32 bits, sums included; and what
//! it writes is rounded once, to nearest and ties to even. That is the whole of it, so that every
//! device does the same, and a recomputed tensor has the bits that it had.

use half::bf16;
use schema::TensorId;

use super::Network;

/// Rounds cells to what 16 bits hold.
pub(crate) fn round(cells: &mut [f32]) {
    cells.iter_mut().for_each(|cell| *cell = bf16::from_f32(*cell).to_f32());
}

/// Stores cells in 16 bits.
pub(crate) fn narrow(cells: &[f32], bytes: &mut [u8]) {
    for (cell, to) in cells.iter().zip(bytes.as_chunks_mut::<2>().0) {
        *to = bf16::from_f32(*cell).to_ne_bytes();
    }
}

/// What cells of 16 bits hold.
pub(crate) fn widen(bytes: &[u8], cells: &mut [f32]) {
    for (cell, from) in cells.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *cell = bf16::from_ne_bytes(*from).to_f32();
    }
}

/// Stores a tensor's elements as it has them.
pub(crate) fn store(network: &Network, tensor: TensorId, cells: &[f32], bytes: &mut [u8]) {
    if network.tensor(tensor).is_narrow() {
        return narrow(cells, bytes);
    }
    for (cell, to) in cells.iter().zip(bytes.as_chunks_mut::<4>().0) {
        *to = cell.to_ne_bytes();
    }
}

/// What a tensor holds that is stored so.
pub(crate) fn load(network: &Network, tensor: TensorId, bytes: &[u8], cells: &mut [f32]) {
    if network.tensor(tensor).is_narrow() {
        return widen(bytes, cells);
    }
    for (cell, from) in cells.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *cell = f32::from_ne_bytes(*from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Tensor;
    use crate::network::tests::tiny;
    use proptest::prelude::*;
    use schema::{Dtype, Role};

    #[test]
    fn what_needs_its_digits_keeps_them() {
        let network = tiny(2, 32).in_bf16();
        for tensor in network.tensors() {
            let is_exact = matches!(tensor.role, Role::Parameter | Role::OptimizerState)
                || tensor.name == "loss"
                || tensor.name.ends_with(".saved")
                || tensor.dtype == Dtype::I32;
            assert_eq!(tensor.is_narrow(), !is_exact, "{}", tensor.name);
        }
        // What an output lies over has its size.
        for pair in network.ops().iter().filter_map(|op| op.in_place) {
            let [input, output] = [pair.input, pair.output].map(|id| network.tensor(id).dtype);
            assert_eq!(input, output);
        }
        let inputs = network.inputs().map(|id| network.tensor(id));
        assert!(inputs.into_iter().any(Tensor::is_narrow), "what images are given as");
    }

    proptest! {
        /// Rounding once and twice is the same, what is stored is what was rounded, and it is the
        /// nearest of what can be stored.
        #[test]
        fn what_is_stored_is_what_was_rounded(bits: u32) {
            let value = f32::from_bits(bits);
            let mut rounded = [value];
            round(&mut rounded);
            let mut bytes = [0; 2];
            narrow(&[value], &mut bytes);
            let mut wide = [0.0];
            widen(&bytes, &mut wide);
            prop_assert_eq!(wide[0].to_bits(), rounded[0].to_bits());
            prop_assert_eq!(value.is_nan(), wide[0].is_nan());
            let mut again = rounded;
            round(&mut again);
            prop_assert_eq!(again[0].to_bits(), rounded[0].to_bits());
            if value.is_finite() && rounded[0].is_finite() {
                let below = f32::from_bits(bits & 0xffff_0000);
                let above = f32::from_bits((bits & 0xffff_0000).wrapping_add(0x1_0000));
                let off = |other: f32| (f64::from(other) - f64::from(value)).abs();
                prop_assert!(off(rounded[0]) <= off(below));
                prop_assert!(off(rounded[0]) <= off(above) || !above.is_finite());
            }
        }
    }
}
