//! How small a codec makes tensors.

use schema::{Fidelity, SizeModel};

use crate::sample::check_each;
use crate::{FitError, Sample};

/// The size model of a codec whose samples are tensors of 32-bit values.
///
/// Of a lossless codec: a least-squares line over the share of values that are not zero, and the
/// margin that covers every sample. Of others: the largest share that a sample became.
///
/// # Errors
/// [`FitError::TooFew`] without samples; [`FitError::BadSample`].
pub fn fit_size(samples: &[Sample], fidelity: Fidelity) -> Result<SizeModel, FitError> {
    if samples.is_empty() {
        return Err(FitError::TooFew { found: 0, needed: 1 });
    }
    check_each(samples)?;
    let largest = samples.iter().map(Sample::permille).max().unwrap_or(1000);
    if fidelity != Fidelity::Lossless {
        return Ok(SizeModel::Rate { permille: largest, margin_permille: 0 });
    }
    let dense = |sample: &Sample| 1.0 - sample.sparsity;
    let count = samples.len() as f64;
    let mean_x = samples.iter().map(dense).sum::<f64>() / count;
    let mean_y = samples.iter().map(Sample::ratio).sum::<f64>() / count;
    let xx: f64 = samples.iter().map(|s| (dense(s) - mean_x).powi(2)).sum();
    let xy: f64 = samples.iter().map(|s| (dense(s) - mean_x) * (s.ratio() - mean_y)).sum();
    if xx < 1e-9 {
        return Ok(SizeModel::Rate { permille: largest, margin_permille: 0 });
    }
    let slope = (xy / xx).max(0.0);
    let overhead_permille = (1000.0 * (mean_y - slope * mean_x)).max(0.0).ceil() as u32;
    let dense_permille = (1000.0 * slope).ceil() as u32;
    let margin = |sample: &Sample| {
        let model = f64::from(overhead_permille) + f64::from(dense_permille) * dense(sample);
        // Over a model of nothing nothing can be added in proportion.
        1000.0 * (1000.0 * sample.ratio() / model.max(1.0) - 1.0)
    };
    let margin_permille = samples.iter().map(margin).fold(0.0, f64::max).ceil() as u32;
    Ok(SizeModel::Sparsity { overhead_permille, dense_permille, margin_permille })
}
