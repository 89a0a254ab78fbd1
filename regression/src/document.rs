//! The best of the methods, as the model of a document.

use schema::TimeModel;

use crate::lines::time_model;
use crate::method::fit;
use crate::validate::{HeldOut, cross_validate, relative_absolute_error};
use crate::{FitError, Method, Sample};

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
    /// What each of those methods says of the samples that it had not seen.
    pub held_out: Vec<(Method, Vec<HeldOut>)>,
}

/// Samples that a codec's times take: enough that a fit to four fifths of them, and the test on the
/// rest, mean something.
const LEAST: usize = 20;

/// A plan compresses nothing that stays longer than this share of itself: there a codec gives
/// blocks up and copies them, which takes it a fraction of its time.
const SHRUNK: f64 = 0.99;

/// Fits all methods, and takes the one that is least off on samples that it has not seen. `source`
/// says where the samples come from. Tensors that the codec hardly makes smaller are left out where
/// there are enough others.
///
/// # Errors
/// [`FitError`] where there are too few samples, or no method has a solution.
pub fn fit_times(samples: &[Sample], source: &str) -> Result<TimesFit, FitError> {
    if samples.len() < LEAST {
        return Err(FitError::TooFew { found: samples.len(), needed: LEAST });
    }
    let shrunk: Vec<Sample> = samples.iter().copied().filter(|s| s.ratio() <= SHRUNK).collect();
    let (samples, left_out) = match samples.len() - shrunk.len() {
        0 => (samples, String::new()),
        _ if shrunk.len() < LEAST => (samples, String::new()),
        few => (shrunk.as_slice(), format!(" ({few} that hardly shrank left out)")),
    };
    let mut errors = Vec::new();
    let mut held_out = Vec::new();
    let mut best: Option<(f64, Method)> = None;
    let mut failure = None;
    for method in Method::ALL {
        let predicted = match cross_validate(method, samples) {
            Ok(predicted) => predicted,
            Err(error) => {
                failure = Some(error);
                errors.push((method, None));
                continue;
            }
        };
        let error = relative_absolute_error(&predicted);
        errors.push((method, Some(error)));
        held_out.push((method, predicted));
        if best.as_ref().is_none_or(|(least, ..)| error < *least) {
            best = Some((error, method));
        }
    }
    let Some((error, method)) = best else {
        return Err(failure.unwrap_or(FitError::OneSize));
    };
    let mut model = time_model(fit(method, samples)?.as_ref(), samples);
    let chosen = held_out.iter().find(|(of, _)| *of == method);
    model.spread_permille = chosen.map(|(_, predicted)| spread_permille(predicted));
    model.source = format!(
        "{source}{left_out}: {}, relative absolute error {:.2} % on held-out samples; spread: nine in ten lie \
         within",
        method.name(),
        100.0 * error
    );
    Ok(TimesFit { model, method, errors, held_out })
}

/// The relative error that nine in ten predictions stay within, in thousandths.
fn spread_permille(held_out: &[HeldOut]) -> u32 {
    let relative = |h: &HeldOut| (h.predicted / h.sample.time.0 as f64 - 1.0).abs();
    let mut errors: Vec<f64> = held_out.iter().map(relative).collect();
    errors.sort_by(f64::total_cmp);
    let at = (errors.len() * 9).div_ceil(10).saturating_sub(1);
    errors.get(at).map_or(0, |error| (1000.0 * error).ceil() as u32)
}
