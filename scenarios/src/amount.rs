//! Amounts in a machine file: text with its unit, never a bare number.

use std::fmt;
use std::marker::PhantomData;

use schema::{Bandwidth, BandwidthPoint, Bytes, BytesPerSec, Nanos};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A quantity that is written as a number with a unit.
pub(crate) trait Amount: Sized {
    const EXPECTED: &'static str;
    /// Reads the text; nothing where it is no such amount.
    fn read(text: &str) -> Option<Self>;
}

/// Whether a unit follows the number: the schema's readers take a bare number too, and `"16"` for
/// 16 GB would pass as 16 bytes.
fn has_unit(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_alphabetic())
}

impl Amount for Bytes {
    const EXPECTED: &'static str = "bytes with a unit, such as \"16GiB\" or \"500MB\"";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok().filter(|_| has_unit(text))
    }
}

impl Amount for BytesPerSec {
    const EXPECTED: &'static str = "a bandwidth with its unit, such as \"12GB/s\"";

    fn read(text: &str) -> Option<Self> {
        text.strip_suffix("/s").and_then(Bytes::read).map(|amount| Self(amount.0))
    }
}

impl Amount for Nanos {
    const EXPECTED: &'static str = "a time with a unit, such as \"10us\"";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok().filter(|_| has_unit(text))
    }
}

/// Floating-point operations per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flops(pub(crate) u64);

impl Amount for Flops {
    const EXPECTED: &'static str =
        "operations per second with a unit, such as \"15.7TFLOPS\" or \"2.25PFLOPS\"";

    fn read(text: &str) -> Option<Self> {
        let units = [("GFLOPS", 1e9), ("TFLOPS", 1e12), ("PFLOPS", 1e15)];
        let (number, factor) = units
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), factor)))?;
        let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let flops = number.parse::<f64>().ok().filter(|_| plain)? * factor;
        (flops <= 1e18).then_some(Self(flops.round() as u64))
    }
}

/// Reads a field that holds an amount.
pub(crate) fn amount<'de, D: Deserializer<'de>, T: Amount>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    struct AmountVisitor<T>(PhantomData<T>);

    impl<T: Amount> Visitor<'_> for AmountVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::EXPECTED)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            T::read(text).ok_or_else(|| E::custom(format!("`{text}` is not {}", T::EXPECTED)))
        }
    }

    deserializer.deserialize_str(AmountVisitor(PhantomData)).map(Some)
}

/// Reads a field that holds one bandwidth, or a list of measured points.
pub(crate) fn bandwidth<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Bandwidth>, D::Error> {
    struct BandwidthVisitor;

    impl<'de> Visitor<'de> for BandwidthVisitor {
        type Value = Bandwidth;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(
                "a bandwidth such as \"12GB/s\", or a list of points such as \
                 { bytes = \"64KiB\", bandwidth = \"3GB/s\" }",
            )
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Bandwidth, E> {
            let error = || E::custom(format!("`{text}` is not {}", BytesPerSec::EXPECTED));
            BytesPerSec::read(text).map(Bandwidth::constant).ok_or_else(error)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bandwidth, A::Error> {
            let mut pinned = Vec::new();
            while let Some(PointTable { bytes, bandwidth }) = list.next_element()? {
                let (Some(bytes), Some(bytes_per_sec)) = (bytes, bandwidth) else {
                    return Err(de::Error::custom("a point needs `bytes` and `bandwidth`"));
                };
                pinned.push(BandwidthPoint { bytes, bytes_per_sec });
            }
            Ok(Bandwidth { pinned, pageable: Vec::new() })
        }
    }

    deserializer.deserialize_any(BandwidthVisitor).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PointTable {
    #[serde(default, deserialize_with = "amount")]
    bytes: Option<Bytes>,
    #[serde(default, deserialize_with = "amount")]
    bandwidth: Option<BytesPerSec>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_needs_a_number_and_its_own_unit() {
        assert_eq!(Bytes::read("16GiB"), Some(Bytes(16 << 30)));
        assert_eq!(BytesPerSec::read("11.7GB/s"), Some(BytesPerSec(11_700_000_000)));
        assert_eq!(Nanos::read("10us"), Some(Nanos(10_000)));
        assert_eq!(Flops::read("2.25PFLOPS"), Some(Flops(2_250_000_000_000_000)));
        assert_eq!(Flops::read("15.7 TFLOPS"), Some(Flops(15_700_000_000_000)));

        for text in ["16", "GiB", "16GB/s", "-1GB", "16us", ""] {
            assert_eq!(Bytes::read(text), None, "{text}");
        }
        for text in ["12", "12/s", "12GB", "12GB/s/s", "/s"] {
            assert_eq!(BytesPerSec::read(text), None, "{text}");
        }
        for text in ["10", "10GB", "us"] {
            assert_eq!(Nanos::read(text), None, "{text}");
        }
        for text in ["14", "14TF", "infTFLOPS", "1e3TFLOPS", "-1TFLOPS", "9999PFLOPS", "TFLOPS"] {
            assert_eq!(Flops::read(text), None, "{text}");
        }
    }
}
