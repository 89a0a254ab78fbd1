//! Judges plans: `judge TRACE PLAN [RUNS]` says what breaks the plan, by its order and under as
//! many drawn timings.

use std::path::Path;
use std::process::ExitCode;

use checker::{Fallback, Machine, Prepared, Random, Timing, Wanted};
use schema::{Document, Plan, Trace};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (trace, plan, runs) = match &arguments[..] {
        [trace, plan] => (trace, plan, 1000),
        [trace, plan, runs] => (trace, plan, runs.parse().expect("RUNS is a number")),
        _ => panic!("call it with TRACE PLAN [RUNS]"),
    };
    let trace = Trace::read(Path::new(trace)).expect("a trace");
    let plan = Plan::read(Path::new(plan)).expect("a plan");
    let wanted = Wanted::of(&trace);
    let prepared = match Prepared::new(&plan, &wanted) {
        Ok(prepared) => prepared,
        Err(wrong) => {
            println!("{wrong}");
            return ExitCode::FAILURE;
        }
    };
    let (exact, predicted) = (prepared.check(), prepared.check_predicted());
    println!("by its order: {}", said(&exact));
    println!("what it says of its memory: {}", said(&predicted));
    let mut machine = Machine::new(&prepared);
    let failed = (0..runs).find_map(|seed| {
        let mut random = Random::new(seed);
        let mut timing = Timing::drawn(&mut random);
        let wrong = machine.run(&mut timing, Fallback::Drawn, &mut random).err()?;
        Some(format!("timing {seed}: {wrong}"))
    });
    println!("under {runs} timings: {}", failed.as_deref().unwrap_or("right"));
    match exact.is_ok() && predicted.is_ok() && failed.is_none() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn said(answer: &Result<(), checker::Wrong>) -> String {
    answer.as_ref().map_or_else(ToString::to_string, |()| "right".into())
}
