//! What of CUDA can be tested without a device.

mod compile;
mod layers;
mod networks;

#[path = "../../../codecs/tests/kernels/emulator.rs"]
mod emulator;
