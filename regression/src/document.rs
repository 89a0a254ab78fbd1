//! From regressions to the lines of a document.

use schema::{Bytes, ModelBasis, Nanos, RatioBand, TimeModel, TimePoint};

use crate::validate::{HeldOut, cross_validate, relative_absolute_error};
use crate::{FitError, Method, Regression, Sample, fit};

/// Bands of a document, so narrow that a ratio's effect within one shows little.
const BANDS: u32 = 30;
/// Sizes of a document's points.
const SIZES: usize = 8;

/// The times of one codec in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct TimesFit {
    /// The model, of the method that was least off.
    pub model: TimeModel,
    /// That method.
    pub method: Method,
    /// Each method's relative absolute error on samples that it had not seen, in the order of
    /// [`Method::ALL`]; nothing where it has no solution.
    pub errors: Vec<(Method, Option<f64>)>,
    /// The chosen method's predictions of them.
    pub held_out: Vec<HeldOut>,
}

/// Fits all methods, and takes the one that is least off on samples that it has not seen.
/// `source` says where the samples come from.
///
/// # Errors
/// [`FitError`] where no method has a solution.
pub fn fit_times(samples: &[Sample], source: &str) -> Result<TimesFit, FitError> {
    let mut errors = Vec::new();
    let mut best: Option<(f64, Method, Vec<HeldOut>)> = None;
    let mut failure = None;
    for method in Method::ALL {
        let held_out = match cross_validate(method, samples) {
            Ok(held_out) => held_out,
            Err(error) => {
                failure = Some(error);
                errors.push((method, None));
                continue;
            }
        };
        let error = relative_absolute_error(&held_out);
        errors.push((method, Some(error)));
        if best.as_ref().is_none_or(|(least, ..)| error < *least) {
            best = Some((error, method, held_out));
        }
    }
    let Some((error, method, held_out)) = best else {
        return Err(failure.unwrap_or(FitError::OneSize));
    };
    let mut model = time_model(fit(method, samples)?.as_ref(), samples);
    model.spread_permille = Some(spread_permille(&held_out));
    model.source = format!(
        "{source}: {}, relative absolute error {:.2} % on held-out samples; spread: nine in ten lie \
         within",
        method.name(),
        100.0 * error
    );
    Ok(TimesFit { model, method, errors, held_out })
}

/// A regression's values at bands of the samples' ratios and points of their sizes, and at 0 bytes.
pub fn time_model(regression: &dyn Regression, samples: &[Sample]) -> TimeModel {
    let permilles = || samples.iter().map(Sample::permille);
    let (least, most) = (permilles().min().unwrap_or(0), permilles().max().unwrap_or(1000));
    let width = (most - least).div_ceil(BANDS).max(1);
    let count = (most - least).div_ceil(width).max(1);
    let sizes = sizes(samples);
    let band = |index: u32| {
        let up_to_permille = if index + 1 == count { most } else { least + (index + 1) * width };
        let from = least + index * width;
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
        bands: (0..count).map(band).collect(),
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

/// The relative error that nine in ten predictions stay within, in thousandths.
fn spread_permille(held_out: &[HeldOut]) -> u32 {
    let relative = |h: &HeldOut| (h.predicted / h.sample.time.0 as f64 - 1.0).abs();
    let mut errors: Vec<f64> = held_out.iter().map(relative).collect();
    errors.sort_by(f64::total_cmp);
    let at = (errors.len() * 9).div_ceil(10).saturating_sub(1);
    errors.get(at).map_or(0, |error| (1000.0 * error).ceil() as u32)
}
