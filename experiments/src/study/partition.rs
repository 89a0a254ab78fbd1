//! Which points of a study one process plans.

use std::str::FromStr;

use schema::Digest;

/// One part of several, of about as many points each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// From 1.
    part: u64,
    of: u64,
    /// Whether a point belongs to a part by what it asks rather than by its place in the study.
    hashed: bool,
}

impl Partition {
    /// All points.
    pub const WHOLE: Self = Self { part: 1, of: 1, hashed: false };

    /// Whether the point at `index`, from 0, belongs to this part.
    pub fn has(self, index: usize, digest: &Digest) -> bool {
        let number = match self.hashed {
            true => u64::from_str_radix(digest.short(), 16).unwrap_or(0),
            false => index as u64,
        };
        number % self.of == self.part - 1
    }
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, numbers) = text.split_once(':').unwrap_or(("slice", text));
        let numbers = numbers.split_once('/').map(|(part, of)| (part.parse(), of.parse()));
        match (kind, numbers) {
            ("slice" | "hash", Some((Ok(part), Ok(of)))) if 1 <= part && part <= of => {
                Ok(Self { part, of, hashed: kind == "hash" })
            }
            _ => Err(
                "write 1/4 or slice:1/4 for the first of four, every fourth point, or hash:1/4, \
                      whose points are the same ones however many the study has"
                    .into(),
            ),
        }
    }
}
