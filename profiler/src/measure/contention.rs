//! How much the lanes of a device slow each other.

use runtime::device::Load;
use schema::Nanos;

use super::median;
use crate::error::Result;

/// What keeps parts of a device busy, to be timed.
pub trait Loads {
    /// Time of a load while each of others goes on all the time.
    ///
    /// # Errors
    /// Whatever kept a load from running.
    fn time(&mut self, load: Load, beside: &[Load]) -> Result<Nanos>;

    /// Whose product of matrices [`Load::Product`] is, where that may be one or another.
    fn product(&self) -> Option<&'static str> {
        None
    }

    /// Operations of [`Load::Product`] and bytes that [`Load::Pass`] moves, where they are known.
    fn amounts(&self) -> Option<[u64; 2]> {
        None
    }
}

impl Loads for runtime::device::host::HostLoads {
    fn time(&mut self, load: Load, beside: &[Load]) -> Result<Nanos> {
        Ok(Self::time(self, load, beside)?)
    }
}

impl Loads for runtime::cuda::CudaLoads {
    fn time(&mut self, load: Load, beside: &[Load]) -> Result<Nanos> {
        Ok(Self::time(self, load, beside)?)
    }

    fn product(&self) -> Option<&'static str> {
        Some(Self::product(self))
    }

    fn amounts(&self) -> Option<[u64; 2]> {
        Some(self.amounts)
    }
}

/// What loads are measured beside.
pub const BESIDE: [&[Load]; 4] =
    [&[Load::Codec], &[Load::D2h], &[Load::H2d], &[Load::D2h, Load::H2d]];

/// How much the lanes of a device slow each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Contention {
    /// A line for each load, in the order of [`Load::ALL`].
    pub loads: Vec<Slowed>,
    /// Whose product of matrices was measured, where that may be one or another.
    pub product: Option<&'static str>,
    /// What the product computes and the activation moves in a second, where that is known.
    pub rates: Option<[u64; 2]>,
}

/// A load beside others.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowed {
    /// The load.
    pub load: Load,
    /// Its time alone: the median of its repeats.
    pub alone: Nanos,
    /// Beside each of [`BESIDE`], its speed as a share of that alone; none where it would be beside
    /// itself.
    pub shares: [Option<f64>; BESIDE.len()],
}

/// Times every load alone and beside others, `repeats` times each, and in turns, so that whatever
/// else the machine does disturbs all alike.
///
/// # Errors
/// Those of `loads`.
pub fn measure_contention(
    loads: &mut impl Loads,
    repeats: usize,
    mut progress: impl FnMut(),
) -> Result<Contention> {
    let mut slowed = Vec::new();
    for &load in Load::ALL {
        let mut alone = Vec::new();
        let mut beside = [const { Vec::new() }; BESIDE.len()];
        for _ in 0..repeats.max(1) {
            alone.push(loads.time(load, &[])?);
            for (others, times) in BESIDE.iter().zip(&mut beside) {
                if !others.contains(&load) {
                    times.push(loads.time(load, others)?);
                }
            }
        }
        let alone = median(alone).unwrap_or_default();
        // Alone it is not slower than beside others: that is scatter.
        let share = |times: Vec<Nanos>| median(times).map(|time| alone.ratio(time).clamp(0.0, 1.0));
        slowed.push(Slowed { load, alone, shares: beside.map(share) });
        progress();
    }
    let rates = loads.amounts().map(|amounts| {
        let alone = [Load::Product, Load::Pass].map(|load| slowed[load as usize].alone.0.max(1));
        let in_a_second = |amount: u64, alone: u64| {
            u64::try_from(u128::from(amount) * 1_000_000_000 / u128::from(alone))
        };
        [0, 1].map(|of| in_a_second(amounts[of], alone[of]).unwrap_or(u64::MAX))
    });
    Ok(Contention { loads: slowed, product: loads.product(), rates })
}

