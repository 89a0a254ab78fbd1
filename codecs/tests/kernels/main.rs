//! Kernels make the same bytes as codecs, run on an emulator (see `emulator.h`).

mod codec;
mod damage;
mod emulator;
mod gather;
mod same_bytes;
