//! What one tensor costs under a codec's model. All in integers, so that every machine plans alike.

use crate::codec_models::{CodecModel, Fidelity, RatioBand, SizeModel, TimeModel};
use crate::{Bytes, Dtype, Nanos, Texture};

/// What a codec makes of one tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecCost {
    /// What a plan reserves for the compressed form: the expected size and a margin.
    pub reserved: Bytes,
    /// Time of making the tensor smaller.
    pub compress: Nanos,
    /// Time of bringing it back.
    pub decompress: Nanos,
    /// The size depends on the data and may turn out larger than what is reserved.
    pub variable: bool,
}

/// Times beyond this are those of no codec.
const LONGEST: i128 = 1 << 50;

impl CodecModel {
    /// What the codec makes of a tensor of `bytes`, of which the share `sparsity` is zero.
    ///
    /// None where that does not help: the size is unknown (it depends on a sparsity that nobody
    /// states), it is not smaller than the tensor, or the codec would change values that are not
    /// floats. Elements of unknown type are taken for 32-bit floats.
    pub fn cost(
        &self,
        bytes: Bytes,
        sparsity: Option<f64>,
        dtype: Option<Dtype>,
    ) -> Option<CodecCost> {
        self.cost_of(bytes, (sparsity, None), dtype)
    }

    /// The same of a tensor whose texture may be known, too.
    pub fn cost_of(
        &self,
        bytes: Bytes,
        values: (Option<f64>, Option<Texture>),
        dtype: Option<Dtype>,
    ) -> Option<CodecCost> {
        let (width, float) = dtype.map_or((4, true), element);
        if self.fidelity != Fidelity::Lossless && !float {
            return None;
        }
        let reserved = match (self.fidelity, self.size) {
            (Fidelity::FixedRate, SizeModel::Rate { permille, .. }) => {
                fixed_rate(bytes, permille, width)?
            }
            _ => self.size.reserved(bytes, values, (self.parameter.unwrap_or(1.0), width))?,
        };
        if reserved >= bytes {
            return None;
        }
        let permille = (u128::from(reserved.0) * 1000).div_ceil(u128::from(bytes.0)) as u32;
        Some(CodecCost {
            reserved,
            compress: self.compress.at(bytes, permille),
            decompress: self.decompress.at(bytes, permille),
            variable: self.fidelity.size_varies(),
        })
    }
}

/// Bytes of an element, and whether it is a float.
fn element(dtype: Dtype) -> (u128, bool) {
    let is_float = matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16);
    (u128::from(dtype.bytes()), is_float)
}

/// What a codec of fixed rate makes of a sequence of values: whole blocks of four, each of a whole
/// number of bits, in whole words of 64, as ZFP does. A rate in thousandths is rounded up, by less
/// than an eighth of a bit in each block.
fn fixed_rate(bytes: Bytes, permille: u32, width: u128) -> Option<Bytes> {
    const VALUES: u128 = 4;
    let blocks = u128::from(bytes.0).div_ceil(width * VALUES);
    let bits_of_block = ((32 * VALUES * u128::from(permille) + 871) / 1000).max(1);
    u64::try_from((blocks * bits_of_block).div_ceil(64) * 8).ok().map(Bytes)
}

