//! `tidegate bench plan`

use experiments::Conditions;
use experiments::bench::planning;
use experiments::compare::methods_of;
use experiments::sources::read_machine;
use planner::{Allowed, Limits};
use scenarios::Budget;

use super::{show, traces};
use crate::exit::Result;
use crate::inputs::{InPlace, SearchArgs, read_trace};
use crate::networks::{NetworkArgs, is_network};
use crate::output::Format;
use crate::progress::Bar;

#[derive(clap::Args)]
pub struct Args {
    /// Networks, with --batch, or traces, as for `plan` [default: the traces that are bundled]
    #[arg(value_name = "NETWORK|TRACE")]
    traces: Vec<String>,

    #[command(flatten)]
    network: NetworkArgs,

    /// Also plan synthetic traces of 1,000 ops and more, up to as many (at most 1,000,000), on a host with
    /// room for everything, and print how planning time grows
    #[arg(long, value_name = "OPS", default_value_t = 0)]
    sweep: u64,

    /// The methods, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "METHODS")]
    methods: Vec<String>,

    /// The machine to plan for
    #[arg(long, short, value_name = "MACHINE", default_value = "titan-v")]
    machine: String,

    /// Device memory that a plan may use: an amount, or a share of the in-core peak
    #[arg(long, short, value_name = "BUDGET", default_value = "80%")]
    budget: Budget,

    #[command(flatten)]
    search: SearchArgs,

    /// How in-place ops are taken where a trace is a recording
    #[arg(long, value_enum, default_value_t)]
    in_place: InPlace,

    /// How to print the figures
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let methods = methods_of(&args.methods, true)?;
    let machine = read_machine(&args.machine)?;
    let traces = traces(&args.traces, |name| match is_network(name) {
        true => args.network.modelled_trace(name, &machine),
        false => read_trace(name, args.in_place, None),
    })?;
    let limits = Limits { evaluations: args.search.evaluations };
    let allowed = Allowed { compress: false, ..args.search.allowed() };
    let conditions = Conditions { allowed, ..Conditions::new(limits, None) };
    let on = (&machine, args.budget);
    show(&planning(&traces, &methods, on, &conditions, args.sweep, Bar::new)?, args.format)
}
