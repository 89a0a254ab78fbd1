//! `tidegate verify`

use experiments::plan_trace::{check_trace, safe};

use crate::exit::Result;
use crate::inputs::PlanArgs;
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
    #[command(flatten)]
    plan: PlanArgs,
}

pub fn run(args: &Args) -> Result {
    let (plan, figures, trace) = args.plan.read()?;
    let checked = trace.as_ref().map(|trace| check_trace(&plan, trace)).transpose();
    let printed = print(safe(&plan, figures.arena));
    // What cannot be printed does not hide what does not hold.
    let assumed = checked?;
    printed?;
    if let (Some(trace), Some(assumed)) = (trace, assumed) {
        let (title, ops) = (trace.title(), trace.ops.len());
        print(format!("computes {title}: {ops} ops in order\n{assumed}"))?;
    }
    Ok(())
}
