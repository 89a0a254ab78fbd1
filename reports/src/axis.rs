//! Ticks of an axis, and their labels.

/// Multiples of a round step (1, 2 or 5 times a power of ten) from zero to `max`, at most `most`
/// beyond zero; `most` is at least one.
pub(crate) fn ticks(max: u64, most: u64) -> Vec<u64> {
    let mut steps = (0..20).flat_map(|power| [1, 2, 5].map(|digit| (digit, power)));
    let step = steps
        .find_map(|(digit, power)| {
            let step = 10u64.checked_pow(power)?.checked_mul(digit)?;
            (max / step <= most).then_some(step)
        })
        .unwrap_or(u64::MAX);
    (0..=max / step).map(|i| i * step).collect()
}

/// The unit in which an axis up to a value is labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    pub name: &'static str,
    pub size: u64,
}

impl Unit {
    pub(crate) fn of_time(max: u64) -> Self {
        Self::largest_within(max, ["ns", "us", "ms", "s"])
    }

    pub(crate) fn of_bytes(max: u64) -> Self {
        Self::largest_within(max, ["B", "KB", "MB", "GB"])
    }

    fn largest_within(max: u64, names: [&'static str; 4]) -> Self {
        let [ones, thousands, millions, billions] = names;
        match max {
            0..1_000 => Self { name: ones, size: 1 },
            1_000..1_000_000 => Self { name: thousands, size: 1_000 },
            1_000_000..1_000_000_000 => Self { name: millions, size: 1_000_000 },
            _ => Self { name: billions, size: 1_000_000_000 },
        }
    }

    /// `value` in this unit: exact, without trailing zeros.
    pub(crate) fn label(self, value: u64) -> String {
        let decimals = self.size.ilog10() as usize;
        let (whole, rest) = (value / self.size, value % self.size);
        if rest == 0 {
            return whole.to_string();
        }
        let fraction = format!("{rest:0decimals$}");
        format!("{whole}.{}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_labels_exact() {
        let ticks = ticks(292_000_000, 8);
        let unit = Unit::of_time(292_000_000);
        let labels: Vec<_> = ticks.iter().map(|t| unit.label(*t)).collect();
        assert_eq!(labels, ["0", "50", "100", "150", "200", "250"]);
        assert_eq!(unit.label(1_050_000), "1.05");
        assert_eq!(Unit::of_bytes(999), Unit { name: "B", size: 1 });
        assert_eq!(Unit::of_bytes(1_000_000_000).label(12_500_000_000), "12.5");
    }

    proptest! {
        #[test]
        fn every_axis_has_ticks_within_it(max: u64, most in 1u64..20) {
            let ticks = ticks(max, most);
            prop_assert!(ticks.len() as u64 <= most + 1);
            prop_assert!(ticks.iter().all(|t| *t <= max));
            prop_assert!(max == 0 || max > u64::MAX / 2 || ticks.len() >= 2 || most < 3);
        }
    }
}
