//! The time of an op by the roofline of its device, and the trace that results.

use std::collections::BTreeMap;

use schema::{
    Compute as DeviceCompute, Document, Machine, Nanos, Op, Origin, Provenance, Role, Trace,
};
use serde::{Deserialize, Serialize};

use super::accumulate::accumulated;
use super::class::Class;
use super::conventions::Conventions;
use super::error::NetworkError;
use super::layer::Network;
use super::sparsity::of_layers;
use super::tape::{Measured, Tape};
use super::work::{Costs, Work};

/// What share of a device's peak figures a class of ops reaches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiency {
    /// Of its operations per second.
    pub compute: f64,
    /// Of its memory's bandwidth.
    pub bandwidth: f64,
    /// Where both figures come from.
    pub source: String,
}

/// What share of a device's peak figures ops reach, and what each costs beside.
///
/// The model: an op takes `launch + max(flops / (compute · s · peak), bytes / (bandwidth · peak))`,
/// with the class's shares `compute` and `bandwidth`, and s = K / (K + `half_depth`) for products
/// that sum over K terms, since a short sum leaves the arithmetic units waiting for operands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiencies {
    /// Time of an op that has nothing to do.
    pub launch_ns: u64,
    /// Terms of a sum at which products reach half of their efficiency.
    pub half_depth: f64,
    /// What was fitted on.
    #[serde(default)]
    pub recordings: Vec<String>,
    /// By the name of the class.
    pub class: BTreeMap<String, Efficiency>,
}

impl Efficiencies {
    /// Those that come with tidegate.
    pub fn bundled() -> Self {
        let text = include_str!("../efficiencies.toml");
        Self::from_toml(text).expect("a test reads the bundled efficiencies")
    }

    /// Reads what [`Self::to_toml`] wrote.
    ///
    /// # Errors
    /// Where the text is no such TOML, a class is missing or unknown, or a figure is not over 0.
    pub fn from_toml(text: &str) -> Result<Self, NetworkError> {
        let wrong = |why: String| Err(NetworkError::Efficiencies(why));
        let read: Self = match toml::from_str(text) {
            Ok(read) => read,
            Err(error) => return wrong(error.to_string()),
        };
        let names: Vec<String> = Class::all().into_iter().map(Class::name).collect();
        if let Some(missing) = names.iter().find(|name| !read.class.contains_key(*name)) {
            return wrong(format!("there is no [class.{missing}]: every class needs figures"));
        }
        if let Some(unknown) = read.class.keys().find(|name| !names.contains(name)) {
            return wrong(format!("[class.{unknown}] is no class of ops: delete it"));
        }
        for (name, efficiency) in &read.class {
            let good = |share: f64| share > 0.0 && share <= 4.0;
            if !good(efficiency.compute) || !good(efficiency.bandwidth) {
                return wrong(format!("[class.{name}]: shares are over 0 and at most 4"));
            }
        }
        if !(0.0..=1e4).contains(&read.half_depth) || read.launch_ns > 1_000_000_000 {
            return wrong("half_depth is from 0 to 10000, launch_ns at most a second".to_string());
        }
        Ok(read)
    }

    /// As a TOML text.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "# What share of a device's peak figures each class of ops reaches. Written by\n\
             # `tidegate fit`, which fits the classes that recordings have.\n\
             launch_ns = {}\nhalf_depth = {}\nrecordings = [\n",
            self.launch_ns, self.half_depth
        );
        for recording in &self.recordings {
            text += &format!("    {},\n", text_of(recording));
        }
        text += "]\n";
        for class in Class::all().into_iter().map(Class::name) {
            if let Some(Efficiency { compute, bandwidth, source }) = self.class.get(&class) {
                text += &format!(
                    "\n[class.{class}]\ncompute = {compute}\nbandwidth = {bandwidth}\n\
                     source = {}\n",
                    text_of(source)
                );
            }
        }
        text
    }

    /// Seconds that the arithmetic and the memory traffic of an op take, without its launch.
    pub(crate) fn roofline_secs(&self, work: &Work, device: &DeviceCompute) -> (f64, f64) {
        // Every class is there, as reading makes sure.
        let Some(Efficiency { compute, bandwidth, .. }) = self.class.get(&work.class.name()) else {
            return (0.0, 0.0);
        };
        let peak = if work.matrix_units { device.f16_flops } else { device.f32_flops } as f64;
        let busy = match work.depth {
            0 => 1.0,
            depth => depth as f64 / (depth as f64 + self.half_depth),
        };
        let arithmetic = work.flops as f64 / (compute * busy * peak);
        (arithmetic, work.bytes as f64 / (bandwidth * device.memory_bandwidth.0 as f64))
    }

    pub(crate) fn time(&self, work: &Work, device: &DeviceCompute) -> Nanos {
        let (arithmetic, movement) = self.roofline_secs(work, device);
        // A view is no kernel; it costs the host a little, the device nothing.
        let launch = if work.class == Class::View { 0 } else { self.launch_ns };
        // A time beyond the range of `u64` becomes its end, which no trace may hold.
        Nanos(launch.saturating_add((arithmetic.max(movement) * 1e9).round() as u64))
    }
}

