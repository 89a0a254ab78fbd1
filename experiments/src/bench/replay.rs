//! How long in-core replays take.

use std::hint::black_box;
use std::time::Instant;

use schema::{Bytes, Nanos, Trace};
use serde::Serialize;
use simulator::Program;
use simulator::replay::{Schedule, replay};

use super::{Bench, Measured, chain, slope};

/// Time of one in-core replay.
#[derive(Serialize)]
pub struct Replayed {
    trace: String,
    ops: usize,
    actions: usize,
    replay_ns: u64,
    ns_per_action: f64,
    /// Smallest and largest.
    #[serde(skip)]
    spread: (u64, u64),
}

impl Measured for Replayed {
    const HEAD: &'static [&'static str] =
        &["trace", "actions", "replay", "ns/action", "smallest", "largest"];

    fn cells(&self) -> Vec<String> {
        let [replay, least, most] =
            [self.replay_ns, self.spread.0, self.spread.1].map(|ns| Nanos(ns).to_string());
        let per_action = format!("{:.1}", self.ns_per_action);
        vec![self.trace.clone(), self.actions.to_string(), replay, per_action, least, most]
    }
}

/// Times replays of named traces, and of synthetic ones of up to so many ops.
pub fn replays(named: &[(String, Trace)], most_ops: u64) -> Bench<Replayed> {
    let mut rows: Vec<Replayed> = named.iter().map(|(name, trace)| measure(name, trace)).collect();
    let sizes = [1_000u64, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];
    rows.extend(sizes.iter().filter(|ops| **ops <= most_ops).map(|ops| {
        let alike = |_| (Bytes(1 << 20), Nanos(1000));
        measure(&format!("synthetic {ops}"), &chain(*ops, alike))
    }));
    let swept = rows[named.len()..].iter().map(|row| (row.ops as f64, row.replay_ns as f64));
    let notes = slope(swept).map_or(String::new(), |(slope, fit)| {
        format!(
            "time grows with the power {slope:.3} of the number of ops (1 is linear; R^2 {fit:.4}), \
             single thread\n"
        )
    });
    Bench { rows, notes }
}

fn measure(name: &str, trace: &Trace) -> Replayed {
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
    Replayed {
        trace: name.into(),
        ops: trace.ops.len(),
        actions: program.len(),
        replay_ns: median,
        ns_per_action: median as f64 / program.len().max(1) as f64,
        spread: (times[0], times[times.len() - 1]),
    }
}
