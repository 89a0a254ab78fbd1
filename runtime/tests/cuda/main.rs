//! What of CUDA can be tested without a device.

mod compile;
