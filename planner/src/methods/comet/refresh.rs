//! When COMET collects statistics and sets its error bounds anew.

/// Iterations between two refreshes as long as bounds settle (section 3.1).
pub const INTERVAL: u32 = 1000;

/// A bound that moved by more than this factor since the last refresh has not settled.
const SETTLED: f64 = 2.0;

/// The active factor `W` of COMET (section 3.1): error bounds are refreshed every `W` iterations.
/// `W` is halved while any layer's bound changes by more than 2x between two refreshes, and is
/// 1000 again when bounds have settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Refresh {
    longest: u32,
    interval: u32,
    next: u64,
    bounds: Vec<Option<f64>>,
}

impl Default for Refresh {
    fn default() -> Self {
        Self::every(INTERVAL)
    }
}

impl Refresh {
    /// With another interval than the paper's, for trainings that are shorter; at least 1.
    pub fn every(interval: u32) -> Self {
        let longest = interval.max(1);
        Self { longest, interval: longest, next: u64::from(longest), bounds: Vec::new() }
    }

    /// `W` as it is now.
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// The iteration at which bounds are set next. Before the first refresh nothing is compressed:
    /// the first iterations collect what the bounds are made from (section 3.4).
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The bounds in force, one for each layer that has one; empty before the first refresh.
    pub fn bounds(&self) -> &[Option<f64>] {
        &self.bounds
    }

    /// Sets the bounds anew, which is due at [`Refresh::next`]. What is no number over 0 is no bound.
    pub fn refresh(&mut self, mut bounds: Vec<Option<f64>>) {
        bounds.iter_mut().for_each(|bound| *bound = bound.filter(|b| b.is_finite() && *b > 0.0));
        // A layer that has no bound and had none has settled; one that has just got one has not.
        let moved = |(old, new): (&Option<f64>, &Option<f64>)| match (old, new) {
            (Some(old), Some(new)) => !(1.0 / SETTLED..=SETTLED).contains(&(new / old)),
            (old, new) => old.is_some() != new.is_some(),
        };
        let unsettled = self.bounds.iter().zip(&bounds).any(moved);
        self.interval = if unsettled { (self.interval / 2).max(1) } else { self.longest };
        self.next += u64::from(self.interval);
        self.bounds = bounds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(bounds: &[f64]) -> Vec<Option<f64>> {
        bounds.iter().copied().map(Some).collect()
    }

    #[test]
    fn layers_without_a_bound_have_settled() {
        let mut refresh = Refresh::default();
        refresh.refresh(vec![None, Some(1.0)]);
        refresh.refresh(vec![None, Some(1.0)]);
        assert_eq!(refresh.interval(), 1000);
        refresh.refresh(vec![Some(1.0), Some(1.0)]);
        assert_eq!(refresh.interval(), 500);
    }

    #[test]
    fn what_is_no_number_is_no_bound() {
        let mut refresh = Refresh::default();
        for _ in 0..2 {
            refresh.refresh(set(&[f64::NAN, f64::INFINITY, 0.0, -1.0]));
            assert_eq!((refresh.bounds(), refresh.interval()), (&[None; 4][..], 1000));
        }
    }

    #[test]
    fn the_interval_halves_while_a_bound_moves_and_is_reset_when_all_settle() {
        let mut refresh = Refresh::default();
        assert_eq!((refresh.interval(), refresh.next(), refresh.bounds().len()), (1000, 1000, 0));
        refresh.refresh(set(&[1.0, 1.0]));
        assert_eq!((refresh.interval(), refresh.next()), (1000, 2000), "nothing to compare with");
        refresh.refresh(set(&[2.0, 0.5]));
        assert_eq!(refresh.interval(), 1000, "2x is not more than 2x");
        refresh.refresh(set(&[2.0, 1.01]));
        assert_eq!((refresh.interval(), refresh.next()), (500, 3500));
        refresh.refresh(set(&[0.9, 1.0]));
        assert_eq!((refresh.interval(), refresh.next()), (250, 3750));
        assert_eq!(refresh.bounds(), [Some(0.9), Some(1.0)]);
        refresh.refresh(set(&[0.9, 1.0]));
        assert_eq!((refresh.interval(), refresh.next()), (1000, 4750));
    }

    #[test]
    fn a_shorter_interval_is_come_back_to() {
        let mut refresh = Refresh::every(4);
        refresh.refresh(set(&[1.0]));
        refresh.refresh(set(&[9.0]));
        assert_eq!((refresh.interval(), refresh.next()), (2, 10));
        refresh.refresh(set(&[9.0]));
        assert_eq!((refresh.interval(), refresh.next()), (4, 14));
        assert_eq!(Refresh::every(0).next(), 1);
    }

    #[test]
    fn the_interval_never_reaches_nothing() {
        let mut refresh = Refresh::default();
        for power in 0..20 {
            refresh.refresh(set(&[10f64.powi(power)]));
        }
        assert_eq!(refresh.interval(), 1);
    }
}
