//! What profiling found, in text.

use std::path::Path;

use planner::{Bound, Problem, bound};
use profiler::machine::MeasuredMachine;
use profiler::measure::{BESIDE, beside_name};
use profiler::op_times::OpTimes;
use profiler::profile::Measuring;
use reports::columns;
use schema::{Bytes, Direction, Machine, Trace};
use simulator::in_core;

use crate::zeros::{TensorZeros, means};

/// What was measured of a network, and of the machine.
pub fn summary(
    trace: &Trace,
    times: &OpTimes,
    machine: &MeasuredMachine,
    how: &Measuring,
) -> String {
    let iterations = &times.iterations;
    let [fastest, slowest] =
        [iterations.first(), iterations.last()].map(|t| t.copied().unwrap_or_default());
    let within = times.within.map(|budget| format!(" under a plan within {budget}"));
    let within = within.unwrap_or_default();
    let mut text = format!(
        "{}: {} ops, {} tensors, peak {}\nin core  {} by the median of each op, iterations took \
         {fastest} to {slowest}{within}\nscatter  half of the ops by less than {:.1} % of their time\n",
        trace.network,
        trace.ops.len(),
        trace.tensors.len(),
        in_core(trace).peak,
        trace.total_time(),
        100.0 * times.scatter
    );
    if let Some(sparsity) = mean_sparsity(trace) {
        text.push_str(&format!("zeros    {:.1} % of all activations\n", 100.0 * sparsity));
    }
    if let Some(whose) = &times.computed_by {
        text.push_str(&format!("computed by {whose}\n"));
    }
    text.push_str(&format!("machine  {}\n\n", machine.machine.description));
    text.push_str(&columns(&copies(machine, how)));
    let link = &machine.machine.link;
    text.push_str(&format!(
        "latency {}; both directions at once: each at {:.0} % of its speed; compute beside a copy: at \
         {:.0} %\n",
        link.latency,
        100.0 * link.both_directions,
        100.0 * link.beside_copy
    ));
    text.push('\n');
    text.push_str(&columns(&contention(machine)));
    text
}

/// The copies that were timed: beside what the host device was asked for, or copies that are not of
/// pinned memory.
fn copies(machine: &MeasuredMachine, how: &Measuring) -> Vec<Vec<String>> {
    let last = if how.target.is_host() { "emulated link" } else { "pageable" };
    let mut rows = vec![["copy", "bytes", "time", "both at once", last].map(String::from).to_vec()];
    rows.extend(machine.link.timed.iter().map(|timed| {
        let direction = match timed.direction {
            Direction::D2h => "out",
            Direction::H2d => "in",
        };
        let asked = || how.link.copy_time(timed.direction, timed.bytes);
        let last = if how.target.is_host() { Some(asked()) } else { timed.pageable };
        let [alone, both] = [timed.measured, timed.both].map(|time| time.to_string());
        let last = last.map_or("-".into(), |time| time.to_string());
        vec![direction.into(), timed.bytes.to_string(), alone, both, last]
    }));
    rows
}

/// How much lanes slow each other.
fn contention(machine: &MeasuredMachine) -> Vec<Vec<String>> {
    let mut head = vec!["speed".to_string(), "alone".to_string()];
    head.extend(BESIDE.iter().map(|others| format!("beside {}", beside_name(others))));
    let mut rows = vec![head];
    rows.extend(machine.contention.loads.iter().map(|slowed| {
        let share = |share: &Option<f64>| match share {
            Some(share) => format!("{:.0} %", 100.0 * share),
            None => "-".into(),
        };
        let alone = [slowed.load.to_string(), slowed.alone.to_string()];
        alone.into_iter().chain(slowed.shares.iter().map(share)).collect()
    }));
    rows
}

/// Shares of zeros by epoch, where any were counted.
pub fn zeros_table(zeros: &[TensorZeros]) -> String {
    let means = means(zeros);
    if means.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["after epoch", "zeros, of all that the forward pass makes"].map(String::from).to_vec(),
    ];
    rows.extend(
        means
            .iter()
            .map(|(epoch, share)| vec![epoch.to_string(), format!("{:.1} %", 100.0 * share)]),
    );
    format!("\n{}", columns(&rows))
}

/// Share of zeros over all activations of which it is known, by bytes.
fn mean_sparsity(trace: &Trace) -> Option<f64> {
    let activations = trace.tensors.iter().filter(|t| t.role == schema::Role::Activation);
    let known = activations.filter_map(|t| Some((t.bytes.0 as f64, t.sparsity?)));
    let (bytes, zeros) =
        known.fold((0.0, 0.0), |(b, z), (bytes, share)| (b + bytes, z + bytes * share));
    (bytes > 0.0).then(|| zeros / bytes)
}

/// Share of the in-core peak, in percent, that the proposed plan is for.
const PROPOSED: u64 = 60;

/// What the files are for.
pub fn next_steps(folder: &Path, trace: &Trace, machine: &Machine, codecs: bool) -> String {
    let (folder, share) = (folder.display(), proposed_share(trace, machine));
    let codecs = match codecs {
        true => format!(" --codec-models {folder}/codec-models.json --codecs all"),
        false => String::new(),
    };
    format!(
        "\ntidegate plan {folder}/trace.json -m {folder}/machine.json -b {share}%{codecs} -o plan.json\n\
         tidegate run plan.json --trace {folder}/trace.json -m {folder}/machine.json\n"
    )
}

/// What is proposed: [`PROPOSED`], or where no plan can go as low, half of the way from the least to the peak.
fn proposed_share(trace: &Trace, machine: &Machine) -> u64 {
    let least = match bound(&Problem::new(trace, machine, Bytes(1))) {
        Bound::Infeasible { needed, .. } => needed,
        Bound::Time(_) => Bytes::ZERO,
    };
    let peak = u128::from(in_core(trace).peak.0.max(1));
    let least = (u128::from(least.0) * 100).div_ceil(peak).min(100) as u64;
    if least > PROPOSED { (least + 100).div_ceil(2) } else { PROPOSED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner::methods::Tide;
    use planner::{NoMonitor, plan};

    #[test]
    fn a_plan_is_proposed_for_what_there_can_be_one_for() {
        let machine = scenarios::machine("titan-v").expect("it is listed");
        let mut shares = Vec::new();
        for family in planner::families::all() {
            let trace = format!("{}:seed=1,ops=20", family.name);
            let trace = planner::families::family(&trace).expect("a family");
            let share = proposed_share(&trace, &machine);
            let budget = Bytes(in_core(&trace).peak.0 * share / 100);
            let problem = Problem::new(&trace, &machine, budget).with_evaluations(10);
            let found = plan(&Tide, &problem, &NoMonitor);
            assert!(found.is_ok(), "{} at {share} %", family.name);
            shares.push(share);
        }
        let [least, most] = [shares.iter().min(), shares.iter().max()];
        assert!(least == Some(&PROPOSED) && most > least, "{shares:?}");
    }
}
