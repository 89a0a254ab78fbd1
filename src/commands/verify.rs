//! `tidegate verify`

use std::path::PathBuf;

use codecs::claims::check_claims;
use experiments::assumptions;
use experiments::plan_trace::{own_trace, trace_of};
use schema::{Document, Plan};
use simulator::{check_figures, prove};

use crate::commands::simulate::check_trace;
use crate::exit::{Exit, OrExit, Result};
use crate::output::print;

/// Prove that a plan is safe under every timing, or name what breaks it
///
/// The proof needs the plan alone: no two live buffers share an address, and every read comes
/// after what it reads is there, in whatever time the actions take. Peak, addresses and time are
/// computed again, and a plan that states others is refused. With the trace it also shows that the
/// plan computes that trace, each op on the version of every tensor that it is to have, and that
/// compressed forms fit; what depends on the data is said.
#[derive(clap::Args)]
pub struct Args {
    /// The plan; `-` is the standard input
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// The trace that it was made for; bundled ones, and bundled networks, are found without it
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
}

pub fn run(args: &Args) -> Result {
    let plan = Plan::read(&args.plan)?;
    prove(&plan).or_exit(Exit::NotProven)?;
    let figures = check_figures(&plan).or_exit(Exit::NotProven)?;
    let named = args.trace.as_deref().map(|name| trace_of(&plan, name)).transpose()?;
    let trace = named.or_else(|| own_trace(&plan));
    let checked = trace.as_ref().map(|trace| {
        check_trace(&plan, trace)?;
        check_claims(&plan, trace).or_exit(Exit::NotProven)
    });
    let printed = print(format!(
        "safe under every timing: {} actions, {} dependencies, {} buffers in {} of {}\n",
        plan.actions.len(),
        plan.actions.iter().map(|action| action.after.len()).sum::<usize>(),
        plan.buffers.len(),
        figures.arena,
        plan.budget,
    ));
    // What cannot be printed does not hide what does not hold.
    let claims = checked.transpose()?;
    printed?;
    if let (Some(trace), Some(claims)) = (trace, claims) {
        print(format!("computes {}: {} ops in order\n", trace.title(), trace.ops.len()))?;
        print(assumptions(&claims))?;
    }
    Ok(())
}
