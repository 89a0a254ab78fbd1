//! `tidegate bench`

mod codecs;
mod plan;
mod synthetic;

use std::hint::black_box;
use std::time::Instant;

use schema::{Bytes, Nanos, Trace};
use simulator::Program;
use simulator::replay::{Schedule, replay};

use crate::exit::Result;
use crate::inputs::{InPlace, read_trace};
use crate::output::{Format, columns, print, print_json};

/// Measure tidegate itself
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Time in-core replays: of traces, and of synthetic ones up to a million ops
    Replay(ReplayArgs),
    /// Time codecs on synthetic tensors, as ratios to a naive loop, to LZ4 and to one thread; on CUDA to
    /// copies within its memory
    Codecs(codecs::Args),
    /// Time planning: how long each method takes, and how many decisions it evaluates a second
    Plan(Box<plan::Args>),
}

#[derive(clap::Args)]
struct ReplayArgs {
    /// Traces, as for `plan` [default: those that are bundled]
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,

    /// How in-place ops are taken where a trace is a recording
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// Ops of the largest synthetic trace; 0 leaves them out
    #[arg(long, value_name = "OPS", default_value_t = 1_000_000)]
    sweep: u64,

    /// How to print the figures
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Time of one in-core replay.
#[derive(serde::Serialize)]
struct Measured {
    trace: String,
    ops: usize,
    actions: usize,
    /// Median.
    replay_ns: u64,
    ns_per_action: f64,
    /// Smallest and largest.
    #[serde(skip)]
    spread: (u64, u64),
}

/// Runs the measurement.
pub fn run(args: &Args) -> Result {
    match &args.what {
        What::Replay(args) => run_replay(args),
        What::Codecs(args) => codecs::run(args),
        What::Plan(args) => plan::run(args),
    }
}

fn run_replay(args: &ReplayArgs) -> Result {
    let names = match args.traces.as_slice() {
        [] => scenarios::traces().map(str::to_string).collect(),
        names => names.to_vec(),
    };
    let mut measured = Vec::new();
    for name in &names {
        measured.push(measure(name, &read_trace(name, args.in_place)?));
    }
    let sizes = [1_000u64, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];
    let sweep: Vec<Measured> = (sizes.iter().filter(|ops| **ops <= args.sweep))
        .map(|ops| {
            let alike = |_| (Bytes(1 << 20), Nanos(1000));
            measure(&format!("synthetic {ops}"), &synthetic::chain(*ops, alike))
        })
        .collect();
    if args.format == Format::Json {
        measured.extend(sweep);
        return print_json(&measured);
    }
    let mut rows = vec![
        ["trace", "actions", "replay", "ns/action", "smallest", "largest"]
            .map(String::from)
            .to_vec(),
    ];
    let row = |m: &Measured| {
        let (least, most) = m.spread;
        let time = |ns: u64| Nanos(ns).to_string();
        let per_action = format!("{:.1}", m.ns_per_action);
        vec![
            m.trace.clone(),
            m.actions.to_string(),
            time(m.replay_ns),
            per_action,
            time(least),
            time(most),
        ]
    };
    rows.extend(measured.iter().chain(&sweep).map(row));
    print(columns(&rows))?;
    if let Some((slope, fit)) = slope(sweep.iter().map(|m| (m.ops as f64, m.replay_ns as f64))) {
        print(format!(
            "time grows with the power {slope:.3} of the number of ops (1 is linear; R^2 {fit:.4}), \
             single thread\n"
        ))?;
    }
    Ok(())
}

fn measure(name: &str, trace: &Trace) -> Measured {
    let program = Program::in_core(trace);
    let mut schedule = Schedule::default();
    replay(&program, &mut schedule);
    let runs = (20_000_000 / program.len().max(1)).clamp(7, 1001);
    let mut times: Vec<u64> = (0..runs)
        .map(|_| {
            let begin = Instant::now();
            replay(black_box(&program), &mut schedule);
            black_box(schedule.iteration_ns);
            begin.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    let median = times[times.len() / 2];
    Measured {
        trace: name.into(),
        ops: trace.ops.len(),
        actions: program.len(),
        replay_ns: median,
        ns_per_action: median as f64 / program.len().max(1) as f64,
        spread: (times[0], times[times.len() - 1]),
    }
}

/// Least-squares slope of log time over log size, and how well it fits.
fn slope(points: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    let points: Vec<(f64, f64)> = points.map(|(size, time)| (size.ln(), time.ln())).collect();
    if points.len() < 2 {
        return None;
    }
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let xy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let xx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let yy: f64 = points.iter().map(|(_, y)| (y - mean_y).powi(2)).sum();
    Some((xy / xx, xy * xy / (xx * yy)))
}
