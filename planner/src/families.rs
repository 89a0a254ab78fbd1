//! Made-up traces with the structures that training has, to plan for and to try searches on.
//!
//! Nothing of them was measured. Sizes and times are drawn from ranges that recordings of real
//! networks have: dear ops with small outputs, cheap ones with large outputs, tiny saved statistics,
//! outputs that lie over inputs, parameters that an update changes at the end.

mod structures;
mod tape;

use schema::Trace;

use crate::split_mix::SplitMix;
use tape::Tape;

/// A kind of made-up trace.
#[derive(Clone, Copy)]
pub struct Family {
    /// What it is called.
    pub name: &'static str,
    /// What it is like.
    pub description: &'static str,
    build: fn(&mut Tape),
}

/// What [`family`] is asked for and cannot give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FamilyError {
    /// There is no such family.
    #[error("there is no family `{name}`: take one of {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// An option is none, or its value is no number in its range.
    #[error(
        "`{option}` is no option of a family: write `seed=NUMBER` or `ops=NUMBER` (20 to 1000000)"
    )]
    Option {
        /// What was given.
        option: String,
    },
}

fn names() -> String {
    all().map(|family| family.name).collect::<Vec<_>>().join(", ")
}

/// All families.
pub fn all() -> impl Iterator<Item = Family> {
    structures::ALL.iter().copied()
}

/// The trace of a family's name with options, as in `u-shaped:seed=7,ops=2000`. Without them the seed is 1
/// and the trace has about 1000 ops. The same name gives the same trace.
///
/// # Errors
///
/// If there is no such family or option.
pub fn family(name: &str) -> Result<Trace, FamilyError> {
    let (of, options) = name.split_once(':').unwrap_or((name, ""));
    let family = all().find(|family| family.name == of);
    let family = family.ok_or_else(|| FamilyError::Unknown { name: of.to_string() })?;
    let (mut seed, mut ops) = (1, 1000);
    for option in options.split([',', ':']).filter(|option| !option.is_empty()) {
        let wrong = || FamilyError::Option { option: option.to_string() };
        let (key, value) = option.split_once('=').ok_or_else(wrong)?;
        let value: u64 = value.parse().map_err(|_| wrong())?;
        match key {
            "seed" => seed = value,
            "ops" if (20..=1_000_000).contains(&value) => ops = value,
            _ => return Err(wrong()),
        }
    }
    let index = all().position(|other| other.name == family.name).unwrap_or(0) as u64;
    let mut tape = Tape::new(SplitMix::new(seed << 8 | index), ops as usize);
    (family.build)(&mut tape);
    Ok(tape.finish(&format!("family:{of}:seed={seed},ops={ops}")))
}
