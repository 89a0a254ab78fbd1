//! nvCOMP, NVIDIA's library of codecs, to compare ours with. Nothing else uses it, and nothing fails
//! without it.
//!
//! A tensor is cut into chunks of 64 KiB, which its headers recommend, and all are compressed or brought
//! back by one call on a stream. Its options are its headers' defaults, but for the width of elements where
//! a format asks for one.
//!
//! # Why this is sound
//!
//! The version is asked for first, and one whose headers have not been read is refused by name. Addresses
//! are those of memory that outlives the calls' work, aligned as the library says.
#![allow(unsafe_code)]

mod abi;
mod runs;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;

use codecs::layout::width;
use cudarc::driver::sys::CUstream;
use schema::Dtype;

use super::library::{self, About, Loaded};
use super::{CudaError, Library};
use abi::{Alignments, Functions, Options, Status};

/// Bytes of a chunk, as the headers recommend.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Versions whose headers have been read, without what says the patch.
const KNOWN: [u32; 5] = [5000, 5100, 5200, 5300, 6000];

/// A lossless format of nvCOMP's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// LZ4 of bytes.
    Lz4,
    /// Entropy coding of bytes.
    Ans,
    /// NVIDIA's own, for numbers: of elements' bits, as integers.
    Bitcomp,
}

impl Format {
    /// All that are compared.
    pub const ALL: [Self; 3] = [Self::Lz4, Self::Ans, Self::Bitcomp];

    /// As the library's functions have it in their names.
    fn symbol(self) -> &'static str {
        match self {
            Self::Lz4 => "LZ4",
            Self::Ans => "ANS",
            Self::Bitcomp => "Bitcomp",
        }
    }

    /// Options of compressing. Decompressing takes none.
    fn options(self, dtype: Dtype) -> Options {
        // `nvcompType_t`, the same in all versions: of 1, 2, 4 and 8 bytes without sign.
        const UNSIGNED: [u32; 4] = [1, 3, 5, 7];
        Options::of_element(match self {
            Self::Lz4 | Self::Ans => 0,
            Self::Bitcomp => UNSIGNED[width(dtype).trailing_zeros().min(3) as usize],
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lz4 => "lz4",
            Self::Ans => "ans",
            Self::Bitcomp => "bitcomp",
        })
    }
}

/// The library, loaded. Its functions are as [`Format::ALL`].
pub struct Nvcomp(Loaded<[Functions; 3]>);

/// Bytes and alignments that a format wants for a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Needs {
    chunks: usize,
    /// Room for each chunk's compressed form, up to which it may grow.
    room: usize,
    /// Of tensors, compressed forms, and memory to work in.
    alignments: Alignments,
    /// Memory to work in, either way.
    temp: [usize; 2],
}

impl Nvcomp {
    /// The library that is there.
    ///
    /// # Errors
    ///
    /// If there is none, or if its version is not known here, or something is missing in it.
    pub fn open() -> Result<Self, CudaError> {
        library::open(Library::Nvcomp, about).map(Self)
    }

    /// Its version, such as `6.0.0`.
    pub fn version(&self) -> String {
        self.0.version.clone()
    }

    /// Its file and its version.
    pub(super) fn said(&self) -> (PathBuf, String) {
        self.0.said()
    }

    fn functions(&self, format: Format) -> &Functions {
        &self.0.functions[format as usize]
    }

    /// What the library wants for so many bytes. It needs no device to say so.
    fn needs(
        &self,
        format: Format,
        dtype: Dtype,
        bytes: usize,
        stream: CUstream,
    ) -> Result<Needs, CudaError> {
        let functions = self.functions(format);
        let (compress, decompress) = (&functions.compress, &functions.decompress);
        let options = format.options(dtype);
        let chunks = bytes.div_ceil(CHUNK_BYTES);
        let (mut to, mut from, mut room) = (Alignments::default(), Alignments::default(), 0);
        // SAFETY: each writes one value.
        let [to_said, from_said, room_said] = unsafe {
            [
                (compress.alignments)(options, &mut to),
                (decompress.alignments)(Options::default(), &mut from),
                (functions.max_output)(CHUNK_BYTES, options, &mut room),
            ]
        };
        let what = "asking nvCOMP what it needs";
        [to_said, from_said, room_said].into_iter().try_for_each(|said| done(what, said))?;
        let sizes = [chunks, CHUNK_BYTES, bytes];
        let compress = compress.temp_bytes(sizes, options, stream);
        let decompress = decompress.temp_bytes(sizes, Options::default(), stream);
        let temp = |said: Result<usize, Status>| said.map_err(|status| refused(what, status));
        Ok(Needs {
            chunks,
            room,
            // Tensors are what compressing reads and decompressing writes.
            alignments: Alignments {
                input: to.input.max(from.output),
                output: to.output.max(from.input),
                temp: to.temp.max(from.temp),
            },
            temp: [temp(compress)?, temp(decompress)?],
        })
    }
}

/// What the library says of itself, if it is of a version that is known.
fn about(library: &libloading::Library) -> Result<About<[Functions; 3]>, String> {
    let (version, cuda) = abi::versions(library).map_err(|error| error.to_string())?;
    if !KNOWN.contains(&(version / 100 * 100)) {
        let known = KNOWN.map(|known| format!("{}.{}", known / 1000, known / 100 % 10)).join(", ");
        return Err(format!("is version {}, and known here are {known}", text(version)));
    }
    let of = |format| abi::functions(library, version, format).map_err(|error| error.to_string());
    let [lz4, ans, bitcomp] = Format::ALL.map(of);
    Ok(About { functions: [lz4?, ans?, bitcomp?], version: text(version), cuda: cuda / 1000 })
}

/// 5300 as 5.3.0.
fn text(version: u32) -> String {
    format!("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)
}

fn done(what: &'static str, status: Status) -> Result<(), CudaError> {
    if status == 0 { Ok(()) } else { Err(refused(what, status)) }
}

/// A status in words. The library has a function for that, since 5.3 alone.
fn refused(what: &'static str, status: Status) -> CudaError {
    let why = match status {
        10 => "invalid value",
        11 => "not supported",
        12 => "cannot decompress",
        13 => "bad checksum",
        14 => "cannot verify checksums",
        15 => "output buffer too small",
        16 => "wrong header length",
        17 => "alignment",
        18 => "chunk size too large",
        19 => "cannot compress",
        20 => "wrong input length",
        21 => "batch size too large",
        1000 => "CUDA error",
        _ => "an error",
    };
    CudaError::Call { what, why: format!("{why} (status {status} of nvCOMP)") }
}
