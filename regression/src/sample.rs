//! What was measured.

use schema::{Bytes, Nanos};

use crate::FitError;

/// One codec at work on one tensor, in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Size of the raw tensor.
    pub bytes: Bytes,
    /// Size that the codec makes of it.
    pub compressed: Bytes,
    /// Share of the tensor's values that are zero.
    pub sparsity: f64,
    /// The time.
    pub time: Nanos,
}

impl Sample {
    /// Compressed over raw.
    pub fn ratio(&self) -> f64 {
        self.compressed.0 as f64 / self.bytes.0 as f64
    }

    /// That in thousandths, rounded up, as a plan looks it up: of a sample that was checked.
    pub fn permille(&self) -> u32 {
        const MOST: u32 = u32::MAX / 4;
        let permille = (u128::from(self.compressed.0) * 1000).div_ceil(u128::from(self.bytes.0));
        u32::try_from(permille).unwrap_or(MOST).min(MOST)
    }

    /// Size and time in units in which both are of about the same magnitude.
    pub(crate) fn mib(&self) -> f64 {
        self.bytes.0 as f64 / f64::from(1 << 20)
    }

    pub(crate) fn ms(&self) -> f64 {
        self.time.as_millis_f64()
    }
}

/// Samples that a fit needs.
pub(crate) const LEAST: usize = 10;

/// Whether each sample is one that can have been measured.
pub(crate) fn check_each(samples: &[Sample]) -> Result<(), FitError> {
    for (index, sample) in samples.iter().enumerate() {
        let range = 1..=1 << 50;
        let fine = [sample.bytes.0, sample.compressed.0, sample.time.0].map(|n| range.contains(&n));
        if fine != [true; 3] || !(0.0..=1.0).contains(&sample.sparsity) {
            let Sample { bytes, compressed, sparsity, time } = sample;
            let what = format!("{bytes}, {compressed} compressed, {sparsity} zeros, {time}");
            return Err(FitError::BadSample { index: index + 1, what });
        }
    }
    Ok(())
}

/// Whether a model of times can be fitted to the samples.
pub(crate) fn check(samples: &[Sample]) -> Result<(), FitError> {
    check_each(samples)?;
    if samples.len() < LEAST {
        return Err(FitError::TooFew { found: samples.len(), needed: LEAST });
    }
    if samples.iter().all(|sample| sample.bytes == samples[0].bytes) {
        return Err(FitError::OneSize);
    }
    Ok(())
}
