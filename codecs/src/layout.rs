//! What a buffer holds: element type and shape.

use schema::Dtype;

use crate::Error;

/// Most dimensions a tensor may have.
pub const MAX_RANK: usize = 8;

/// Bytes of one element.
pub const fn width(dtype: Dtype) -> usize {
    dtype.bytes() as usize
}

/// Element type and shape of a dense row-major tensor, the last dimension contiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    dtype: Dtype,
    shape: Vec<usize>,
    elements: usize,
}

impl Layout {
    /// A layout of at most [`MAX_RANK`] dimensions. No dimensions at all are one element.
    ///
    /// # Errors
    /// [`Error::BadShape`] with too many dimensions or more bytes than can be addressed.
    pub fn new(dtype: Dtype, shape: &[usize]) -> Result<Self, Error> {
        let bad = |reason| Error::BadShape { shape: shape.to_vec(), reason };
        if shape.len() > MAX_RANK {
            return Err(bad("at most 8 dimensions are supported"));
        }
        // A zero must not hide that the others overflow.
        let mut dims = shape.iter().map(|dim| (*dim).max(1));
        let bytes = dims
            .try_fold(width(dtype), |bytes, dim| bytes.checked_mul(dim))
            .filter(|bytes| *bytes <= isize::MAX as usize)
            .ok_or_else(|| bad("more bytes than can be addressed"))?;
        let elements = if shape.contains(&0) { 0 } else { bytes / width(dtype) };
        Ok(Self { dtype, shape: shape.to_vec(), elements })
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Uncompressed bytes.
    pub fn bytes(&self) -> usize {
        self.elements * width(self.dtype)
    }

    /// The shape seen with at most `rank` dimensions: leading dimensions are merged into one.
    /// A tensor of fewer dimensions keeps its own; one of none is a single element in 1-D.
    pub fn folded(&self, rank: usize) -> Vec<usize> {
        let lead = self.shape.len().saturating_sub(rank.max(1) - 1).max(1);
        let (merged, kept) = self.shape.split_at(lead.min(self.shape.len()));
        let mut folded = vec![merged.iter().product()];
        folded.extend(kept);
        folded
    }
}

/// A tensor's bytes (little-endian elements) with their layout.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Sees `bytes` as a tensor.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when the layout has another number of bytes.
    pub fn new(layout: &'a Layout, bytes: &'a [u8]) -> Result<Self, Error> {
        match layout.bytes() {
            expected if expected == bytes.len() => Ok(Self { layout, bytes }),
            expected => Err(Error::WrongLength { expected, actual: bytes.len() }),
        }
    }

    /// Element type and shape.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// The elements' bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}
