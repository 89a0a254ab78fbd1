//! The trace and the machine that a plan was made for, found again.

use std::path::Path;

use anyhow::Context;
use experiments::recipes::{StatedOptions, modelled};
use experiments::sources::{is_network, read_machine};
use experiments::zeros::{Zeros, apply};
use schema::{Document, Framework, Machine, Plan, Recipe, Trace};

use crate::exit::{Exit, OrExit, Result, WithExit, usage};
use crate::inputs::{InPlace, read_trace};

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
    let Some(machine) = setting("machine") else { return read_trace(name, in_place) };
    let context = "the plan's settings name what its times were carried over with";
    let factor = setting("speed").map(str::parse).transpose().context(context);
    let factor = factor.or_exit(Exit::Usage)?;
    let machine = read_machine(machine)?;
    let efficiencies = setting("efficiencies").map(Path::new);
    // Older versions knew no recipes.
    let old = setting("network").map(StatedOptions::from_json).transpose();
    let old = old.context(context).or_exit(Exit::Usage)?;
    let recorded = match (&plan.recipe, &old) {
        (Some(recipe), _) if is_network(name) => {
            let recipe = Recipe { network: name.to_string(), ..recipe.clone() };
            modelled(&recipe, &machine, efficiencies)?
        }
        (_, Some(old)) => {
            let recipe = old.recipe(name, Framework::Pytorch);
            modelled(&recipe, &machine, old.efficiencies.as_deref())?
        }
        _ => read_trace(name, in_place)?,
    };
    let from = setting("recorded-on").map(read_machine).transpose()?;
    let carried = scenarios::carry_over(&recorded, from.as_ref(), &machine, factor);
    Ok(carried.context(context).or_exit(Exit::Usage)?.0)
}

/// The trace that a plan was made for, where it is a network's and was modelled.
pub fn modelled_trace_of(plan: &Plan) -> Result<Trace> {
    let modelled = plan.recipe.as_ref().filter(|_| plan.settings.contains_key("machine"));
    let Some(recipe) = modelled else {
        return Err(usage("the plan is not for a modelled network: name its trace with --trace"));
    };
    let trace = trace_of(plan, &recipe.network)?;
    if trace.digest() != plan.trace.digest {
        return Err(usage(format!(
            "{} is modelled otherwise by this version than the plan has it: plan again",
            recipe.network
        )));
    }
    Ok(trace)
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
