//! Faults and delays that are made on purpose, to see what becomes of them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schema::Lane;

/// Something that goes wrong on purpose. Parsed from `copy-out:3`, `copy-in:3` (the third copy of
/// an iteration fails), `host-memory` (there is none left), `corrupt:2`, `corrupt:relu1` (what the
/// second compression, or those of a tensor, make is damaged), `delay:h2d:3:5ms` (the third action
/// of a lane starts late).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants name the fields")]
pub enum Fault {
    /// A copy to the host fails, counted from 1 in each iteration.
    D2h(u32),
    /// A copy to the device fails, counted from 1 in each iteration.
    H2d(u32),
    /// The first action that wants host memory finds none.
    HostMemory,
    /// A compressed form is damaged after it was made.
    Corrupt(Damaged),
    /// One of a lane's actions, counted from 1, starts late.
    Delay { lane: Lane, number: u32, by: Duration },
}

/// Which compressed forms are damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damaged {
    /// That of one compression, counted from 1 in each iteration.
    Number(u32),
    /// Those of the tensor of this name.
    Tensor(String),
}

/// Random delays before the actions of every lane, the same ones for the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// What they are drawn from.
    pub seed: u64,
    /// The longest.
    pub longest: Duration,
}

/// A text that is no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no fault: write copy-out:N, copy-in:N, host-memory, corrupt:N, corrupt:TENSOR, or \
     delay:LANE:N:TIME such as delay:h2d:3:5ms; N counts from 1"
)]
pub struct ParseFaultError {
    text: String,
}

impl FromStr for Fault {
    type Err = ParseFaultError;

    fn from_str(text: &str) -> Result<Self, ParseFaultError> {
        parse(text).ok_or_else(|| ParseFaultError { text: text.into() })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::D2h(number) => write!(f, "copy-out:{number}"),
            Self::H2d(number) => write!(f, "copy-in:{number}"),
            Self::HostMemory => f.write_str("host-memory"),
            Self::Corrupt(Damaged::Number(number)) => write!(f, "corrupt:{number}"),
            Self::Corrupt(Damaged::Tensor(name)) => write!(f, "corrupt:{name}"),
            Self::Delay { lane, number, by } => {
                write!(f, "delay:{}:{number}:{}us", lane.name(), by.as_micros())
            }
        }
    }
}

fn parse(text: &str) -> Option<Fault> {
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
    match text.split_once(':').unwrap_or((text, "")) {
        ("copy-out", rest) => number(rest).map(Fault::D2h),
        ("copy-in", rest) => number(rest).map(Fault::H2d),
        ("host-memory", "") if !text.contains(':') => Some(Fault::HostMemory),
        ("corrupt", "") => None,
        ("corrupt", rest) => Some(Fault::Corrupt(match rest.parse() {
            Ok(0) => return None,
            Ok(number) => Damaged::Number(number),
            Err(_) => Damaged::Tensor(rest.into()),
        })),
        ("delay", rest) => {
            let mut parts = rest.split(':');
            let (lane, at, by) = (parts.next()?, parts.next()?, parts.next()?);
            let lane = Lane::ALL.into_iter().find(|known| known.name() == lane)?;
            let fault = Fault::Delay { lane, number: number(at)?, by: duration(by)? };
            parts.next().is_none().then_some(fault)
        }
        _ => None,
    }
}

/// A whole number of `us`, `ms` or `s`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number = number.parse::<u32>().ok()?.into();
    match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        let read = |text: &str| text.parse::<Fault>().map_err(|_| ());
        assert_eq!(read("copy-out:3"), Ok(Fault::D2h(3)));
        assert_eq!(read("copy-in:1"), Ok(Fault::H2d(1)));
        assert_eq!(read("host-memory"), Ok(Fault::HostMemory));
        assert_eq!(read("corrupt:2"), Ok(Fault::Corrupt(Damaged::Number(2))));
        let tensor = Damaged::Tensor("layer1.0:relu".into());
        assert_eq!(read("corrupt:layer1.0:relu"), Ok(Fault::Corrupt(tensor)));
        let by = Duration::from_millis(5);
        assert_eq!(read("delay:h2d:3:5ms"), Ok(Fault::Delay { lane: Lane::H2d, number: 3, by }));
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_there_is() {
        let texts = " copy-out copy-out:0 copy-in:x host-memory: corrupt: corrupt:0 delay:h2d:3 \
                     delay:up:3:5ms delay:h2d:0:5ms delay:h2d:3:5 delay:h2d:1:1s:2 fire";
        for text in texts.split(' ') {
            let error = text.parse::<Fault>().expect_err(text).to_string();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("delay:LANE"),
                "{error}"
            );
        }
    }
}