/// The trace of one training iteration of a network on a machine, by PyTorch's conventions and with
/// times by the efficiencies that come with tidegate.
///
/// # Errors
/// Where the iteration is larger than a trace may be.
pub fn modelled_trace(network: &Network, machine: &Machine) -> Result<Trace, NetworkError> {
    let tape = network.lower(&Conventions::PYTORCH).tape;
    modelled_trace_of(network, &tape, machine, &Efficiencies::bundled())
}

/// The trace of a tape, which is `network`'s by any conventions, with times by some efficiencies.
///
/// # Errors
/// Where the iteration is larger than a trace may be.
pub fn modelled_trace_of<K>(
    network: &Network,
    tape: &Tape<K>,
    machine: &Machine,
    efficiencies: &Efficiencies,
) -> Result<Trace, NetworkError> {
    let times = |op: &crate::Op<K>| efficiencies.time(&op.work, &machine.device.compute);
    let shares = of_layers(network);
    let names = network.layers.iter().zip(shares);
    let by_name: BTreeMap<&str, f64> =
        names.map(|(layer, share)| (layer.name.as_str(), share)).collect();
    let share = |tensor: &crate::Tensor| {
        let share = by_name.get(tensor.name.as_str()).copied();
        share.filter(|_| tensor.role == Role::Activation)
    };
    let measured = Measured {
        durations: tape.ops().iter().map(times).collect(),
        sparsity: tape.tensors().iter().map(share).collect(),
    };
    let provenance =
        Provenance::new(Origin::Modelled, machine.device.name.clone(), "built layer by layer");
    let mut trace = tape.trace(&measured, provenance);
    for (op, of) in trace.ops.iter_mut().zip(tape.ops()) {
        // The statistics are there already: two passes over memory for three.
        op.recompute = of.recompute_differs.then_some(Nanos(op.duration.0 / 3 * 2));
    }
    if let Err(why) = trace.check() {
        return Err(NetworkError::Invalid { network: network.name.clone(), why });
    }
    // After the check, which makes sure that sums of times are in range.
    let works: Vec<Work> = tape.ops().iter().map(|op| op.work).collect();
    trace.provenance.notes = notes(network, &trace.ops, &works, efficiencies);
    let passes = network.options.accumulate;
    if passes > 1 {
        let costs = Costs { network, by: &Conventions::PYTORCH };
        let width = network.dtype.bytes();
        let add =
            |bytes: u64| efficiencies.time(&costs.sum(bytes / width, 2), &machine.device.compute);
        trace = accumulated(trace, passes, add);
        if let Err(why) = trace.check() {
            return Err(NetworkError::Invalid { network: network.name.clone(), why });
        }
    }
    Ok(trace)
}

fn notes(network: &Network, ops: &[Op], works: &[Work], by: &Efficiencies) -> Vec<String> {
    let assumed = |work: &Work| {
        let efficiency = by.class.get(&work.class.name());
        efficiency.is_some_and(|efficiency| efficiency.source.starts_with("assumed"))
    };
    let time = |ops: &mut dyn Iterator<Item = &Op>| ops.map(|op| op.duration).sum::<Nanos>();
    let of_assumed = ops.iter().zip(works).filter(|(_, work)| assumed(work)).map(|(op, _)| op);
    let all = time(&mut ops.iter());
    let share = 100.0 * time(&mut { of_assumed }).0 as f64 / all.0.max(1) as f64;
    vec![
        "nothing was run: times are modelled, from the operations and bytes of each op and \
         the efficiencies of its kind"
            .to_string(),
        format!("{share:.0} % of the time rests on efficiencies that no recording was fitted on"),
        format!(
            "shares of zeros are modelled too, for a training that has come to {:.0} %",
            100.0 * network.options.progress
        ),
    ]
}

/// A text in TOML's quotes.
fn text_of(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
