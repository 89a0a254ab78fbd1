//! The trace and the machine that a plan was made for, found again.

use std::path::Path;

use codecs::claims::check_claims;
use profiler::import::InPlaceOps;
use schema::{Bytes, Digest, Document, Framework, Machine, Plan, Predicted, Recipe, Trace};
use simulator::{Unproven, check_contract, check_figures, prove};

use crate::recipes::{StatedOptions, modelled};
use crate::sources::{is_network, read_machine, read_trace};
use crate::zeros::{Zeros, apply};
use crate::{Error, Result};

/// The trace of a plan that was made for a bundled trace or network, where this version of both
/// still is the one that it was made for.
pub fn own_trace(plan: &Plan) -> Option<Trace> {
    let trace = trace_of(plan, plan.settings.get("trace")?).ok()?;
    (trace.digest() == plan.trace.digest).then_some(trace)
}

/// The trace that a plan was made for, by the name that was then given: times are carried over and
/// in-place ops taken as the plan's settings say, and zeros are those of the file that they name.
///
/// # Errors
/// If the trace, or what the settings name, is not there.
pub fn trace_of(plan: &Plan, name: &str) -> Result<Trace> {
    let mut trace = carried_over(plan, name)?;
    let Some(file) = plan.settings.get("zeros") else { return Ok(trace) };
    let number = |name: &str| plan.settings.get(name).and_then(|text| text.parse().ok());
    let moment = number("epoch").zip(number("epochs"));
    let zeros = Zeros::read(Path::new(file))
        .map_err(|error| Error::ZerosOfPlan(file.clone(), Box::new(error)))?;
    apply(&zeros, moment.ok_or(Error::NoMoment)?, &mut trace)?;
    Ok(trace)
}

fn carried_over(plan: &Plan, name: &str) -> Result<Trace> {
    let setting = |name: &str| plan.settings.get(name).map(String::as_str);
    let in_place = if setting("in-place") == Some("alias") {
        InPlaceOps::Alias
    } else {
        InPlaceOps::AsRecorded
    };
    let Some(machine) = setting("machine") else { return read_trace(name, in_place, None) };
    let factor = setting("speed").map(str::parse).transpose();
    let factor = factor.map_err(|error| Error::Settings(Box::new(error)))?;
    let machine = read_machine(machine)?;
    let efficiencies = setting("efficiencies").map(Path::new);
    // Older versions knew no recipes.
    let old = setting("network").map(StatedOptions::from_json).transpose();
    let old = old.map_err(|error| Error::Settings(error.into()))?;
    let recorded = match (&plan.recipe, &old) {
        (Some(recipe), _) if is_network(name) => {
            let recipe = Recipe { network: name.to_string(), ..recipe.clone() };
            modelled(&recipe, &machine, efficiencies)?
        }
        (_, Some(old)) => {
            let recipe = old.recipe(name, Framework::Pytorch);
            modelled(&recipe, &machine, old.efficiencies.as_deref())?
        }
        _ => read_trace(name, in_place, Some(&machine))?,
    };
    let from = setting("recorded-on").map(read_machine).transpose()?;
    let carried = scenarios::carry_over(&recorded, from.as_ref(), &machine, factor);
    Ok(carried.map_err(|error| Error::Settings(Box::new(error)))?.0)
}

/// The trace that a plan was made for, found by its name where it has one and else by what the plan says,
/// after it was shown that the plan computes it. `file` is what errors call the plan.
///
/// # Errors
/// If it is nowhere to be found, or the plan computes another.
pub fn computed_trace(plan: &Plan, file: &Path, name: Option<&str>) -> Result<Trace> {
    let trace = name.map(|name| trace_of(plan, name)).transpose()?.or_else(|| own_trace(plan));
    let trace = trace.ok_or_else(|| Error::NoTraceOfPlan(file.into()))?;
    check_contract(plan, &trace)?;
    Ok(trace)
}

/// Shows that a plan is safe under every timing and is as it says of itself: what follows from it.
///
/// # Errors
/// The first thing that does not hold.
pub fn check_plan(plan: &Plan) -> Result<Predicted> {
    prove(plan).map_err(Unproven::from)?;
    Ok(check_figures(plan).map_err(Unproven::from)?)
}

/// Shows that a plan computes a trace and that codecs do what it says of them: what then still depends on
/// the data, in words.
///
/// # Errors
/// The first thing that does not hold.
pub fn check_trace(plan: &Plan, trace: &Trace) -> Result<String> {
    check_contract(plan, trace)?;
    Ok(check_claims(plan, trace)?.to_string())
}

/// The trace that a plan was made for, where it is a network's and was modelled.
///
/// # Errors
/// If it is not, or this version models it otherwise.
pub fn modelled_trace_of(plan: &Plan) -> Result<Trace> {
    let modelled = plan.recipe.as_ref().filter(|_| plan.settings.contains_key("machine"));
    let Some(recipe) = modelled else {
        return Err(Error::NotModelled);
    };
    let trace = trace_of(plan, &recipe.network)?;
    if trace.digest() != plan.trace.digest {
        return Err(Error::ModelledOtherwise(recipe.network.clone()));
    }
    Ok(trace)
}

/// The machine of this name.
///
/// # Errors
/// If it is another than the plan was made for.
pub fn machine_of(plan: &Plan, name: &str) -> Result<Machine> {
    let machine = read_machine(name)?;
    check_machine(plan, &machine)?;
    Ok(machine)
}

/// Refuses a machine that the plan was not made for.
///
/// # Errors
/// If it is another.
pub fn check_machine(plan: &Plan, machine: &Machine) -> Result<()> {
    if machine.digest() == plan.machine.digest {
        return Ok(());
    }
    let other = |name: &str, digest: &Digest| format!("{name} ({})", digest.short());
    Err(Error::OtherMachine(
        other(&plan.machine.name, &plan.machine.digest),
        other(&machine.name, &machine.digest()),
    ))
}

/// What it says of a plan that it is proven.
pub fn safe(plan: &Plan, arena: Bytes) -> String {
    format!(
        "safe under every timing: {} actions, {} dependencies, {} buffers in {arena} of {}\n",
        plan.actions.len(),
        plan.actions.iter().map(|action| action.after.len()).sum::<usize>(),
        plan.buffers.len(),
        plan.budget,
    )
}
