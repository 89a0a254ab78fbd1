//! What the Huffman code sees of quantised differences: tokens.
//!
//! A *token* stands for a run of zeros or for a value's sign and magnitude class; a class of more
//! than one magnitude is followed by *extra bits* that say which. Classes are as in Deflate's
//! length codes: small magnitudes have one each, above that each octave is cut into equal parts.
//!
//! cuSZ gives each of `2 R` differences a symbol and lists those beyond the radius `R` as outliers
//! (Tian et al., PACT 2020). Here the alphabet has [`TOKENS`] symbols at every error bound, so that
//! a block can carry a code of its own and no difference is ever out of range; within a class of an
//! eighth of an octave the distribution is so flat that this costs hundredths of a bit. Runs are
//! what lets half-zero data cost less than the one bit per zero that a Huffman code of single
//! values must pay.
//!
//! Tokens are numbered from 0: the classes of runs by length, then the classes of values by
//! magnitude, of each the positive one first.

/// Elements per segment. A segment is one bit stream, and no run leaves it.
pub(super) const SEGMENT: usize = 2048;

/// Bits of a magnitude below its leading one that are part of its class.
pub(super) const VALUE_BITS: u32 = 3;
/// The same of a run's length.
pub(super) const RUN_BITS: u32 = 2;

/// Differences have at most this many bits: the 22 of a quantised value and one for each dimension.
const MAGNITUDE_BITS: u32 = 26;

pub(super) const RUN_TOKENS: usize = class_of(SEGMENT as u32, RUN_BITS).index as usize;

pub(super) const TOKENS: usize =
    RUN_TOKENS + 2 * class_of((1 << MAGNITUDE_BITS) - 1, VALUE_BITS).index as usize;

/// Bits of a token in a [`Packed`] one.
const TOKEN_BITS: u32 = TOKENS.next_power_of_two().trailing_zeros();

/// A token in the low bits and the value of its extra bits above.
pub(super) type Packed = u32;

pub(super) fn token(packed: Packed) -> usize {
    (packed & ((1 << TOKEN_BITS) - 1)) as usize
}

pub(super) fn extra(packed: Packed) -> u32 {
    packed >> TOKEN_BITS
}

/// A class of magnitudes, counted from 1: magnitude 1 is class 1.
struct Class {
    index: u32,
    extra: u32,
}

const fn class_of(magnitude: u32, bits: u32) -> Class {
    let octave = magnitude.ilog2();
    let extra_bits = octave.saturating_sub(bits);
    let index = (extra_bits << bits) + (magnitude >> extra_bits);
    Class { index, extra: magnitude & ((1 << extra_bits) - 1) }
}

/// Smallest magnitude of a class, and its number of extra bits.
const fn class_start(index: u32, bits: u32) -> (u32, u32) {
    let extra_bits = (index >> bits).saturating_sub(1);
    ((index - (extra_bits << bits)) << extra_bits, extra_bits)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    /// Smallest magnitude, or length of a run.
    pub(super) base: u32,
    /// How many bits are to be added to it.
    pub(super) extra_bits: u32,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Run,
    Positive,
    Negative,
}

/// What a token below [`TOKENS`] stands for.
pub(super) const fn meaning(token: usize) -> Meaning {
    let (bits, index, kind) = if token < RUN_TOKENS {
        (RUN_BITS, token, Kind::Run)
    } else {
        let value = token - RUN_TOKENS;
        let kind = if value.is_multiple_of(2) { Kind::Positive } else { Kind::Negative };
        (VALUE_BITS, value / 2, kind)
    };
    let (base, extra_bits) = class_start(index as u32 + 1, bits);
    Meaning { base, extra_bits, kind }
}

/// The packed token of a run of each length but 0.
static RUNS: [Packed; SEGMENT + 1] = {
    let mut runs = [0; SEGMENT + 1];
    let mut length = 1;
    while length <= SEGMENT {
        let class = class_of(length as u32, RUN_BITS);
        runs[length] = class.extra << TOKEN_BITS | (class.index - 1);
        length += 1;
    }
    runs
};

