//! Element types of lossy codecs: all are quantised as `f32`.

use half::{bf16, f16};

/// A type whose values `f32` holds exactly.
pub(crate) trait Element {
    const WIDTH: usize;

    /// Little-endian elements as `f32`.
    fn read(bytes: &[u8]) -> impl Iterator<Item = f32>;

    /// Stores values as little-endian elements, rounded to the nearest.
    fn write(bytes: &mut [u8], values: impl Iterator<Item = f32>);

    /// What reading gives after writing this value.
    fn round(value: f32) -> f32;
}

impl Element for f32 {
    const WIDTH: usize = 4;

    fn read(bytes: &[u8]) -> impl Iterator<Item = f32> {
        bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))
    }

    fn write(bytes: &mut [u8], values: impl Iterator<Item = f32>) {
        for (out, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
            *out = value.to_le_bytes();
        }
    }

    fn round(value: f32) -> f32 {
        value
    }
}

/// A 16-bit type is a pair of conversions.
macro_rules! half_precision {
    ($type:ty) => {
        impl Element for $type {
            const WIDTH: usize = 2;

            fn read(bytes: &[u8]) -> impl Iterator<Item = f32> {
                bytes.as_chunks().0.iter().map(|b| <$type>::from_le_bytes(*b).to_f32())
            }

            fn write(bytes: &mut [u8], values: impl Iterator<Item = f32>) {
                for (out, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *out = <$type>::from_f32(value).to_le_bytes();
                }
            }

            fn round(value: f32) -> f32 {
                <$type>::from_f32(value).to_f32()
            }
        }
    };
}

half_precision!(f16);
half_precision!(bf16);
