//! Time, memory and bandwidth as types, all integers: two times can be compared for equality,
//! and no sum depends on the order of its terms.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Nothing.
            pub const ZERO: Self = Self(0);

            /// The difference, or zero where `other` is larger.
            pub fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                Self(iter.map(|x| x.0).sum())
            }
        }
    };
}

unit!(
    /// A duration, or a moment counted from the start of the iteration, in nanoseconds.
    Nanos
);
unit!(
    /// An amount of memory, in bytes.
    Bytes
);
unit!(
    /// A bandwidth, in bytes per second.
    BytesPerSec
);

impl Nanos {
    /// What the times of an iteration may add up to: 2^50 ns, some 13 days. Contention slows by up
    /// to a hundred times, and searches add more: all that stays far from what a number holds.
    pub const MOST: Self = Self(1 << 50);

    /// The duration in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The duration in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// `self` over `other` as a ratio; 1 where both are zero.
    pub fn ratio(self, other: Self) -> f64 {
        if self == other { 1.0 } else { self.0 as f64 / other.0 as f64 }
    }
}

impl BytesPerSec {
    /// The bandwidth in GB/s (1e9 bytes per second).
    pub fn as_gb_per_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// In the largest of decimal units that leaves a number of at least one.
fn in_units(number: u64, [ones, thousands, millions, billions]: [&str; 4]) -> String {
    match number {
        n if n < 1_000 => format!("{n} {ones}"),
        n if n < 1_000_000 => format!("{:.3} {thousands}", n as f64 / 1e3),
        n if n < 1_000_000_000 => format!("{:.3} {millions}", n as f64 / 1e6),
        n => format!("{:.3} {billions}", n as f64 / 1e9),
    }
}

/// Shows the largest decimal unit that leaves a number of at least one: `291.905 ms`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&in_units(self.0, ["ns", "us", "ms", "s"]))
    }
}

/// Shows decimal units (GB is 1e9 bytes), as [`Bytes::from_str`] reads them: `10.061 GB`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&in_units(self.0, ["B", "KB", "MB", "GB"]))
    }
}

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} GB/s", self.as_gb_per_s()))
    }
}

/// A text that is not a number with a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an amount: write {expected}")]
pub struct ParseUnitError {
    text: String,
    expected: &'static str,
}

/// Reads a finite number that is not negative and its unit, `12.5GB`, in whole units where a `u64`
/// holds them.
fn parse(
    text: &str,
    expected: &'static str,
    factor: impl Fn(&str) -> Option<f64>,
) -> Result<u64, ParseUnitError> {
    let (number, unit) = {
        let text = text.trim();
        text.split_at(text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len()))
    };
    let amount = number.parse::<f64>().ok().zip(factor(unit.trim()));
    let amount = amount.map(|(number, factor)| (number * factor).round());
    match amount.filter(|amount| amount.is_finite() && *amount <= 1e18) {
        Some(amount) => Ok(amount as u64),
        None => Err(ParseUnitError { text: text.to_string(), expected }),
    }
}

/// Reads `1500`, `16GB` (1e9 bytes), `14.9GiB` (2^30 bytes) and the like.
impl FromStr for Bytes {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let expected = "bytes with a unit, such as 16GB, 14.9GiB, 512MiB or 1000B";
        let factor = |unit: &str| match unit.to_ascii_lowercase().as_str() {
            "" | "b" => Some(1.0),
            "kb" => Some(1e3),
            "mb" => Some(1e6),
            "gb" => Some(1e9),
            "tb" => Some(1e12),
            "kib" => Some(1024.0),
            "mib" => Some(1024f64.powi(2)),
            "gib" => Some(1024f64.powi(3)),
            "tib" => Some(1024f64.powi(4)),
            _ => None,
        };
        parse(text, expected, factor).map(Self)
    }
}

/// Reads `12GB/s` and the like; a bare number is bytes per second.
impl FromStr for BytesPerSec {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let expected = "a bandwidth, such as 12GB/s or 900MB/s";
        let error = |_| ParseUnitError { text: text.to_string(), expected };
        let amount = text.trim().strip_suffix("/s").unwrap_or(text);
        amount.parse::<Bytes>().map(|b| Self(b.0)).map_err(error)
    }
}

/// Reads `250us`, `1.5 ms` and the like; a bare number is nanoseconds.
impl FromStr for Nanos {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let factor = |unit: &str| match unit {
            "" | "ns" => Some(1.0),
            "us" => Some(1e3),
            "ms" => Some(1e6),
            "s" => Some(1e9),
            _ => None,
        };
        parse(text, "a time with a unit, such as 10us, 1.5ms or 2s", factor).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_both_families_of_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1500", 1500),
            ("16GB", 16_000_000_000),
            ("14.9GiB", 15_998_753_178),
            (" 512 MiB ", 536_870_912),
            ("1kb", 1000),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "GB", "-1GB", "1e9", "12XB", "1.2.3GB", "999999999999TB", "50%"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn bandwidths_and_times_are_read() {
        assert_eq!("12GB/s".parse(), Ok(BytesPerSec(12_000_000_000)));
        assert_eq!("1.5 ms".parse(), Ok(Nanos(1_500_000)));
        assert!("fast".parse::<BytesPerSec>().is_err());
        assert!("1h".parse::<Nanos>().is_err());
    }
}
