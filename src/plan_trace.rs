//! The trace and the machine that a plan was made for, found again.

use std::path::Path;

use anyhow::Context;
use experiments::sources::read_machine;
use experiments::zeros::{Zeros, apply};
use schema::{Document, Machine, Plan, Trace};

use crate::exit::{Exit, OrExit, Result, WithExit, usage};
use crate::inputs::{InPlace, read_trace};
use crate::networks::{NetworkArgs, read_network};

/// The trace of a plan that was made for a bundled trace or network, where this version of both
/// still is the one that it was made for.
pub fn own_trace(plan: &Plan) -> Option<Trace> {
    let trace = trace_of(plan, plan.settings.get("trace")?).ok()?;
    (trace.digest() == plan.trace.digest).then_some(trace)
}

/// The trace that a plan was made for, by the name that was then given: times are carried over and
/// in-place ops taken as the plan's settings say, and zeros are those of the file that they name.
pub fn trace_of(plan: &Plan, name: &str) -> Result<Trace> {
    let mut trace = carried_over(plan, name)?;
    let Some(file) = plan.settings.get("zeros") else { return Ok(trace) };
    let number = |name: &str| plan.settings.get(name).and_then(|text| text.parse().ok());
    let moment = number("epoch").zip(number("epochs"));
    let moment = moment.context("the plan's settings do not say at which epoch of how many");
    let zeros = Zeros::read(Path::new(file)).map_err(|error| {
        let WithExit { exit, error } = error.into();
        let context = format!("the plan was made with the zeros of {file}: put them there");
        WithExit { exit, error: error.context(context) }
    });
    apply(&zeros?, moment.or_exit(Exit::Usage)?, &mut trace)?;
    Ok(trace)
}

fn carried_over(plan: &Plan, name: &str) -> Result<Trace> {
    let setting = |name: &str| plan.settings.get(name).map(String::as_str);
    let in_place =
        if setting("in-place") == Some("alias") { InPlace::Alias } else { InPlace::AsRecorded };
    let network = setting("network");
    let Some(machine) = setting("machine") else { return read_trace(name, in_place) };
    let context = "the plan's settings name what its times were carried over with";
    let factor = setting("speed").map(str::parse).transpose().context(context);
    let factor = factor.or_exit(Exit::Usage)?;
    let machine = read_machine(machine)?;
    let recorded = match network {
        Some(options) => {
            let options: NetworkArgs =
                serde_json::from_str(options).context(context).or_exit(Exit::Usage)?;
            let network = options.options(options.batch.unwrap_or(1))?;
            options.modelled_trace(&read_network(name, &network)?, &machine)?
        }
        None => read_trace(name, in_place)?,
    };
    let from = setting("recorded-on").map(read_machine).transpose()?;
    let carried = scenarios::carry_over(&recorded, from.as_ref(), &machine, factor);
    Ok(carried.context(context).or_exit(Exit::Usage)?.0)
}

/// The machine of this name; another than the plan was made for is refused.
pub fn machine_of(plan: &Plan, name: &str) -> Result<Machine> {
    let machine = read_machine(name)?;
    if machine.digest() == plan.machine.digest {
        return Ok(machine);
    }
    Err(usage(format!(
        "the plan was made for machine {} ({}), not for {} ({}): plan again for that one",
        plan.machine.name,
        plan.machine.digest.short(),
        machine.name,
        machine.digest().short()
    )))
}
