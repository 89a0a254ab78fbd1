//! Networks that train on a device, as they are named on the command line.

use experiments::recipes::{described, trainable};
use runtime::network::Network;
use schema::{Framework, Recipe};

use crate::exit::{Result, usage};
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
