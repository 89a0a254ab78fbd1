//! How far off a model is on samples that it has not seen.

use crate::lines::time_model;
use crate::method::fit;
use crate::{FitError, Method, Sample};

/// Parts of the samples, each held out once.
const FOLDS: u64 = 5;

/// A sample, and what a model that has not seen it says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOut {
    /// The sample.
    pub sample: Sample,
    /// The model's time, in nanoseconds.
    pub predicted: f64,
}

/// Predicts each sample with a model that was fitted without it: the samples are dealt to five
/// parts, and each part is predicted by the document of a fit to the other four.
pub(crate) fn cross_validate(method: Method, samples: &[Sample]) -> Result<Vec<HeldOut>, FitError> {
    let mut held_out = Vec::with_capacity(samples.len());
    for fold in 0..FOLDS {
        let deal = |wanted: bool| {
            let numbered = (0u64..).zip(samples);
            let dealt = numbered.filter(move |(index, _)| (part(*index) == fold) == wanted);
            dealt.map(|(_, sample)| *sample).collect::<Vec<Sample>>()
        };
        let (seen, unseen) = (deal(false), deal(true));
        let model = time_model(fit(method, &seen)?.as_ref(), &seen);
        held_out.extend(unseen.into_iter().map(|sample| {
            let predicted = model.at(sample.bytes, sample.permille()).0 as f64;
            HeldOut { sample, predicted }
        }));
    }
    Ok(held_out)
}

/// The part that a sample is dealt to: a hash (splitmix64's last step), so that no part holds one
/// size or one ratio of a grid.
fn part(index: u64) -> u64 {
    let mut bits = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ bits >> 31) % FOLDS
}

/// The relative absolute error (CSWAP+ section 6.4): the sum of |predicted - measured| over the sum
/// of |measured - mean measured|. 0 where all measured times are the same and met.
pub fn relative_absolute_error(held_out: &[HeldOut]) -> f64 {
    let times = || held_out.iter().map(|h| h.sample.time.0 as f64);
    let mean = times().sum::<f64>() / held_out.len().max(1) as f64;
    let spread: f64 = times().map(|time| (time - mean).abs()).sum();
    let off: f64 = held_out.iter().map(|h| (h.predicted - h.sample.time.0 as f64).abs()).sum();
    if off == 0.0 { 0.0 } else { off / spread }
}
