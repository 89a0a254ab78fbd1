//! A codec's name and parameter: `zvc`, `zfp:8`, `sz:1e-3:2d`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::Error;
use crate::ibp::ChunkSize;
use crate::jpeg_act::Table;

/// Which codec, with which parameter. Parsed from and printed as `name[:parameter[:dimensions]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants name the fields")]
pub enum CodecId {
    /// `zvc`: zero-value compression, a bitmap and the non-zeros.
    Zvc,
    /// `rle`: run lengths of zeros.
    Rle,
    /// `csr`: compressed sparse rows.
    Csr,
    /// `lz4`: LZ4 in independent blocks.
    Lz4,
    /// `zstd`: Zstandard in independent blocks, as a reference for ratios.
    Zstd,
    /// `zfp:8`, `zfp:8:2d`: ZFP at a fixed rate, in blocks of so many dimensions.
    Zfp { rate: Rate, dims: Dims },
    /// `sz:1e-3`, `sz:1e-3:2d`: SZ within an absolute error, predicting in so many dimensions.
    Sz { bound: ErrorBound, dims: Dims },
    /// `sz-1.4:1e-3`: SZ as it was, which moves zeros within the bound.
    Sz14 { bound: ErrorBound },
    /// `jpeg-act-l`, `jpeg-act-h`: JPEG-ACT, by the table for the first epochs or that for all after.
    JpegAct { table: Table },
    /// `ibp`, `ibp:8`: invariant bit packing, in chunks of 4 bytes unless others are stated.
    Ibp { chunk: ChunkSize },
}

/// Names that [`CodecId`] parses, for messages.
const KNOWN: &str = "zvc, rle, csr, lz4, zstd, zfp:RATE[:2d|:3d], sz:BOUND[:2d|:3d], sz-1.4:BOUND, \
                     jpeg-act-l, jpeg-act-h, ibp[:CHUNK]";

/// In how many dimensions a codec looks at a tensor: its leading dimensions are merged
/// ([`Layout::folded`](crate::Layout::folded)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dims {
    /// One: a sequence.
    #[default]
    One,
    /// Two: rows of the last dimension.
    Two,
    /// Three: planes of the last two dimensions.
    Three,
}

impl Dims {
    /// 1, 2 or 3.
    pub const fn get(self) -> usize {
        self as usize + 1
    }
}

/// Compressed bits per value, in steps of 1/64: ZFP gives each block of 4, 16 or 64 values a whole
/// number of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u16);

impl Rate {
    /// Steps of one bit.
    const STEPS: u16 = 64;

    /// A rate of above 0 and at most 32 bits, if it is a multiple of 1/64.
    pub fn from_bits(bits: f64) -> Option<Self> {
        let steps = bits * f64::from(Self::STEPS);
        let valid = steps >= 1.0 && bits <= 32.0 && steps.fract() == 0.0;
        valid.then_some(Self(steps as u16))
    }

    /// Bits per value.
    pub fn bits(self) -> f64 {
        f64::from(self.0) / f64::from(Self::STEPS)
    }

    /// Bits of a block of 4^dims values, if that is a whole number.
    pub fn block_bits(self, dims: Dims) -> Option<u32> {
        let bits = u32::from(self.0) << (2 * dims.get());
        bits.is_multiple_of(u32::from(Self::STEPS)).then_some(bits / u32::from(Self::STEPS))
    }
}

/// A largest absolute error: finite and above zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorBound(f64);

impl ErrorBound {
    /// The bound, if it is finite and above zero.
    pub fn new(bound: f64) -> Option<Self> {
        (bound.is_finite() && bound > 0.0).then_some(Self(bound))
    }

    /// As a number.
    pub fn get(self) -> f64 {
        self.0
    }
}

// No NaN and no -0.0 inside, so that equal numbers are equal bits.
impl Eq for ErrorBound {}

impl Hash for ErrorBound {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Display for CodecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = match self {
            Self::Zfp { rate, dims } => {
                write!(f, "zfp:{}", rate.bits())?;
                dims
            }
            Self::Sz { bound, dims } => {
                write!(f, "sz:{:e}", bound.get())?;
                dims
            }
            Self::Sz14 { bound } => return write!(f, "sz-1.4:{:e}", bound.get()),
            Self::Ibp { chunk: ChunkSize::Four } => return f.write_str("ibp"),
            Self::Ibp { chunk } => return write!(f, "ibp:{}", chunk.bytes()),
            plain => return f.write_str(plain.name()),
        };
        if *dims == Dims::One { Ok(()) } else { write!(f, ":{}d", dims.get()) }
    }
}

