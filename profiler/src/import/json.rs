//! What both of PyTorch's JSON recordings need of JSON: values whose type differs between versions.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A number or a text; whatever else stands there is `Other`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Scalar {
    Whole(i64),
    Number(f64),
    Text(String),
    Truth(bool),
    Other(IgnoredAny),
}

impl Default for Scalar {
    fn default() -> Self {
        Self::Other(IgnoredAny)
    }
}

impl Scalar {
    /// As a whole number; texts of digits are, too.
    pub fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(whole) => Some(*whole),
            Self::Number(number) if number.fract() == 0.0 && number.abs() < 9e18 => {
                Some(*number as i64)
            }
            Self::Text(text) => text.trim().parse().ok(),
            Self::Truth(truth) => Some(i64::from(*truth)),
            _ => None,
        }
    }

    pub fn natural(&self) -> Option<u64> {
        self.whole().and_then(|whole| u64::try_from(whole).ok())
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// Microseconds with up to three decimals, in nanoseconds. A text is taken to the digit.
    pub fn micros(&self) -> Option<i64> {
        const LARGEST: i64 = i64::MAX / 4000;
        let small = |whole: i64| (whole.unsigned_abs() < LARGEST as u64).then_some(whole);
        match self {
            Self::Whole(whole) => Some(small(*whole)? * 1000),
            Self::Number(number) => {
                (number.abs() < LARGEST as f64).then(|| (number * 1000.0).round() as i64)
            }
            Self::Text(text) => {
                let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
                let nanos: String = fraction.chars().chain("000".chars()).take(3).collect();
                let nanos: i64 = nanos.parse().ok().filter(|nanos| *nanos >= 0)?;
                let sign = if whole.starts_with('-') { -1 } else { 1 };
                Some(small(whole.parse().ok()?)? * 1000 + sign * nanos)
            }
            Self::Truth(_) | Self::Other(_) => None,
        }
    }
}

/// Bytes of an element by what PyTorch's recordings call its type; absent where they name no tensor.
pub(super) fn element_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype.trim_start_matches("c10::") {
        "float" | "int" | "unsigned int" | "qint32" => 4,
        "double" | "long int" | "long" | "complex<float>" | "unsigned long" => 8,
        "Half" | "BFloat16" | "short int" | "short" | "unsigned short" | "complex<Half>" => 2,
        "bool" | "unsigned char" | "signed char" | "char" | "qint8" | "quint8" => 1,
        "complex<double>" => 16,
        other if other.starts_with("Float8") => 1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_all_that_versions_write() {
        let micros = |json: &str| serde_json::from_str::<Scalar>(json).expect("a value").micros();
        assert_eq!(micros("12"), Some(12_000));
        assert_eq!(micros("12.25"), Some(12_250));
        assert_eq!(micros("\"1712345678901234.567\""), Some(1_712_345_678_901_234_567));
        assert_eq!(micros("\"12\""), Some(12_000));
        assert_eq!(micros("\"NaN\""), None);
        assert_eq!(micros("1e300"), None);
        assert_eq!(micros("-9223372036854775808"), None);
        assert_eq!(micros("[1]"), None);
        assert_eq!(micros("\"9223372036854775807\""), None);
    }
}
