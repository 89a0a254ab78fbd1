//! All codecs.

use crate::bytewise::Bytewise;
use crate::{Codec, CodecId, Error};

/// A codec as a list shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// How its name and parameter are written.
    pub form: &'static str,
    /// One of its names, with a common parameter.
    pub example: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Where it is described.
    pub source: &'static str,
}

/// All codecs that this build has.
pub fn all() -> &'static [Entry] {
    // Last in the list, so that a build without it has all but the last.
    let left_out = if cfg!(feature = "zstd") { 0 } else { 1 };
    &ALL[..ALL.len() - left_out]
}

const fn entry(
    form: &'static str,
    example: &'static str,
    summary: &'static str,
    source: &'static str,
) -> Entry {
    Entry { form, example, summary, source }
}

const ALL: [Entry; 11] = [
    entry("zvc", "zvc", "a bitmap and the non-zeros", "cDMA, HPCA 2018"),
    entry("rle", "rle", "run lengths and the non-zeros", "cDMA, HPCA 2018"),
    entry("csr", "csr", "compressed sparse rows of 256 elements", "Gist, ISCA 2018"),
    entry("lz4", "lz4", "LZ4 in blocks of 64 KiB", "LZ4 block format"),
    entry("zfp:RATE[:2d|:3d]", "zfp:8", "ZFP at RATE bits per value", "Lindstrom, TVCG 2014"),
    entry(
        "sz:BOUND[:2d|:3d]",
        "sz:1e-3",
        "SZ within an absolute error of BOUND",
        "cuSZ, PACT 2020",
    ),
    entry(
        "sz-1.4:BOUND",
        "sz-1.4:1e-3",
        "SZ as it was before, which moves zeros within BOUND",
        "SZ 1.4, IPDPS 2017",
    ),
    entry(
        "jpeg-act-l",
        "jpeg-act-l",
        "JPEG-ACT for the first epochs: cosine transforms of 8-bit values, and ZVC",
        "JPEG-ACT, ISCA 2020",
    ),
    entry(
        "jpeg-act-h",
        "jpeg-act-h",
        "JPEG-ACT for the epochs after them, with larger errors",
        "JPEG-ACT, ISCA 2020",
    ),
    entry(
        "ibp[:CHUNK]",
        "ibp",
        "invariant bits of rows left out, by chunks of 1, 2, 4 or 8 bytes",
        "Invariant Bit Packing",
    ),
    entry("zstd", "zstd", "Zstandard in blocks of 256 KiB, for reference", "RFC 8878"),
];

/// The codec of this name and parameter.
///
/// # Errors
/// [`Error::NotBuilt`] where this build leaves it out.
pub fn codec(id: CodecId) -> Result<Box<dyn Codec>, Error> {
    Ok(match id {
        CodecId::Zvc => Box::new(crate::zvc::Zvc),
        CodecId::Rle => Box::new(crate::rle::Rle),
        CodecId::Csr => Box::new(crate::csr::Csr),
        CodecId::Lz4 => Box::new(Bytewise::<crate::lz4::Lz4>::new()),
        #[cfg(feature = "zstd")]
        CodecId::Zstd => Box::new(Bytewise::<crate::zstandard::Zstd>::new()),
        #[cfg(not(feature = "zstd"))]
        codec @ CodecId::Zstd => return Err(Error::NotBuilt { codec, feature: "zstd" }),
        CodecId::Zfp { rate, dims } => Box::new(crate::zfp::Zfp::new(rate, dims)),
        CodecId::Sz { bound, dims } => Box::new(crate::sz::Sz::new(bound, dims)),
        CodecId::Sz14 { bound } => Box::new(crate::sz::Sz::as_it_was(bound)),
        CodecId::JpegAct { table } => Box::new(crate::jpeg_act::JpegAct { table }),
        CodecId::Ibp { chunk } => Box::new(crate::ibp::Ibp::new(chunk)),
    })
}