impl FromStr for CodecId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let parameters: Vec<&str> = parts.collect();
        let plain = |id: Self| match parameters.as_slice() {
            [] => Ok(id),
            _ => Err(bad(text, "it takes no parameter")),
        };
        match name {
            "zvc" => plain(Self::Zvc),
            "rle" => plain(Self::Rle),
            "csr" => plain(Self::Csr),
            "lz4" => plain(Self::Lz4),
            "zstd" => plain(Self::Zstd),
            "jpeg-act-l" => plain(Self::JpegAct { table: Table::Low }),
            "jpeg-act-h" => plain(Self::JpegAct { table: Table::High }),
            "ibp" => Ok(Self::Ibp { chunk: chunk(text, &parameters)? }),
            "zfp" => {
                let (bits, dims) = number_and_dims(text, &parameters, "zfp:8 or zfp:8:2d")?;
                let rate = Rate::from_bits(bits)
                    .ok_or_else(|| bad(text, "the rate is at most 32 bits, in steps of 1/64"))?;
                Self::zfp(rate, dims)
            }
            "sz" => {
                let (number, dims) = number_and_dims(text, &parameters, "sz:1e-3 or sz:1e-3:2d")?;
                Ok(Self::Sz { bound: bound(text, number)?, dims })
            }
            "sz-1.4" => match number_and_dims(text, &parameters, "sz-1.4:1e-3")? {
                (number, Dims::One) => Ok(Self::Sz14 { bound: bound(text, number)? }),
                _ => Err(bad(text, "it sees a tensor as a sequence")),
            },
            _ => Err(Error::UnknownCodec { name: text.into(), known: KNOWN.into() }),
        }
    }
}

impl CodecId {
    /// The name without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Zvc => "zvc",
            Self::Rle => "rle",
            Self::Csr => "csr",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Zfp { .. } => "zfp",
            Self::Sz { .. } => "sz",
            Self::Sz14 { .. } => "sz-1.4",
            Self::JpegAct { table: Table::Low } => "jpeg-act-l",
            Self::JpegAct { table: Table::High } => "jpeg-act-h",
            Self::Ibp { .. } => "ibp",
        }
    }

    /// ZFP at a rate that its blocks can have.
    ///
    /// # Errors
    /// [`Error::BadParameter`] when a block would have a fraction of a bit, or fewer bits than the
    /// 9 that say that a block of floats is not zero and what its exponent is.
    pub fn zfp(rate: Rate, dims: Dims) -> Result<Self, Error> {
        let id = Self::Zfp { rate, dims };
        match rate.block_bits(dims) {
            Some(bits) if bits >= 9 => Ok(id),
            Some(_) => Err(bad(&id.to_string(), "the rate must give a block at least 9 bits")),
            None => Err(bad(&id.to_string(), "the rate must give a block whole bits")),
        }
    }
}

fn bad(codec: &str, reason: &str) -> Error {
    Error::BadParameter { codec: codec.into(), reason: reason.into() }
}

fn bound(codec: &str, number: f64) -> Result<ErrorBound, Error> {
    ErrorBound::new(number).ok_or_else(|| bad(codec, "the error bound is finite and above 0"))
}

/// Bytes of a chunk, which need not be stated.
fn chunk(text: &str, parameters: &[&str]) -> Result<ChunkSize, Error> {
    let bytes = match parameters {
        [] => Some(ChunkSize::Four.bytes()),
        [bytes] => bytes.parse().ok(),
        _ => None,
    };
    let chunk = bytes.and_then(|bytes| ChunkSize::from_bytes(bytes).ok());
    chunk.ok_or_else(|| bad(text, "write it as ibp or ibp:8; a chunk has 1, 2, 4 or 8 bytes"))
}

/// A number, and dimensions after it: `8`, `1e-3:2d`.
fn number_and_dims(text: &str, parameters: &[&str], example: &str) -> Result<(f64, Dims), Error> {
    let dims = match parameters.get(1) {
        None | Some(&"1d") => Some(Dims::One),
        Some(&"2d") => Some(Dims::Two),
        Some(&"3d") => Some(Dims::Three),
        Some(_) => None,
    };
    let number = parameters.first().and_then(|number| number.parse().ok());
    match (number, dims, parameters.len()) {
        (Some(number), Some(dims), 1 | 2) => Ok((number, dims)),
        _ => Err(bad(text, &format!("write it as {example}"))),
    }
}
