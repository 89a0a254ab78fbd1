//! Fits that leave a device or a network out, and how far they are off there.

use std::collections::BTreeSet;

use networks::{Arithmetic, Band, Class, Efficiencies, Timed, Units, fit_timed};
use schema::{BytesPerSec, Digest};

use super::{Forecast, Known, forecast, table};

/// A fit, and what fits say of recordings that they have not seen.
pub struct Fitted {
    /// Those fitted on all, with those that have not seen each device.
    pub efficiencies: Efficiencies,
    /// Each recording by a fit that has not seen its device.
    pub without_device: Vec<Forecast>,
    /// The same where a product and an element-wise op had been measured on it.
    pub measured: Vec<Forecast>,
    /// Those of [`Self::without_device`] that [`Self::measured`] has.
    pub unmeasured: Vec<Forecast>,
    /// Recordings by a fit on those whose names hash to the other half.
    pub halves: Vec<Forecast>,
    /// Each recording by a fit that has not seen its network on any device.
    pub without_network: Vec<Forecast>,
    /// Each recording by the fit on all.
    pub seen: Vec<Forecast>,
}

/// Fits efficiencies to recordings, and once more without each device and without each network.
pub fn fitted(known: &[Known], from: &Efficiencies) -> Fitted {
    let fit = |keep: &dyn Fn(&Known) -> bool| {
        let kept = known.iter().enumerate().filter(|(_, of)| !of.held_back && keep(of));
        let timed: Vec<Timed> = kept
            .flat_map(|(recording, of)| {
                of.timed.iter().map(move |timed| Timed { recording, ..timed.clone() })
            })
            .collect();
        fit_timed(&timed, from)
    };
    let mut all = fit(&|_| true);
    let fitted_on = known.iter().filter(|of| !of.held_back && !of.timed.is_empty());
    all.recordings = fitted_on.map(Known::title).collect();
    let device = |of: &Known| of.machine.device.name.clone();
    let whole = |of: &&Known| of.iteration.0 > 0;
    let (mut without_device, mut measured, mut unmeasured) = (Vec::new(), Vec::new(), Vec::new());
    let devices: BTreeSet<String> = known.iter().map(device).collect();
    for name in devices {
        let without = fit(&|of| device(of) != name);
        all.keep_without(&name, &without);
        let own: Vec<&Known> = known.iter().filter(|of| device(of) == name).collect();
        let wholes = || own.iter().copied().filter(whole);
        without_device.extend(wholes().map(|of| forecast(of, &without, true)));
        let Some((products, elementwise)) = rates(&own) else { continue };
        unmeasured.extend(wholes().map(|of| forecast(of, &without, true)));
        measured.extend(wholes().map(|of| {
            let mut of = of.clone();
            for timed in of.phases.iter_mut().chain(&mut of.timed) {
                timed.device.f32_products = Some(products);
                timed.device.elementwise = Some(BytesPerSec(elementwise));
            }
            forecast(&of, &without, true)
        }));
    }
    let networks: BTreeSet<&str> = known.iter().map(|of| of.network.as_str()).collect();
    let mut without_network = Vec::new();
    for name in networks {
        let without = fit(&|of| of.network != name);
        let own = known.iter().filter(|of| of.network == name).filter(whole);
        without_network.extend(own.map(|of| forecast(of, &without, true)));
    }
    let mut halves = Vec::new();
    for half in [false, true] {
        let by = fit(&|of| is_odd(of) != half);
        let own = known.iter().filter(|of| is_odd(of) == half).filter(whole);
        halves.extend(own.map(|of| forecast(of, &by, true)));
    }
    for (behind, forecasts) in [("", &without_device), ("-measured", &measured)] {
        for arithmetic in Arithmetic::ALL {
            let of = forecasts.iter().filter(|of| of.arithmetic == arithmetic);
            // Nothing was measured of matrix units.
            let known = behind != "-measured" || arithmetic != Arithmetic::MatrixUnits;
            if let Some(band) = Band::of(of.map(|of| of.error)).filter(|_| known) {
                all.band.insert(format!("{}{behind}", arithmetic.name()), band);
            }
        }
    }
    let seen = known.iter().filter(whole).map(|of| forecast(of, &all, true)).collect();
    Fitted {
        efficiencies: all,
        without_device,
        measured,
        unmeasured,
        halves,
        without_network,
        seen,
    }
}

/// In which half a recording is: whether the last digit of the digest of its network, batch and machine is odd.
fn is_odd(known: &Known) -> bool {
    let digest = Digest::of_bytes(known.title().as_bytes()).to_string();
    digest.ends_with(|last: char| last.to_digit(16).is_some_and(|digit| digit % 2 == 1))
}

/// Operations of a product, and bytes of an element-wise op, from which on they are large.
const LARGE: [u64; 2] = [20_000_000_000, 64 << 20];

/// What the largest product and the largest element-wise op of a device's recordings reach.
fn rates(known: &[&Known]) -> Option<(u64, u64)> {
    let mut found = [None::<(u64, f64)>; 2];
    for timed in known.iter().flat_map(|of| &of.timed) {
        let [(work, 1)] = timed.works.as_slice() else { continue };
        let (place, amount) = match work.class {
            Class::Matrix if work.units == Units::Vectors => (0, work.flops),
            Class::Elementwise(_) => (1, work.bytes),
            _ => continue,
        };
        if amount > found[place].map_or(LARGE[place], |(most, _)| most) {
            found[place] = Some((amount, amount as f64 / (timed.recorded.0.max(1) as f64 * 1e-9)));
        }
    }
    let [Some((_, products)), Some((_, elementwise))] = found else { return None };
    Some((products as u64, elementwise as u64))
}

impl Fitted {
    /// What is left of errors, as tables.
    pub fn text(&self) -> String {
        let mut text = String::from("each recording by a fit that has not seen its device:\n");
        text += &table(&self.without_device);
        let of = |name: &str, forecasts: &[Forecast]| {
            let lines = table(forecasts);
            let summary = lines.lines().skip(1 + forecasts.len());
            let summary: String = summary.map(|line| format!("  {line}\n")).collect();
            format!("{name}:\n{summary}")
        };
        text += &of("with a large product and element-wise op measured on it", &self.measured);
        text += &of("the same without them", &self.unmeasured);
        text += &of(
            "by a fit on those whose digests end with a digit of the other parity",
            &self.halves,
        );
        text += &of("by a fit that has not seen the network", &self.without_network);
        text += &of("by the fit on all", &self.seen);
        text
    }
}
