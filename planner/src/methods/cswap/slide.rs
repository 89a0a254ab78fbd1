//! The parameter of the lossy codec: which range pays, and how it slides over the epochs.

/// What Algorithm 1 asks about tensors that are swapped under a parameter `P` of the codec: a large
/// `P` means a large compressed form, and what is lost is little.
pub trait Swapped {
    /// `N`: how many tensors there are.
    fn tensors(&self) -> usize;

    /// `Benefit(t, P)`: time of copies that compressing the tensor spares.
    fn benefit(&self, tensor: usize, parameter: u32) -> u64;

    /// `Time_c + Time_dc` of the tensor, from `Time_model(t, P)`: what that takes.
    fn cost(&self, tensor: usize, parameter: u32) -> u64;

    /// `Hidden(t, P)`: whether computation hides the copies of the compressed form.
    fn is_hidden(&self, tensor: usize, parameter: u32) -> bool;
}

/// The parameters that are worth using.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterRange {
    /// `Top`: beyond it, the copies that are spared do not make up for the codec's time.
    pub top: u32,
    /// `Bottom`: below it, copies are hidden anyway and values would be lost for nothing.
    pub bottom: u32,
}

impl ParameterRange {
    /// Algorithm 1 of CSWAP+: `Top` and `Bottom` over all tensors, each by bisection of `least` to `max`.
    ///
    /// Both are as printed, but that the paper's `least` is 1, which no block of the codec may have. As
    /// the loops never ask about `least` itself, a tensor that no parameter serves counts as that: it
    /// leaves `Top` as it is, and takes `Bottom` down to `least`.
    pub fn search(tensors: &impl Swapped, least: u32, max: u32) -> Self {
        let mut range = Self { top: 0, bottom: max };
        for tensor in 0..tensors.tensors() {
            let pays = |p| tensors.benefit(tensor, p) >= tensors.cost(tensor, p);
            range.top = range.top.max(last_that_holds(least, max, pays));
            let hidden = |p| tensors.is_hidden(tensor, p);
            range.bottom = range.bottom.min(last_that_holds(least, max, hidden));
        }
        range
    }

    /// Whether lossy compression gains anything: `Top > Bottom` (lines 28 to 31).
    pub fn pays(&self) -> bool {
        self.top > self.bottom
    }

    /// Equation 2: by how much the parameter falls from epoch to epoch,
    /// `floor((Top - Bottom) / epochs + 1/2)`.
    pub fn step(&self, epochs: u32) -> u32 {
        let (span, epochs) = (u64::from(self.top.saturating_sub(self.bottom)), u64::from(epochs));
        match epochs {
            0 => 0,
            _ => ((2 * span + epochs) / (2 * epochs)) as u32,
        }
    }

    /// Equation 1: the parameter of an epoch, `max(Top - epoch * step, Bottom)`.
    pub fn at(&self, epoch: u32, epochs: u32) -> u32 {
        let fallen = u64::from(epoch) * u64::from(self.step(epochs));
        u64::from(self.top).saturating_sub(fallen).max(u64::from(self.bottom)) as u32
    }
}

/// The largest of `least` to `max` that holds, where what holds for one holds for all below it;
/// `least` where none does.
fn last_that_holds(least: u32, max: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut left, mut right) = (least, max.max(least));
    while left < right {
        let middle = left + (right - left).div_ceil(2);
        if holds(middle) {
            left = middle;
        } else {
            right = middle - 1;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tensors of given sizes: a parameter P leaves P / 100 of one, the link moves a byte a
    /// nanosecond, the codec takes `codec` whatever the tensor.
    struct Sizes {
        sizes: Vec<u64>,
        hidden: u64,
        codec: u64,
    }

    impl Sizes {
        fn exposed(&self, tensor: usize, parameter: u32) -> u64 {
            (self.sizes[tensor] * u64::from(parameter) / 100).saturating_sub(self.hidden)
        }
    }

    impl Swapped for Sizes {
        fn tensors(&self) -> usize {
            self.sizes.len()
        }

        fn benefit(&self, tensor: usize, parameter: u32) -> u64 {
            self.exposed(tensor, 100) - self.exposed(tensor, parameter)
        }

        fn cost(&self, _: usize, _: u32) -> u64 {
            self.codec
        }

        fn is_hidden(&self, tensor: usize, parameter: u32) -> bool {
            self.exposed(tensor, parameter) == 0
        }
    }

    #[test]
    fn the_range_of_a_problem_solved_by_hand() {
        // The large tensor gains 1000 (100 - P) / 100, which is 200 at P = 80; it is hidden up to
        // 250, which is P = 25. The small one gains 200 up to P = 60, and is hidden up to P = 50.
        let tensors = Sizes { sizes: vec![1000, 500], hidden: 250, codec: 200 };
        assert_eq!(
            ParameterRange::search(&tensors, 1, 100),
            ParameterRange { top: 80, bottom: 25 }
        );
        let small = Sizes { sizes: vec![500], ..tensors };
        let range = ParameterRange::search(&small, 1, 100);
        assert_eq!(range, ParameterRange { top: 60, bottom: 50 });
        assert!(range.pays());
    }

    #[test]
    fn nothing_pays_where_everything_is_hidden_or_the_codec_is_slow() {
        let hidden = Sizes { sizes: vec![100], hidden: 100, codec: 1 };
        let range = ParameterRange::search(&hidden, 1, 100);
        assert_eq!((range, range.pays()), (ParameterRange { top: 1, bottom: 100 }, false));
        let slow = Sizes { sizes: vec![100], hidden: 0, codec: 1000 };
        let range = ParameterRange::search(&slow, 1, 100);
        assert_eq!((range, range.pays()), (ParameterRange { top: 1, bottom: 1 }, false));
        let range = ParameterRange::search(&slow, 9, 100);
        assert_eq!(range, ParameterRange { top: 9, bottom: 9 }, "no less than the codec can make");
        let none = Sizes { sizes: vec![], hidden: 0, codec: 0 };
        assert!(!ParameterRange::search(&none, 1, 100).pays());
    }

    #[test]
    fn the_example_of_equation_2_slides_by_one() {
        let range = ParameterRange { top: 100, bottom: 20 };
        assert_eq!(range.step(90), 1);
        assert_eq!(
            [0, 1, 79, 80, 81, 89].map(|epoch| range.at(epoch, 90)),
            [100, 99, 21, 20, 20, 20]
        );
        assert_eq!(range.step(160), 1, "half rounds up");
        assert_eq!(range.step(161), 0);
        assert_eq!(range.at(5, 0), 100, "no epochs, no slide");
    }

    proptest! {
        #[test]
        fn the_parameter_falls_and_stays_in_range(
            top in 0u32..1000, bottom in 0u32..1000, epochs in 0u32..200,
        ) {
            let range = ParameterRange { top: top.max(bottom), bottom };
            let slide: Vec<u32> = (0..epochs).map(|epoch| range.at(epoch, epochs)).collect();
            prop_assert!(slide.windows(2).all(|w| w[0] >= w[1]));
            prop_assert!(slide.iter().all(|p| (bottom..=range.top).contains(p)));
            prop_assert!(slide.first().is_none_or(|p| *p == range.top));
        }

        #[test]
        fn bisection_finds_what_a_scan_finds(least in 1u32..20, more in 0u32..300, last in 0u32..300) {
            let max = least + more;
            let scanned = (least..=max).rev().find(|p| *p <= last).unwrap_or(least);
            prop_assert_eq!(last_that_holds(least, max, |p| p <= last), scanned);
        }
    }
}
