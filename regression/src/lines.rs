//! From regressions to the lines of a document.

use schema::{Bytes, ModelBasis, Nanos, RatioBand, TimeModel, TimePoint};

use crate::Sample;
use crate::method::Regression;

/// Bands of a document, so narrow that a ratio's effect within one shows little.
const BANDS: u32 = 48;
/// Sizes of a document's points.
const SIZES: usize = 8;

/// Where bands end, by ascending ratio: at equal distances, and wherever the regression jumps, so that
/// no band mixes two of its sub-models.
fn band_ends(regression: &dyn Regression, least: u32, most: u32) -> Vec<u32> {
    let width = (most - least).div_ceil(BANDS).max(1);
    // A ratio at a border is of the sub-model beyond it.
    let below = |ratio: f64| ((1000.0 * ratio - 1e-6).ceil() as u32).saturating_sub(1);
    let jumps = regression.borders().into_iter().map(below);
    let mut jumps: Vec<u32> = jumps.filter(|jump| (least + 1..most).contains(jump)).collect();
    jumps.push(most);
    let (mut ends, mut from) = (Vec::new(), least);
    for jump in jumps {
        let count = (jump - from).div_ceil(width).max(1);
        ends.extend((1..=count).map(|index| from + (jump - from) * index / count));
        from = jump;
    }
    ends.dedup();
    ends
}

/// A regression's values at bands of the samples' ratios and points of their sizes, and at 0 bytes.
pub(crate) fn time_model(regression: &dyn Regression, samples: &[Sample]) -> TimeModel {
    let permilles = || samples.iter().map(Sample::permille);
    let (least, most) = (permilles().min().unwrap_or(0), permilles().max().unwrap_or(1000));
    let ends = band_ends(regression, least, most);
    let sizes = sizes(samples);
    let band = |index: usize| {
        let up_to_permille = ends[index];
        let from = index.checked_sub(1).map_or(least, |before| ends[before]);
        let middle = f64::from(from + up_to_permille) / 2000.0;
        let mut points: Vec<TimePoint> = Vec::new();
        for bytes in &sizes {
            let ms = regression.predict(bytes.0 as f64 / f64::from(1 << 20), middle);
            // A number that is none, or below 0, becomes 0.
            let time = Nanos(((ms * 1e6).round() as u64).min(1 << 50));
            // A larger tensor takes no less time, whatever noise says.
            let time = points.last().map_or(time, |last| time.max(last.time));
            points.push(TimePoint { bytes: *bytes, time });
        }
        RatioBand { up_to_permille, points }
    };
    TimeModel {
        bands: (0..ends.len()).map(band).collect(),
        spread_permille: None,
        basis: ModelBasis::Measured,
        source: String::new(),
    }
}

/// 0, and some of the samples' sizes, the least and the largest among them.
fn sizes(samples: &[Sample]) -> Vec<Bytes> {
    let mut sizes: Vec<Bytes> = samples.iter().map(|sample| sample.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() > SIZES {
        let last = sizes.len() - 1;
        sizes = (0..SIZES).map(|index| sizes[index * last / (SIZES - 1)]).collect();
    }
    sizes.insert(0, Bytes::ZERO);
    sizes
}
