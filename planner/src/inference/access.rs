//! Which rows are looked up how often.

use std::fmt;
use std::str::FromStr;

use super::InferenceError;

/// How lookups are distributed over the rows. Each row of a lookup is drawn by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Access {
    /// All rows alike: also a table that is read from one end to the other, as weights are.
    Uniform,
    /// The row of rank k in proportion to 1 / k^s (Zipf).
    Zipf {
        /// The exponent s, from 0 (uniform) to 10.
        exponent: f64,
    },
    /// As often as was counted; rows beyond the list never.
    Counts(Vec<u64>),
}

/// Terms of a harmonic number that are added one by one before an integral takes over.
const EXACT_TERMS: u64 = 10_000;

impl Access {
    /// The share of accesses that go to the `cached` most frequent of `rows` rows: the hit rate of
    /// a static cache that is filled in advance (section 2.1).
    pub fn hit_rate(&self, rows: u64, cached: u64) -> f64 {
        let cached = cached.min(rows);
        match self {
            _ if cached == 0 => 0.0,
            _ if cached == rows => 1.0,
            Self::Uniform => cached as f64 / rows as f64,
            Self::Zipf { exponent } => harmonic(cached, *exponent) / harmonic(rows, *exponent),
            Self::Counts(counts) => {
                let mut counts = counts.clone();
                counts.sort_unstable_by(|a, b| b.cmp(a));
                let sum =
                    |counts: &[u64]| counts.iter().map(|&count| u128::from(count)).sum::<u128>();
                let hot =
                    &counts[..counts.len().min(usize::try_from(cached).unwrap_or(usize::MAX))];
                sum(hot) as f64 / sum(&counts) as f64
            }
        }
    }

    /// Whether it can be one of a table of `rows` rows.
    pub(super) fn check(&self, rows: u64) -> Result<(), InferenceError> {
        match self {
            Self::Zipf { exponent } if !(0.0..=10.0).contains(exponent) => {
                Err(InferenceError::Access(format!("zipf:{exponent}")))
            }
            Self::Counts(counts)
                if counts.len() as u64 > rows || counts.iter().all(|&count| count == 0) =>
            {
                Err(InferenceError::Counts { counts: counts.len(), rows })
            }
            _ => Ok(()),
        }
    }
}

/// The sum of 1 / k^s for k from 1 to n: what is beyond the first terms by the formula of Euler and
/// Maclaurin with its first correction, which leaves an error below 1e-12 of the sum.
fn harmonic(n: u64, s: f64) -> f64 {
    let term = |k: f64| k.powf(-s);
    let exact: f64 = (1..=n.min(EXACT_TERMS)).map(|k| term(k as f64)).sum();
    if n <= EXACT_TERMS {
        return exact;
    }
    let (a, b) = (EXACT_TERMS as f64, n as f64);
    let integral = if (s - 1.0).abs() < 1e-9 {
        (b / a).ln()
    } else {
        (b.powf(1.0 - s) - a.powf(1.0 - s)) / (1.0 - s)
    };
    // The sum from a to b less the term a, which was added already.
    let ends = (term(b) - term(a)) / 2.0;
    exact + integral + ends + s * (term(a) / a - term(b) / b) / 12.0
}

/// Shows what [`Access::from_str`] reads.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { exponent } => write!(f, "zipf:{exponent}"),
            Self::Counts(_) => f.write_str("as counted"),
        }
    }
}

/// Reads `uniform` and `zipf:1.1`. Counts are not written on one line.
impl FromStr for Access {
    type Err = InferenceError;

    fn from_str(text: &str) -> Result<Self, InferenceError> {
        let error = || InferenceError::Access(text.to_string());
        if text == "uniform" {
            return Ok(Self::Uniform);
        }
        let exponent = text.strip_prefix("zipf:").and_then(|exponent| exponent.parse().ok());
        let access = Self::Zipf { exponent: exponent.ok_or_else(error)? };
        access.check(1).map_err(|_| error())?;
        Ok(access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_catches_what_it_holds() {
        assert_eq!(Access::Uniform.hit_rate(200, 50), 0.25);
        // 1 + 1/2 of 1 + 1/2 + 1/3 + 1/4.
        let zipf = Access::Zipf { exponent: 1.0 };
        assert!((zipf.hit_rate(4, 2) - 1.5 / (25.0 / 12.0)).abs() < 1e-15);
        let counts = Access::Counts(vec![1, 0, 6, 3]);
        assert_eq!(counts.hit_rate(100, 2), 0.9);
        for access in [Access::Uniform, zipf, counts] {
            assert_eq!(access.hit_rate(100, 0), 0.0);
            assert_eq!(access.hit_rate(100, 100), 1.0);
            assert_eq!(access.hit_rate(100, 1000), 1.0);
        }
    }

    #[test]
    fn many_terms_by_the_formula_are_what_they_are_one_by_one() {
        for s in [0.0, 0.5, 0.99, 1.0, 1.1, 2.0, 10.0] {
            for n in [1, 9_999, 10_000, 10_001, 300_000] {
                let plain: f64 = (1..=n).rev().map(|k| f64::from(k as u32).powf(-s)).sum();
                let error = (harmonic(n, s) / plain - 1.0).abs();
                assert!(error < 1e-11, "{s} {n}: {error}");
            }
        }
    }

    #[test]
    fn distributions_are_read_or_refused() {
        assert_eq!("uniform".parse(), Ok(Access::Uniform));
        assert_eq!("zipf:1.1".parse(), Ok(Access::Zipf { exponent: 1.1 }));
        for text in ["", "zipf", "zipf:", "zipf:-1", "zipf:nan", "zipf:11", "Uniform", "zipf:1:2"] {
            assert!(text.parse::<Access>().is_err(), "{text}");
        }
        assert!(Access::Counts(vec![0, 0]).check(2).is_err());
        assert!(Access::Counts(vec![1, 1]).check(1).is_err());
        assert!(Access::Counts(vec![1]).check(2).is_ok());
    }
}
