//! Networks that train on a device, and the traces that say which network they are of.

use std::collections::BTreeMap;

use runtime::network::Network;
use schema::Trace;

use crate::exit::{Exit, OrExit, Result, usage};
use crate::networks::{NetworkArgs, is_network, read_network};

/// Learning rate where nobody chose one: small enough that networks without normalisations, on one
/// small batch, do not leave the finite numbers.
const LEARNING_RATE: f32 = 1e-3;

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
        let options = self.options.options(batch)?;
        let described = read_network(self.name, &options)?;
        Network::new(&described, Some(LEARNING_RATE)).or_exit(Exit::Usage)
    }

    /// What its trace says, for [`network_of`].
    pub fn settings(&self) -> BTreeMap<String, String> {
        let options = serde_json::to_string(self.options).expect("options are plain data");
        [("network".to_string(), self.name.to_string()), ("options".to_string(), options)].into()
    }
}

/// The network that a measured trace is of, made again from what the trace says of itself.
pub fn network_of(trace: &Trace) -> Result<Network> {
    let setting = |name: &str| trace.provenance.settings.get(name);
    let (Some(name), Some(options)) = (setting("network"), setting("options")) else {
        return Err(usage(format!(
            "the trace of {} does not say which network it was measured on: make one with \
             `tidegate profile`",
            trace.network
        )));
    };
    let options: NetworkArgs = serde_json::from_str(options)
        .map_err(|error| anyhow::anyhow!("the trace's options of {name}: {error}"))
        .or_exit(Exit::Usage)?;
    Named { name, options: &options }.network()
}