impl SizeModel {
    /// The expected size and the margin, rounded up, of a tensor of elements of `width` bytes.
    ///
    /// The model speaks of 32-bit values. What a codec adds to each value, be it a bit of a mask
    /// or an index, is as long beside narrower ones, of which there are more.
    fn reserved(
        &self,
        bytes: Bytes,
        (sparsity, texture): (Option<f64>, Option<Texture>),
        (bound, width): (f64, u128),
    ) -> Option<Bytes> {
        const MILLION: u128 = 1_000_000;
        // Sizes in thousandths of millionths of a byte, times the element's width.
        let (scaled, margin) = match *self {
            Self::Sparsity { overhead_permille, dense_permille, margin_permille } => {
                let sparsity = sparsity.filter(|share| (0.0..=1.0).contains(share))?;
                let dense = ((1.0 - sparsity) * 1e6).ceil() as u128;
                let beside = u128::from(dense_permille.saturating_sub(1000)) * 4;
                let values = u128::from(dense_permille.min(1000)) * width;
                let each = u128::from(overhead_permille) * 4 * MILLION + dense * (values + beside);
                (each, margin_permille)
            }
            Self::Coded(coded) => {
                let sparsity = sparsity.filter(|share| (0.0..=1.0).contains(share))?;
                let each = (coded.permille(bound, sparsity, texture) * 1e6).ceil() as u128;
                (4 * each, coded.margin_permille)
            }
            Self::Rate { permille, margin_permille } => {
                // A rate is bits per value, however wide the value was.
                (u128::from(permille) * 4 * MILLION, margin_permille)
            }
        };
        let scaled = u128::from(bytes.0) * scaled * (1000 + u128::from(margin));
        let reserved = scaled.div_ceil(MILLION * MILLION * width);
        u64::try_from(reserved).ok().map(Bytes)
    }
}

impl TimeModel {
    /// The time for a raw tensor of `bytes` that becomes `permille` thousandths of itself.
    pub fn at(&self, bytes: Bytes, permille: u32) -> Nanos {
        self.band(permille).at(bytes)
    }

    /// The band of tensors that become `permille` thousandths of themselves.
    pub fn band(&self, permille: u32) -> &RatioBand {
        let band = self.bands.partition_point(|band| band.up_to_permille < permille);
        &self.bands[band.min(self.bands.len() - 1)]
    }
}

