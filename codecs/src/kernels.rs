//! The codecs as CUDA kernels: their source, and what to launch.
//!
//! A kernel lies beside its codec (`zvc.cu` beside `zvc.rs`) and makes the same bytes. Constants
//! that both need are generated into the source from the Rust ones ([`Program::source`]), so that
//! they cannot differ. Nothing here needs CUDA: whoever has a device compiles [`programs`] with
//! NVRTC and carries out the [`Launches`] that [`compress`] and [`decompress`] say. The source
//! includes no header and uses few enough features that a C++ compiler and a small emulator can run
//! it, too, which is how it is tested where there is no GPU.
//!
//! Kernels walk over their work with the grid as stride: any number of blocks of threads does all
//! of it, so that a codec can be held to a share of a device's multiprocessors.
//!
//! Left out: compressing with LZ4 and IBP, which are for data that a host prepares; ZSTD.

mod codecs;
mod launch;
mod tables;

pub use codecs::{compress, decompress};
pub use launch::{Argument, Launch, Launches};
pub use tables::{TableArgument, gather};

use schema::Dtype;

/// Source of kernels that are compiled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    name: &'static str,
    parts: &'static [&'static str],
}

const PAYLOAD: &str = include_str!("payload.cu");
const PACK: &str = include_str!("pack.cu");

/// What every program begins with, after the constants: types, scans, conversions of elements.
const PRELUDE: &str = include_str!("kernels/prelude.cu");

const PROGRAMS: [Program; 8] = [
    Program { name: "payload", parts: &[PAYLOAD] },
    Program { name: "zvc", parts: &[PAYLOAD, PACK, include_str!("zvc.cu")] },
    Program { name: "rle", parts: &[PAYLOAD, PACK, include_str!("rle.cu")] },
    Program { name: "csr", parts: &[PAYLOAD, PACK, include_str!("csr.cu")] },
    Program { name: "lz4", parts: &[PAYLOAD, include_str!("lz4.cu")] },
    Program { name: "zfp", parts: &[include_str!("zfp.cu")] },
    Program { name: "ibp", parts: &[include_str!("ibp/ibp.cu")] },
    Program { name: "sz", parts: &[PAYLOAD, include_str!("sz/sz.cu")] },
];

/// All programs.
pub fn programs() -> &'static [Program] {
    &PROGRAMS
}

impl Program {
    /// A program of kernels besides the codecs', under a name of its own, which may use what the
    /// codecs' begin with.
    pub const fn new(name: &'static str, parts: &'static [&'static str]) -> Self {
        Self { name, parts }
    }

    /// Its name, which [`Launch::program`] gives.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// CUDA C++ without any include, to be compiled as C++17. Sums and products are intrinsics
    /// where bits count, so that no option for contraction changes them; denormal numbers must be
    /// kept (`--ftz=false`, which is the default).
    pub fn source(&self) -> String {
        let mut source = String::from("// Generated: the codecs' constants.\n");
        for (name, value) in constants() {
            source.push_str(&format!("constexpr unsigned int {name} = {value};\n"));
        }
        for part in std::iter::once(&PRELUDE).chain(self.parts) {
            source.push('\n');
            source.push_str(part);
        }
        source
    }

    /// The names of its kernels, in the order of the source. Those that a macro makes are
    /// listed where the macro is used.
    pub fn kernels(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.lines()).flat_map(kernels_of).collect()
    }
}

/// The kernels that a line begins or, by a macro for several, makes.
fn kernels_of(line: &str) -> Vec<String> {
    let arguments = |line: &str, macro_name: &str| {
        let inside = line.strip_prefix(macro_name)?.strip_suffix(')')?;
        Some(inside.split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>())
    };
    let written = ["KERNEL ", "KERNEL_OF_128 ", "KERNEL_OF_ONE_BLOCK "];
    let written = written.iter().find_map(|word| line.strip_prefix(word));
    if let Some(name) = written.and_then(|rest| rest.split_once('(')) {
        return vec![name.0.to_owned()];
    }
    if let Some(of) = arguments(line, "PACK_KERNELS(") {
        return ["sizes", "compress", "decompress"]
            .map(|what| format!("{}_{what}_{}", of[0], of[3]))
            .to_vec();
    }
    if let Some(of) = arguments(line, "ZFP_KERNELS(") {
        return ["compress", "decompress"].map(|what| format!("zfp_{what}_{}", of[0])).to_vec();
    }
    Vec::new()
}

/// The number that stands for an element type in kernels.
pub(crate) fn dtype_number(dtype: Dtype) -> u64 {
    let floats = [Dtype::F32, Dtype::F16, Dtype::Bf16];
    floats.iter().position(|other| *other == dtype).unwrap_or(usize::MAX) as u64
}

/// What kernels and codecs must agree on.
fn constants() -> Vec<(&'static str, u64)> {
    let mut all = vec![
        ("F32", dtype_number(Dtype::F32)),
        ("F16", dtype_number(Dtype::F16)),
        ("BF16", dtype_number(Dtype::Bf16)),
        ("PAYLOAD_ALIGN", crate::payload::ALIGN as u64),
        ("PACK_BLOCK", crate::pack::BLOCK as u64),
        ("PACK_LANES", crate::pack::LANES as u64),
        ("CSR_ROW", crate::csr::ROW as u64),
        ("LZ4_BLOCK", crate::lz4::BLOCK_BYTES as u64),
        ("IBP_KIND", crate::ibp::KIND_BYTES as u64),
        ("IBP_ALIGN", crate::ibp::ALIGN as u64),
        ("IBP_LINE", crate::ibp::LINE as u64),
        ("IBP_WARPS", tables::WARPS),
    ];
    all.extend(crate::sz::kernel_constants());
    all
}
