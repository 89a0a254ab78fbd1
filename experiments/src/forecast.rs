//! What the time model says of recordings that it has not seen, beside what they say.

mod held_out;
mod read;
mod runs;

use networks::{Arithmetic, Band, Efficiencies, Timed};
use reports::columns;
use schema::{Machine, Nanos};
use serde::Serialize;

pub use held_out::{Fitted, fitted};
pub use read::{Entry, List, read, read_all};

/// A recording, what it is of, and what its times follow from.
#[derive(Debug, Clone)]
pub struct Known {
    /// The file, as it was named.
    pub path: String,
    /// The network's name.
    pub network: String,
    /// Samples per iteration, where that is known.
    pub batch: Option<u32>,
    /// Element type of most arithmetic.
    pub dtype: String,
    /// What it ran on.
    pub machine: Machine,
    /// Whether no fit takes it.
    pub held_back: bool,
    /// What was timed alone.
    pub timed: Vec<Timed>,
    /// The forward phase, the backward phase, and what comes after, with what they took.
    pub phases: [Timed; 3],
    /// What the ops of the forward phase took alone, where they were timed so.
    pub forward_alone: Nanos,
    /// The whole iteration.
    pub iteration: Nanos,
    /// The most memory, modelled and recorded, where they are known.
    pub peaks: [Option<u64>; 2],
}

impl Known {
    fn arithmetic(&self) -> Arithmetic {
        let works = self.phases.iter().flat_map(|phase| &phase.works);
        Arithmetic::of(works.map(|(work, _)| work), &self.machine.device.compute)
    }

    fn title(&self) -> String {
        let batch = self.batch.map_or(String::new(), |batch| format!(" (batch {batch})"));
        format!("{}{batch}, {}, on {}", self.network, self.dtype, self.machine.device.name)
    }
}

/// A time as it was forecast and recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Times {
    /// What the model says.
    pub predicted_ns: Nanos,
    /// What was recorded.
    pub recorded_ns: Nanos,
}

impl Times {
    /// How far the forecast is off, as a share of what was recorded.
    pub fn error(&self) -> f64 {
        self.predicted_ns.0 as f64 / self.recorded_ns.0.max(1) as f64 - 1.0
    }
}

/// What the model says of a recording that it has not seen.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Forecast {
    pub recording: String,
    pub network: String,
    /// Samples per iteration.
    pub batch: Option<u32>,
    /// Element type of most arithmetic.
    pub dtype: String,
    pub machine: String,
    /// The iteration, predicted and recorded.
    #[serde(flatten)]
    pub iteration: Times,
    /// How far the forecast is off, as a share of what was recorded.
    pub error: f64,
    pub forward: Option<Times>,
    pub backward: Option<Times>,
    /// All ops that were timed alone, each as often as it ran.
    pub sum_of_ops: Option<Times>,
    /// The most memory that the modelled iteration needs.
    pub predicted_peak_bytes: Option<u64>,
    pub recorded_peak_bytes: Option<u64>,
    /// Whether the recorded forward phase takes far longer than its ops alone: something else is in it, such as
    /// memory that had been given back before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forward_beyond_ops: bool,
    #[serde(skip)]
    pub arithmetic: Arithmetic,
    /// Whether the fit has seen the device: then the forecast is that of a fit that has not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
}

