//! Times the hot loops of searches, as ratios within one run: `cargo bench --bench evaluator`.
//!
//! - an evaluation that goes on from a change against one that begins anew,
//! - an evaluation against the in-core replay of the same trace,
//! - the lowering of a plan (packing included) against one evaluation.
//!
//! Without arguments the bundled trace is timed; arguments name others, as `tidegate plan` does.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use planner::{Decided, Problem, lower};
use schema::{Bytes, Document, Trace};
use simulator::replay::{Schedule, replay};
use simulator::{Policy, Program, Treatment, in_core};

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let traces = match named.as_slice() {
        [] => scenarios::traces().map(|name| (name.to_string(), read(name))).collect::<Vec<_>>(),
        names => names.iter().map(|name| (name.clone(), read(name))).collect(),
    };
    println!("processor: {}", runtime::profile::processor_name());
    for (name, trace) in traces {
        time(&name, &trace);
    }
}

fn read(name: &str) -> Trace {
    if scenarios::traces().any(|bundled| bundled == name) {
        return scenarios::trace(name).expect("it is bundled");
    }
    let path = Path::new(name);
    let text = std::fs::read_to_string(path).expect("a bundled trace, a trace file or a recording");
    match profiler::import::detect(&text) {
        Some(format) => {
            let options = profiler::import::ImportOptions::default();
            profiler::import::import(&text, path, Some(format), &options).expect("a recording")
        }
        None => Trace::from_json(&text, path).expect("a trace"),
    }
}

/// Median time of a call, in nanoseconds.
fn median(mut call: impl FnMut()) -> f64 {
    let mut times: Vec<u128> = (0..301)
        .map(|_| {
            let begin = Instant::now();
            call();
            begin.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2] as f64
}

fn time(name: &str, trace: &Trace) {
    let machine = scenarios::machine("titan-v").expect("it is bundled");
    let budget = Bytes(in_core(trace).peak.0 / 100 * 70);
    let problem = Problem::new(trace, &machine, budget);
    let policy = Policy::EARLY;
    let mut treatments = problem.keep_all();
    problem.feature_maps.iter().for_each(|gap| treatments[*gap] = Treatment::Swap);
    let mut evaluator = problem.evaluator(policy, budget);
    if let Err(cause) = evaluator.evaluate(&treatments) {
        println!("{name}: swapping everything does not fit 70 % of the peak: {cause}");
        return;
    }

    let program = Program::in_core(trace);
    let mut schedule = Schedule::default();
    let replayed = median(|| replay(black_box(&program), &mut schedule));

    let anew = median(|| {
        let mut evaluator = problem.evaluator(policy, budget);
        let _ = black_box(evaluator.evaluate(&treatments));
    });
    // Every feature map in turn, there and back: what a search does.
    let mut turn = problem.feature_maps.iter().copied().cycle();
    let change = median(|| {
        let gap = turn.next().expect("there are feature maps");
        for treatment in [Treatment::SwapAtNoCost, Treatment::Swap] {
            treatments[gap] = treatment;
            let _ = black_box(evaluator.evaluate(&treatments));
        }
    }) / 2.0;
    let decided = Decided {
        treatments: treatments.clone(),
        policy,
        considered: problem.feature_maps.clone(),
        steps: None,
        as_recorded: false,
    };
    let begin = Instant::now();
    let lowered = lower(&problem, budget, &decided);
    let lowering = begin.elapsed().as_nanos() as f64;

    println!("{name}: {} ops, {} feature maps", trace.ops.len(), problem.feature_maps.len());
    println!("  in-core replay            {:9.2} us", replayed / 1e3);
    println!(
        "  evaluation of a change    {:9.2} us, {:.2} replays",
        change / 1e3,
        change / replayed
    );
    println!("  evaluation anew           {:9.2} us, {:.2} changes", anew / 1e3, anew / change);
    let how = if lowered.is_ok() { "" } else { " (does not pack)" };
    println!("  lowering{how}  {:9.2} us, {:.0} changes", lowering / 1e3, lowering / change);
}
