//! A trace as it is asked for, by name and with what is said of its ops and times. What a plan's settings
//! have of that is read by [`plan_trace`](crate::plan_trace).

use std::path::Path;

use networks::{Arithmetic, Conventions};
use profiler::import::InPlaceOps;
use schema::{Machine, Nanos, Origin, Provenance, Recipe, Trace};

use crate::recipes::{described, description, description_of, efficiencies, modelled};
use crate::sources::{is_bundled, read_machine, read_trace};
use crate::{Error, Result};

/// A trace as it is asked for.
pub struct Asked<'a> {
    /// Its name, or that of its network or file.
    pub name: &'a str,
    /// The machine as it was named.
    pub machine: String,
    /// How it is built, where it is a network.
    pub recipe: Option<Recipe>,
    /// The file of efficiencies that a network's times are modelled with, where it is not ours.
    pub efficiencies: Option<&'a Path>,
    /// What becomes of a recording's in-place ops.
    pub in_place: InPlaceOps,
    /// The machine that it was recorded on, by its name.
    pub recorded_on: Option<&'a str>,
    /// How much faster the machine computes than the trace says.
    pub speed: Option<f64>,
}

impl Asked<'_> {
    /// The trace on the machine, and what its times are.
    ///
    /// # Errors
    /// If it is not there, or its times cannot be carried over.
    pub fn read(&self, machine: &Machine) -> Result<(Trace, String)> {
        if let Some(recipe) = &self.recipe {
            return self.with_times(modelled(recipe, machine, self.efficiencies)?, machine);
        }
        let recorded = read_trace(self.name, self.in_place, Some(machine))?;
        if self.is_modelled(&recorded, machine) {
            return self.with_times(recorded, machine);
        }
        let from = self.recorded_on.map(read_machine).transpose()?;
        let carried = scenarios::carry_over(&recorded, from.as_ref(), machine, self.speed)?;
        let what = description_of(&carried.0, None);
        Ok((carried.0, format!("{what}\n{}", carried.1)))
    }

    /// Whether a trace's times were modelled for the machine that is named.
    fn is_modelled(&self, trace: &Trace, machine: &Machine) -> bool {
        let Provenance { origin, device, .. } = &trace.provenance;
        *origin == Origin::Modelled && *device == machine.device.name && !is_bundled(self.name)
    }

    /// A trace whose times are modelled for the machine, and what they are.
    fn with_times(&self, trace: Trace, machine: &Machine) -> Result<(Trace, String)> {
        if self.recorded_on.is_some() {
            return Err(Error::NotRecorded(self.name.into()));
        }
        let (what, band) = match &self.recipe {
            Some(recipe) => {
                (description(recipe, Some(machine))? + "\n", self.band(recipe, machine)?)
            }
            None => (description_of(&trace, None) + "\n", String::new()),
        };
        let device = &machine.device.name;
        let collectives = trace.ops.iter().filter(|op| op.kind.is_collective());
        let sent: Nanos = collectives.map(|op| op.duration).sum();
        let network = machine.network.as_ref().filter(|_| sent > Nanos::ZERO);
        let sent = network.map(|network| {
            format!("collectives take {sent} over {}, beside compute\n", network.name)
        });
        let what = what + sent.as_deref().unwrap_or_default();
        let modelled = format!("{what}op times are modelled for {device}{band}: nothing was run");
        if self.speed.is_none() {
            return Ok((trace, modelled));
        }
        let (trace, carried) = scenarios::carry_over(&trace, None, machine, self.speed)?;
        Ok((trace, format!("{modelled}; {carried}")))
    }

    /// How far modelled times of a network on a machine are off, in brackets.
    fn band(&self, recipe: &Recipe, machine: &Machine) -> Result<String> {
        let tape = described(recipe)?.lower(&Conventions::PYTORCH).tape;
        let device = &machine.device.compute;
        let arithmetic = Arithmetic::of(tape.ops().iter().map(|op| &op.work), device);
        let band = efficiencies(self.efficiencies)?.band_for(device, arithmetic);
        Ok(band.map_or_else(String::new, |band| format!(" ({band})")))
    }

    /// What a plan's settings say of it, so that [`trace_of`](crate::plan_trace::trace_of) finds `trace`
    /// again.
    pub fn settings(&self, trace: &Trace, machine: &Machine) -> Vec<(&'static str, String)> {
        let alias = self.in_place == InPlaceOps::Alias;
        let modelled = self.recipe.is_some() || self.is_modelled(trace, machine);
        let on_machine = modelled || self.speed.is_some() || self.recorded_on.is_some();
        [
            ("in-place", alias.then(|| "alias".into())),
            ("machine", on_machine.then(|| self.machine.clone())),
            ("trace", is_bundled(self.name).then(|| self.name.into())),
            ("efficiencies", self.efficiencies.map(|file| file.display().to_string())),
            ("speed", self.speed.map(|speed| speed.to_string())),
            ("recorded-on", self.recorded_on.map(String::from)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}