/// What a fit says of a recording; it should not have seen its device.
pub fn forecast(known: &Known, by: &Efficiencies, seen: bool) -> Forecast {
    let of = |timed: &Timed| (timed.recorded.0 > 0).then(|| times(timed, by));
    let [forward, backward, _] = &known.phases;
    let predicted = known.phases.iter().map(|phase| phase.modelled(by)).sum();
    let iteration = Times { predicted_ns: predicted, recorded_ns: known.iteration };
    let alone = known.timed.iter().filter(|timed| timed.dispatched == 0);
    let sum = alone.map(|timed| times(timed, by)).fold((0, 0), |(predicted, recorded), times| {
        (predicted + times.predicted_ns.0, recorded + times.recorded_ns.0)
    });
    Forecast {
        recording: known.path.clone(),
        network: known.network.clone(),
        batch: known.batch,
        dtype: known.dtype.clone(),
        machine: known.machine.name.clone(),
        error: iteration.error(),
        iteration,
        forward: of(forward),
        backward: of(backward),
        sum_of_ops: (sum.1 > 0)
            .then_some(Times { predicted_ns: Nanos(sum.0), recorded_ns: Nanos(sum.1) }),
        forward_beyond_ops: known.forward_alone > Nanos::ZERO
            && forward.recorded.0 as f64 > BEYOND * known.forward_alone.0 as f64,
        arithmetic: known.arithmetic(),
        predicted_peak_bytes: known.peaks[0],
        recorded_peak_bytes: known.peaks[1],
        seen,
    }
}

/// How many times what its ops take alone a phase takes where something else is in it.
const BEYOND: f64 = 1.4;

fn times(timed: &Timed, by: &Efficiencies) -> Times {
    Times { predicted_ns: timed.modelled(by), recorded_ns: timed.recorded }
}

/// What the efficiencies say of recordings: those of a fit that has not seen the device.
pub fn forecasts(known: &[Known], by: &Efficiencies) -> Vec<Forecast> {
    let of = |known: &Known| {
        let device = &known.machine.device.name;
        let seen = by.without.contains_key(device);
        forecast(known, &by.without(device), seen)
    };
    known.iter().map(of).collect()
}

/// Forecasts as a table, with how far they are off together.
pub fn table(forecasts: &[Forecast]) -> String {
    let percent = |error: f64| format!("{:+.1} %", 100.0 * error);
    let part = |times: Option<Times>| times.map_or("-".into(), |times| percent(times.error()));
    let header = [
        "network", "batch", "dtype", "machine", "forecast", "recorded", "error", "forward",
        "backward", "ops", "memory",
    ];
    let mut rows = vec![header.map(String::from).to_vec()];
    rows.extend(forecasts.iter().map(|of| {
        let memory = memory_error(of).map_or("-".into(), percent);
        vec![
            of.network.clone(),
            of.batch.map_or("-".into(), |batch| batch.to_string()),
            of.dtype.clone(),
            of.machine.clone(),
            of.iteration.predicted_ns.to_string(),
            of.iteration.recorded_ns.to_string(),
            percent(of.error),
            part(of.forward) + if of.forward_beyond_ops { " *" } else { "" },
            part(of.backward),
            part(of.sum_of_ops),
            memory,
        ]
    }));
    let mut text = columns(&rows);
    let band = |name: &str, errors: Vec<f64>| match Band::of(errors) {
        Some(band) => format!("{name}: {} ({} of them)\n", band.in_tenths(), band.forecasts),
        None => String::new(),
    };
    let all = |part: fn(&Forecast) -> Option<f64>| forecasts.iter().filter_map(part).collect();
    text += &band("iterations", all(|of| Some(of.error)));
    for arithmetic in Arithmetic::ALL {
        let of = forecasts.iter().filter(|of| of.arithmetic == arithmetic);
        text += &band(&format!("  {}", arithmetic.name()), of.map(|of| of.error).collect());
    }
    let clean = forecasts.iter().filter(|of| !of.forward_beyond_ops);
    let clean: Vec<f64> = clean.map(|of| of.error).collect();
    if clean.len() < forecasts.len() {
        text += &band(
            "  without those whose forward phase was recorded as over 1.4 times its ops (*)",
            clean,
        );
    }
    text += &band("forward", all(|of| of.forward.map(|times| times.error())));
    text += &band("backward", all(|of| of.backward.map(|times| times.error())));
    text += &band("sums of ops", all(|of| of.sum_of_ops.map(|times| times.error())));
    text += &band("memory", all(memory_error));
    text
}

fn memory_error(of: &Forecast) -> Option<f64> {
    let [predicted, recorded] = [of.predicted_peak_bytes?, of.recorded_peak_bytes?];
    Some(predicted as f64 / recorded.max(1) as f64 - 1.0)
}
