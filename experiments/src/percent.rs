//! Shares in percent.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A share in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
        match number.filter(|number: &f64| number.is_finite() && *number >= 0.0) {
            Some(number) => Ok(Self(number)),
            None => Err("write a share in percent, such as 10%".into()),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Reads a percentage of a range; its error says how one is written.
pub fn percent(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<Percent, String> + Clone {
    move |text| match text.parse() {
        Ok(Percent(number)) if range.contains(&number) => Ok(Percent(number)),
        _ => Err(format!("write a share such as 20%, from {}% to {}%", range.start(), range.end())),
    }
}

/// Reads it as a share of one; its error says how one is written.
pub fn share(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    let percent = percent(range);
    move |text| percent(text).map(|percent| percent.0 / 100.0)
}
