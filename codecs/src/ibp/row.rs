//! One row: compressing and decompressing it.

use super::compress::{compress, invariant_bits};
use super::decompress::decompress;
use super::plan::Plan;
use super::{ChunkSize, IbpError, Metadata};

/// Compresses and decompresses rows that share Mask and Bitval.
#[derive(Debug, Clone)]
pub struct RowCoder {
    metadata: Metadata,
    plan: AnyPlan,
}

#[derive(Debug, Clone)]
enum AnyPlan {
    One(Plan<8>),
    Two(Plan<4>),
    Four(Plan<2>),
    Eight(Plan<1>),
}

/// The same expression for each size of chunk.
macro_rules! with_plan {
    ($coder:expr, $plan:ident => $value:expr) => {
        match &$coder.plan {
            AnyPlan::One($plan) => $value,
            AnyPlan::Two($plan) => $value,
            AnyPlan::Four($plan) => $value,
            AnyPlan::Eight($plan) => $value,
        }
    };
}

impl RowCoder {
    /// A coder for rows of this metadata.
    ///
    /// # Errors
    /// [`IbpError::RowBytes`] unless a row is a whole number of chunks.
    pub fn new(metadata: Metadata, chunk: ChunkSize) -> Result<Self, IbpError> {
        let plan = match chunk {
            ChunkSize::One => AnyPlan::One(Plan::new(&metadata)?),
            ChunkSize::Two => AnyPlan::Two(Plan::new(&metadata)?),
            ChunkSize::Four => AnyPlan::Four(Plan::new(&metadata)?),
            ChunkSize::Eight => AnyPlan::Eight(Plan::new(&metadata)?),
        };
        Ok(Self { metadata, plan })
    }

    /// The chunks that its rows are made of.
    pub fn chunk(&self) -> ChunkSize {
        match self.plan {
            AnyPlan::One(_) => ChunkSize::One,
            AnyPlan::Two(_) => ChunkSize::Two,
            AnyPlan::Four(_) => ChunkSize::Four,
            AnyPlan::Eight(_) => ChunkSize::Eight,
        }
    }

    /// Mask and Bitval.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Mask and Bitval, the rest given up.
    pub fn into_metadata(self) -> Metadata {
        self.metadata
    }

    /// Bytes of an uncompressed row.
    pub fn row_bytes(&self) -> usize {
        self.metadata.row_bytes()
    }

    /// Bits that compressing a row leaves out, participation bits not subtracted: figure 3,
    /// `bitsSaved`. Nothing for what is no row.
    pub fn invariant_bits(&self, row: &[u8]) -> u64 {
        with_plan!(self, plan => invariant_bits(plan, row))
    }

    /// Bytes that the row takes compressed, or nothing where it stays as it is: figure 3,
    /// `getCompressSize`.
    pub fn compressed_bytes(&self, row: &[u8]) -> Option<usize> {
        let bytes = with_plan!(self, plan => {
            plan.bytes_of(plan.row_bytes as u64 * 8 - invariant_bits(plan, row))
        });
        (bytes < self.row_bytes() && row.len() == self.row_bytes()).then_some(bytes)
    }

    /// Appends the compressed row to `out` and returns whether it did: a row that would not become
    /// smaller is left to the caller (section 4.2), and so is what is no row.
    pub fn compress(&self, row: &[u8], out: &mut Vec<u8>) -> bool {
        let smaller = self.compressed_bytes(row).is_some();
        if smaller {
            with_plan!(self, plan => compress(plan, row, out));
        }
        smaller
    }

    /// Decompresses the row that `compressed` begins with and returns how many bytes it took.
    ///
    /// # Errors
    /// [`IbpError::RowBuffer`] unless `out` has a row's size; [`IbpError::Corrupt`] where the row is
    /// cut off or a chunk participates that is not there. Damaged payload bits cannot be seen.
    /// After an error `out` holds anything.
    pub fn decompress(&self, compressed: &[u8], out: &mut [u8]) -> Result<usize, IbpError> {
        let (expected, actual) = (self.row_bytes(), out.len());
        if expected != actual {
            return Err(IbpError::RowBuffer { expected, actual });
        }
        with_plan!(self, plan => decompress(plan, compressed, out))
    }
}
