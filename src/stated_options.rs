//! A network's options under the names that they have on the command line: in files of recordings,
//! and in documents of versions that knew no recipes.

use std::path::PathBuf;

use schema::{Activation, Dtype, Framework, NetworkOptions, Optimizer, Recipe};
use serde::Deserialize;

/// What is stated about a network.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatedOptions {
    pub batch: Option<u32>,
    image: Option<[u32; 2]>,
    frames: Option<u32>,
    sequence: Option<u32>,
    activation: Option<Activation>,
    dtype: Option<Dtype>,
    optimizer: Option<Optimizer>,
    out_of_place: bool,
    pool_indices: bool,
    unfused_attention: bool,
    progress: Option<f64>,
    /// The file of efficiencies that times were modelled with.
    pub efficiencies: Option<PathBuf>,
}

impl StatedOptions {
    /// What a document states.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The options, for one batch.
    pub fn options(&self, batch: u32) -> NetworkOptions {
        NetworkOptions {
            batch,
            activation: self.activation,
            image: self.image,
            frames: self.frames,
            sequence: self.sequence,
            dtype: self.dtype,
            optimizer: self.optimizer,
            in_place: !self.out_of_place,
            pool_indices: self.pool_indices,
            fused_attention: !self.unfused_attention,
            progress: self.progress.unwrap_or(NetworkOptions::default().progress),
        }
    }

    /// The recipe that a document of an older version would have today.
    pub fn recipe(&self, network: &str, conventions: Framework) -> Recipe {
        let options = self.options(self.batch.unwrap_or(1));
        Recipe { network: network.to_string(), file: None, conventions, options }
    }
}
