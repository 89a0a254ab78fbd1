//! What of CUDA can be tested without a device.

mod bf16;
mod bits;
mod commands;
mod compile;
mod device;
mod dnn;
mod graph;
mod inside;
mod layers;
mod models;
mod opening;
mod sizes;
mod stand_in;
mod symbols;

#[path = "../../../codecs/tests/kernels/emulator.rs"]
mod emulator;
// Plans are made as for the host device.
#[path = "../host/networks.rs"]
#[allow(dead_code)]
mod networks;
#[path = "../host/problem.rs"]
#[allow(dead_code)]
mod problem;
#[path = "../host/reference.rs"]
#[allow(dead_code)]
mod reference;
