//! How far off what comes back is.

use half::{bf16, f16};
use schema::Dtype;

use crate::Layout;

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
