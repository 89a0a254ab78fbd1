//! How much smaller, and how far off.

use half::{bf16, f16};
use schema::Dtype;

use crate::{Codec, Error, Layout, TensorView};

/// What a codec makes of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Bytes of the tensor.
    pub raw_bytes: usize,
    /// Bytes of the payload.
    pub payload_bytes: usize,
    /// How far what comes back is from what went in.
    pub difference: Difference,
}

impl Quality {
    /// Uncompressed over compressed bytes; 1 where there are none.
    pub fn ratio(&self) -> f64 {
        if self.payload_bytes == 0 {
            1.0
        } else {
            self.raw_bytes as f64 / self.payload_bytes as f64
        }
    }
}

/// How far two tensors are apart.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Difference {
    /// The largest |a - b|; infinite where one is NaN or infinite and the other is not the same.
    pub max_abs: f64,
    /// The root of the mean of (a - b)^2.
    pub rms: f64,
    /// Elements of different bits. None: the codec was lossless here.
    pub changed: usize,
    /// Zeros (of either sign) that are no longer zero.
    pub lost_zeros: usize,
}

/// Compresses and decompresses a tensor and measures what became of it.
///
/// # Errors
/// Those of [`Codec::compress`] and [`Codec::decompress`]; [`Error::UnsupportedDtype`] where
/// elements are not floats.
pub fn quality(codec: &dyn Codec, input: TensorView<'_>) -> Result<Quality, Error> {
    let layout = input.layout();
    let mut payload = vec![0; codec.worst_case(layout)];
    let payload_bytes = codec.compress(input, &mut payload)?;
    let mut restored = vec![0; layout.bytes()];
    codec.decompress(&payload[..payload_bytes], layout, &mut restored)?;
    let difference = difference(layout, input.bytes(), &restored)
        .ok_or(Error::UnsupportedDtype { codec: codec.id(), dtype: layout.dtype() })?;
    Ok(Quality { raw_bytes: layout.bytes(), payload_bytes, difference })
}

/// Compares two tensors of floats of one layout, element by element. Nothing where the elements are
/// not floats.
pub fn difference(layout: &Layout, left: &[u8], right: &[u8]) -> Option<Difference> {
    let value: fn(&[u8]) -> Option<f64> = match layout.dtype() {
        Dtype::F32 => |bytes| Some(f32::from_le_bytes(*bytes.first_chunk()?).into()),
        Dtype::F64 => |bytes| Some(f64::from_le_bytes(*bytes.first_chunk()?)),
        Dtype::F16 => |bytes| Some(f16::from_le_bytes(*bytes.first_chunk()?).into()),
        Dtype::Bf16 => |bytes| Some(bf16::from_le_bytes(*bytes.first_chunk()?).into()),
        _ => return None,
    };
    let width = crate::layout::width(layout.dtype());
    let mut difference = Difference::default();
    let mut squares = 0.0;
    for (left, right) in left.chunks_exact(width).zip(right.chunks_exact(width)) {
        if left == right {
            continue;
        }
        let (left, right) = (value(left)?, value(right)?);
        let apart = if (left - right).is_nan() { f64::INFINITY } else { (left - right).abs() };
        difference.changed += 1;
        difference.lost_zeros += usize::from(left == 0.0 && right != 0.0);
        difference.max_abs = difference.max_abs.max(apart);
        squares += apart * apart;
    }
    difference.rms = (squares / layout.elements().max(1) as f64).sqrt();
    Some(difference)
}
