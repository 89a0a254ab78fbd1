//! The one interface of all codecs.

use schema::Dtype;

use crate::{CodecId, Error, Layout, TensorView};

/// What decompression gives back.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "the variants name the fields")]
pub enum Fidelity {
    /// Every bit.
    Lossless,
    /// Every finite value within this absolute error.
    Bounded { max_abs_error: f64 },
    /// Every value within this share of the largest magnitude of its channel: with four dimensions, of all values that
    /// have its place in the second.
    Relative { share: f64 },
    /// As good as the given number of bits allows; the error depends on the data and must be
    /// measured ([`difference`](crate::quality::difference)).
    FixedRate { bits_per_value: f64 },
}

/// A way to compress a tensor.
///
/// A codec turns a tensor into a *payload*: bytes that mean something only together with the
/// codec's [`id`](Self::id) and the tensor's [`Layout`], both of which the caller keeps. The same
/// tensor gives the same payload on any number of threads; work is split over the rayon pool that
/// the call runs in.
///
/// Buffers are the caller's. Scratch memory is bounded by a small multiple of the tensor's size,
/// whatever a payload claims.
pub trait Codec: Send + Sync {
    /// Its name and parameter.
    fn id(&self) -> CodecId;

    /// What decompression gives back.
    fn fidelity(&self) -> Fidelity;

    /// Whether it takes elements of this type.
    fn supports(&self, dtype: Dtype) -> bool;

    /// The most bytes that a payload of such a tensor can have.
    fn worst_case(&self, layout: &Layout) -> usize;

    /// Compresses into the front of `out` and returns the payload's length. What lies behind is
    /// unspecified.
    ///
    /// # Errors
    /// [`Error::UnsupportedDtype`]; [`Error::OutputTooSmall`] when `out` is shorter than
    /// [`worst_case`](Self::worst_case); [`Error::NotFinite`] from codecs that say so.
    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error>;

    /// Decompresses a payload of a tensor of this layout into `out`, whose length is the layout's.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the payload is not one that [`compress`](Self::compress) could
    /// have written, as far as that can be seen (a damaged value cannot; a [seal](crate::Seal) can
    /// tell);
    /// [`Error::UnsupportedDtype`]; [`Error::WrongLength`].
    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error>;

    /// The checks that every [`compress`](Self::compress) begins with.
    ///
    /// # Errors
    /// As there.
    fn check_compress(&self, input: TensorView<'_>, out: &[u8]) -> Result<(), Error> {
        self.check_dtype(input.layout().dtype())?;
        let (needed, available) = (self.worst_case(input.layout()), out.len());
        if available < needed { Err(Error::OutputTooSmall { needed, available }) } else { Ok(()) }
    }

    /// The checks that every [`decompress`](Self::decompress) begins with.
    ///
    /// # Errors
    /// As there.
    fn check_decompress(&self, layout: &Layout, out: &[u8]) -> Result<(), Error> {
        self.check_dtype(layout.dtype())?;
        let (expected, actual) = (layout.bytes(), out.len());
        if expected != actual { Err(Error::WrongLength { expected, actual }) } else { Ok(()) }
    }

    /// Whether it takes elements of this type, as an error.
    ///
    /// # Errors
    /// [`Error::UnsupportedDtype`] where [`supports`](Self::supports) denies it.
    fn check_dtype(&self, dtype: Dtype) -> Result<(), Error> {
        match self.supports(dtype) {
            true => Ok(()),
            false => Err(Error::UnsupportedDtype { codec: self.id(), dtype }),
        }
    }
}
