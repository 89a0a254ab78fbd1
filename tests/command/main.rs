//! Whole-command tests: what a user types, and what comes of it.

mod acceptance;
mod bench;
mod captured;
mod codecs;
mod compare;
mod compression;
mod console;
mod contract;
mod cuda;
mod cuda_failures;
mod cuda_libraries;
mod documentation;
mod epochs;
mod explain;
mod failures;
mod fit;
mod forecast;
mod frontier;
mod import;
mod limits;
mod lists;
mod map;
mod measured;
mod misuse;
mod modelled;
mod newcomer;
mod onnx;
mod outputs;
mod plan;
mod policies;
mod ranks;
mod recordings;
mod report;
mod sandbox;
mod scatter;
mod shell;
mod state;
mod streams;
mod study;
mod table;
mod training;

#[path = "../../codecs/tests/kernels/emulator.rs"]
#[allow(dead_code, reason = "only its libraries are used here")]
mod emulator;
#[path = "../../runtime/tests/cuda/stand_in.rs"]
mod stand_in;