impl Contention {
    /// The speed of compute while a codec runs, as machines state it: the mean of compute that is
    /// bound by arithmetic and compute that is bound by memory, from 0.1 to 1.
    pub fn beside_codec(&self) -> f64 {
        self.of_compute(&[0])
    }

    /// The same while a copy runs, out or in: the mean of both.
    pub fn beside_copy(&self) -> f64 {
        self.of_compute(&[1, 2])
    }

    /// The mean of both loads of compute beside some of [`BESIDE`].
    fn of_compute(&self, beside: &[usize]) -> f64 {
        let compute = [Load::Product, Load::Pass];
        let shares: Vec<f64> = (self.loads.iter())
            .filter(|slowed| compute.contains(&slowed.load))
            .flat_map(|slowed| beside.iter().filter_map(|index| slowed.shares[*index]))
            .collect();
        if shares.is_empty() {
            return 1.0;
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        // What timing scatters by is no disturbance.
        if mean > 0.97 { 1.0 } else { ((mean * 1000.0).round() / 1000.0).max(0.1) }
    }

    /// The same in words: each load's shares.
    pub fn summary(&self) -> String {
        let lines = self.loads.iter().map(|slowed| {
            let shares = BESIDE.iter().zip(slowed.shares).filter_map(|(others, share)| {
                Some(format!("{:.0} % beside {}", 100.0 * share?, name(others)))
            });
            let whose = self.product.filter(|_| slowed.load == Load::Product);
            let whose = whose.map(|whose| format!(" of {whose}")).unwrap_or_default();
            format!("{}{whose} {}", slowed.load, shares.collect::<Vec<_>>().join(", "))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}

/// What loads run beside, in a few words.
pub fn name(others: &[Load]) -> String {
    match others {
        [Load::D2h, Load::H2d] => "both copies".into(),
        _ => others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device on which codecs take half of memory's bandwidth, and copies in some of a product's.
    struct Stated;

    impl Loads for Stated {
        fn product(&self) -> Option<&'static str> {
            Some("some library")
        }

        fn amounts(&self) -> Option<[u64; 2]> {
            Some([5_000, 700])
        }

        fn time(&mut self, load: Load, beside: &[Load]) -> Result<Nanos> {
            assert!(!beside.contains(&load), "{load} beside itself");
            let slow = beside.contains(&Load::Codec) && load == Load::Pass;
            let slowed = beside == [Load::H2d] && load == Load::Product;
            Ok(Nanos(1000 + if slow { 1000 } else { 0 } + if slowed { 250 } else { 0 }))
        }
    }

    #[test]
    fn shares_are_those_of_the_device() {
        let mut done = 0;
        let contention = measure_contention(&mut Stated, 3, || done += 1).expect("it never fails");
        assert_eq!(done, Load::ALL.len());
        assert_eq!((contention.beside_codec(), contention.beside_copy()), (0.75, 0.95));
        assert_eq!(contention.rates, Some([5_000_000_000, 700_000_000]));
        let of = |load: Load| contention.loads[load as usize].shares;
        assert_eq!(of(Load::Pass), [Some(0.5), Some(1.0), Some(1.0), Some(1.0)]);
        assert_eq!(of(Load::Codec), [None, Some(1.0), Some(1.0), Some(1.0)]);
        assert_eq!(of(Load::H2d), [Some(1.0), Some(1.0), None, None]);
        let said = contention.summary();
        assert!(said.starts_with("product of some library 100 % beside codec"), "{said}");
        assert!(said.contains("activation 50 % beside codec"), "{said}");
    }

    #[test]
    fn what_scatters_is_no_disturbance() {
        let slowed = |load, share| Slowed { load, alone: Nanos(1), shares: [Some(share); 4] };
        let of = |product, pass| Contention {
            loads: vec![slowed(Load::Product, product), slowed(Load::Pass, pass)],
            product: None,
            rates: None,
        };
        assert_eq!(of(0.99, 0.96).beside_codec(), 1.0);
        assert_eq!(of(0.01, 0.02).beside_codec(), 0.1);
    }
}