impl RatioBand {
    /// Rounded to the nearest nanosecond.
    fn at(&self, bytes: Bytes) -> Nanos {
        let points = &self.points;
        if bytes <= points[0].bytes {
            return points[0].time;
        }
        // The segment that the size lies in, or the last.
        let next = points.partition_point(|point| point.bytes < bytes).min(points.len() - 1);
        let (low, high) = (points[next - 1], points[next]);
        let number = |n: u64| i128::from(n);
        let width = number(high.bytes.0) - number(low.bytes.0);
        let rise = number(high.time.0) - number(low.time.0);
        let beyond = number(bytes.0) - number(low.bytes.0);
        let time = number(low.time.0) + (2 * rise * beyond + width) / (2 * width);
        Nanos(time.min(LONGEST) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec_models::{ModelBasis, TimePoint};
    use proptest::prelude::*;

    fn times(bands: &[(u32, &[(u64, u64)])]) -> TimeModel {
        let point =
            |&(bytes, time): &(u64, u64)| TimePoint { bytes: Bytes(bytes), time: Nanos(time) };
        let band = |&(up_to_permille, points): &(u32, &[(u64, u64)])| RatioBand {
            up_to_permille,
            points: points.iter().map(point).collect(),
        };
        TimeModel {
            bands: bands.iter().map(band).collect(),
            spread_permille: None,
            basis: ModelBasis::Modelled,
            source: "made up".into(),
        }
    }

    fn model(fidelity: Fidelity, size: SizeModel) -> CodecModel {
        let line: &[(u64, u64)] = &[(0, 100), (1000, 1100)];
        CodecModel {
            codec: "test".into(),
            parameter: None,
            fidelity,
            size,
            compress: times(&[(1000, line)]),
            decompress: times(&[(500, &[(0, 10), (1, 10)]), (1000, &[(0, 20), (1, 20)])]),
        }
    }

    const ZVC: SizeModel =
        SizeModel::Sparsity { overhead_permille: 32, dense_permille: 1000, margin_permille: 0 };

    #[test]
    fn times_are_linear_between_points_and_go_on_beyond_the_last() {
        let times = times(&[(1000, &[(100, 50), (200, 60), (400, 80 + 20)])]);
        let at = |bytes| times.at(Bytes(bytes), 300).0;
        assert_eq!([0, 1, 100].map(at), [50, 50, 50], "the latency");
        assert_eq!([104, 105, 150, 200].map(at), [50, 51, 55, 60], "rounded to the nearest");
        assert_eq!([300, 400, 600].map(at), [80, 100, 140]);
        assert_eq!(at(u64::MAX), LONGEST as u64);
    }

    #[test]
    fn each_ratio_has_its_band_and_the_last_serves_beyond() {
        let times = times(&[(250, &[(0, 1), (1, 1)]), (750, &[(0, 2), (1, 2)])]);
        let at = |permille| times.at(Bytes(1000), permille).0;
        assert_eq!([0, 250, 251, 750, 751, 1000].map(at), [1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn zero_value_compression_stores_a_mask_and_the_values() {
        let zvc = model(Fidelity::Lossless, ZVC);
        let cost = |sparsity, dtype| zvc.cost(Bytes(10_000), sparsity, dtype).map(|c| c.reserved.0);
        assert_eq!(cost(Some(0.5), Some(Dtype::F32)), Some(5320));
        assert_eq!(cost(Some(0.5), None), Some(5320), "unknown elements are 32-bit floats");
        assert_eq!(cost(Some(0.5), Some(Dtype::F16)), Some(5640), "a mask twice as long");
        assert_eq!(cost(Some(0.5), Some(Dtype::I64)), Some(5160), "lossless keeps integers");
        assert_eq!(cost(Some(1.0), None), Some(320));
        assert_eq!(cost(Some(0.0), None), None, "larger than the tensor");
        assert_eq!(cost(None, None), None, "nobody states how many are zero");
        assert_eq!(zvc.cost(Bytes(0), Some(1.0), None), None);
        let cost = zvc.cost(Bytes(10_000), Some(0.5), None).expect("smaller");
        assert_eq!((cost.compress, cost.decompress), (Nanos(10_100), Nanos(20)));
        assert!(cost.variable);
    }

    #[test]
    fn indices_are_as_long_beside_narrow_values_and_margins_are_reserved() {
        let size = SizeModel::Sparsity {
            overhead_permille: 0,
            dense_permille: 2000,
            margin_permille: 100,
        };
        let csr = model(Fidelity::Lossless, size);
        let cost = |dtype| csr.cost(Bytes(10_000), Some(0.8), Some(dtype)).map(|c| c.reserved.0);
        assert_eq!(cost(Dtype::F32), Some(4400));
        assert_eq!(cost(Dtype::F16), Some(6600));
    }

    #[test]
    fn a_fixed_rate_is_bits_per_value_and_spares_integers() {
        let zfp = model(Fidelity::FixedRate, SizeModel::Rate { permille: 250, margin_permille: 0 });
        let cost = |dtype| zfp.cost(Bytes(1001), None, dtype);
        let f32 = cost(Some(Dtype::F32)).expect("smaller");
        // 251 values are 63 blocks of 32 bits, which fill 31 words and a half; 501 are 126, 63
        // words.
        assert_eq!((f32.reserved, f32.variable), (Bytes(256), false));
        assert_eq!(cost(Some(Dtype::F16)).map(|c| c.reserved), Some(Bytes(504)));
        assert_eq!(cost(Some(Dtype::I64)), None);
    }

    proptest! {
        #[test]
        fn a_cost_is_smaller_than_the_tensor_and_grows_with_it(
            bytes in 0u64..1 << 40,
            more in 0u64..1 << 30,
            sparsity in 0.0f64..=1.0,
        ) {
            let zvc = model(Fidelity::Lossless, ZVC);
            let cost = |bytes| zvc.cost(Bytes(bytes), Some(sparsity), None);
            if let (Some(small), Some(large)) = (cost(bytes), cost(bytes + more)) {
                prop_assert!(small.reserved.0 < bytes && small.reserved <= large.reserved);
                prop_assert!(small.compress <= large.compress);
            }
        }
    }
}
