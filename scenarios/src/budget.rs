//! A budget of device memory as people write it.

use std::str::FromStr;

use schema::{Bytes, Machine};

/// `16GB`, `14.9GiB`, or a share of the in-core peak such as `50%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// An amount.
    Bytes(Bytes),
    /// A share of the in-core peak, in percent.
    Percent(f64),
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().strip_suffix('%') {
            Some(number) => match number.trim().parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent <= 1000.0 => Ok(Self::Percent(percent)),
                _ => Err("a share of the in-core peak lies between 0% and 1000%".into()),
            },
            None => match text.parse::<Bytes>() {
                Ok(Bytes(0)) => Err("no plan fits 0 bytes".into()),
                Ok(Bytes(bytes))
                    if !text.trim_end().ends_with(|c: char| c.is_ascii_alphabetic()) =>
                {
                    Err(format!(
                        "{bytes} of what? Write {text}GB, {text}GiB or {text}B, or a share of the \
                         in-core peak such as 50%"
                    ))
                }
                Ok(bytes) => Ok(Self::Bytes(bytes)),
                Err(error) => Err(format!("{error}, or a share of the in-core peak such as 50%")),
            },
        }
    }
}

impl Budget {
    /// The budget in bytes; without one, what is usable of the machine's memory.
    pub fn resolve(budget: Option<Self>, machine: &Machine, in_core_peak: Bytes) -> Bytes {
        budget.map_or_else(|| machine.usable_memory(), |budget| budget.of(in_core_peak))
    }

    /// The budget in bytes.
    pub fn of(self, in_core_peak: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                Bytes((in_core_peak.0 as f64 * percent / 100.0).round() as u64)
            }
        }
    }
}
