//! Networks that train on a device, and the traces that say which network they are of.

use anyhow::Context;
use experiments::recipes::{StatedOptions, described, trainable};
use runtime::network::Network;
use schema::{Framework, Recipe, Trace};

use crate::exit::{Exit, OrExit, Result, usage};
use crate::networks::{NetworkArgs, is_network};

/// A network as it is named on the command line, made one that computes.
#[derive(Debug, Clone)]
pub struct Named<'a> {
    /// Its name or file.
    pub name: &'a str,
    /// What was chosen about it.
    pub options: &'a NetworkArgs,
}

impl Named<'_> {
    /// The network that computes.
    pub fn network(&self) -> Result<Network> {
        Ok(trainable(&described(&self.recipe()?)?)?)
    }

    /// How it is built.
    pub fn recipe(&self) -> Result<Recipe> {
        if !is_network(self.name) {
            return Err(usage(format!(
                "{} is no network: name one of `list networks`, or a file (.toml or .onnx)",
                self.name
            )));
        }
        let Some(batch) = self.options.batch else {
            let name = self.name;
            return Err(usage(format!("{name}: state its batch, such as `--batch 16`")));
        };
        if self.options.conventions.as_deref().is_some_and(|name| name != "tidegate") {
            return Err(usage("--conventions: what runs here has tidegate's: leave it away"));
        }
        let recipe = self.options.recipe(self.name, batch)?;
        Ok(Recipe { conventions: Framework::Tidegate, ..recipe })
    }
}

/// The network that a trace is of, made again from what the trace says of itself.
pub fn network_of(trace: &Trace) -> Result<Network> {
    let provenance = &trace.provenance;
    let setting = |name: &str| provenance.settings.get(name);
    let recipe = match (&provenance.recipe, setting("network"), setting("options")) {
        (Some(recipe), ..) => recipe.clone(),
        (None, Some(name), Some(options)) => {
            let options = StatedOptions::from_json(options)
                .with_context(|| format!("the trace's options of {name}"))
                .or_exit(Exit::Usage)?;
            options.recipe(name, Framework::Tidegate)
        }
        _ => {
            return Err(usage(format!(
                "the trace of {} does not say which network it was measured on: make one with \
                 `tidegate profile`",
                trace.network
            )));
        }
    };
    if recipe.conventions != Framework::Tidegate {
        return Err(usage(format!(
            "the plan runs PyTorch's ops of {}, which is not what runs here: plan again with \
             `--conventions tidegate`",
            recipe.network
        )));
    }
    Ok(trainable(&described(&recipe)?)?)
}