fn value(difference: i32) -> Packed {
    let class = class_of(difference.unsigned_abs(), VALUE_BITS);
    let sign = u32::from(difference < 0);
    class.extra << TOKEN_BITS | (RUN_TOKENS as u32 + 2 * (class.index - 1) + sign)
}

/// How often each token occurs.
pub(super) type Histogram = [u32; TOKENS];

pub(super) fn histogram(tokens: &[Packed]) -> Histogram {
    let mut histogram = [0; TOKENS];
    for packed in tokens {
        histogram[token(*packed)] += 1;
    }
    histogram
}

/// Writes the tokens of one segment's differences to the front of `tokens` and returns how many
/// there are: no more than differences. One more place is overwritten.
pub(super) fn tokenize(segment: &[i32], tokens: &mut [Packed]) -> usize {
    let (mut count, mut next) = (0, 0);
    let mut put = |packed: Packed, keep: bool| {
        tokens[count] = packed;
        count += usize::from(keep);
    };
    for (chunk, start) in segment.chunks(64).zip((0..).step_by(64)) {
        let mut set = non_zeros(chunk);
        while set != 0 {
            let lane = set.trailing_zeros() as usize;
            let zeros = start + lane - next;
            // Whether zeros come before a value is as good as random: written in any case and
            // overwritten if not, so that no branch can be guessed wrongly.
            put(RUNS[zeros], zeros > 0);
            put(value(chunk[lane]), true);
            next = start + lane + 1;
            set &= set - 1;
        }
    }
    let zeros = segment.len() - next;
    put(RUNS[zeros], zeros > 0);
    count
}

/// A bit for each of up to 64 values: whether it is not zero.
fn non_zeros(values: &[i32]) -> u64 {
    values.iter().zip(0..).fold(0, |set, (value, lane)| set | u64::from(*value != 0) << lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value or run that a packed token says.
    fn said(packed: Packed) -> (Kind, u32) {
        let Meaning { base, extra_bits, kind } = meaning(token(packed));
        assert!(extra(packed) < 1 << extra_bits);
        (kind, base + extra(packed))
    }

    #[test]
    fn every_run_and_every_value_comes_back() {
        for (length, run) in (1..).zip(&RUNS[1..]) {
            assert_eq!(said(*run), (Kind::Run, length));
        }
        let largest = (1 << MAGNITUDE_BITS) - 1;
        for magnitude in (1..5000).chain((5000..largest).step_by(9973)).chain([largest]) {
            assert_eq!(said(value(magnitude)), (Kind::Positive, magnitude as u32));
            assert_eq!(said(value(-magnitude)), (Kind::Negative, magnitude as u32));
        }
    }

    /// What the tokens of these differences say.
    fn expanded(differences: &[i32]) -> Vec<i32> {
        let mut tokens = vec![0; differences.len() + 1];
        let count = tokenize(differences, &mut tokens);
        let mut back = Vec::new();
        for (kind, magnitude) in tokens[..count].iter().map(|packed| said(*packed)) {
            match kind {
                Kind::Run => back.resize(back.len() + magnitude as usize, 0),
                Kind::Positive => back.push(magnitude as i32),
                Kind::Negative => back.push(-(magnitude as i32)),
            }
        }
        back
    }

    #[test]
    fn tokens_say_what_the_differences_were() {
        for zeros in (0..200).chain([SEGMENT - 3, SEGMENT]) {
            let mut differences = vec![0; zeros];
            assert_eq!(expanded(&differences), differences);
            differences.extend([-1, 9, 0, 0, -70_000]);
            differences.truncate(SEGMENT);
            assert_eq!(expanded(&differences), differences);
        }
        let values: Vec<i32> = (1..=SEGMENT as i32).map(|i| i * 31).collect();
        assert_eq!(expanded(&values), values);
    }
}
