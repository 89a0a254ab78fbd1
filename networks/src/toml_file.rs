//! A user's own network, as a TOML file: a list of layers.

use std::path::Path;

use schema::Dtype;
use serde::Deserialize;

use super::builder::{Builder, Built};
use super::error::NetworkError;
use super::layer::{LayerId, Network, Window};
use super::options::{Activation, NetworkOptions, Optimizer};
use crate::suggest::{closest, remedy};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    /// Extents of a sample: `[3, 224, 224]`, or `[512]` for tokens.
    input: Vec<u64>,
    layer: Vec<LayerTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerTable {
    name: String,
    kind: String,
    /// The layers that it reads: the one before where there is none.
    #[serde(default)]
    inputs: Vec<String>,
    channels: Option<u64>,
    kernel: Option<u64>,
    stride: Option<u64>,
    padding: Option<u64>,
    groups: Option<u64>,
    bias: Option<bool>,
    width: Option<u64>,
    rows: Option<u64>,
    extent: Option<u64>,
    factor: Option<u64>,
    heads: Option<u64>,
    causal: Option<bool>,
}

/// Kinds of layers, the fields that each takes, those first that it needs, and how many inputs.
const KINDS: &[(&str, usize, &[&str], Inputs)] = &[
    ("convolution", 2, &["channels", "kernel", "stride", "padding", "groups", "bias"], Inputs::One),
    ("linear", 1, &["width", "bias"], Inputs::One),
    ("batch-norm", 0, &[], Inputs::One),
    ("layer-norm", 0, &[], Inputs::One),
    ("rms-norm", 0, &[], Inputs::One),
    ("activation", 0, &[], Inputs::One),
    ("relu", 0, &[], Inputs::One),
    ("leaky-relu", 0, &[], Inputs::One),
    ("elu", 0, &[], Inputs::One),
    ("relu6", 0, &[], Inputs::One),
    ("gelu", 0, &[], Inputs::One),
    ("silu", 0, &[], Inputs::One),
    ("sigmoid", 0, &[], Inputs::One),
    ("tanh", 0, &[], Inputs::One),
    ("max-pool", 1, &["kernel", "stride", "padding"], Inputs::One),
    ("average-pool", 1, &["kernel", "stride", "padding"], Inputs::One),
    ("adaptive-pool", 0, &["extent"], Inputs::One),
    ("dropout", 0, &[], Inputs::One),
    ("add", 0, &[], Inputs::Two),
    ("multiply", 0, &[], Inputs::Two),
    ("concat", 0, &[], Inputs::Many),
    ("flatten", 0, &[], Inputs::One),
    ("upsample", 1, &["factor"], Inputs::One),
    ("embedding", 2, &["rows", "width"], Inputs::One),
    ("attention", 1, &["heads", "causal"], Inputs::Three),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inputs {
    One,
    Two,
    Three,
    Many,
}

impl Inputs {
    fn fit(self, count: usize) -> bool {
        match self {
            Self::One => count <= 1,
            Self::Two => count == 2,
            Self::Three => count == 3,
            Self::Many => count >= 2,
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::One => "one input, or none for the layer before",
            Self::Two => "two inputs",
            Self::Three => "three inputs: queries, keys and values",
            Self::Many => "two inputs or more",
        }
    }
}

impl LayerTable {
    fn stated(&self) -> impl Iterator<Item = &'static str> {
        [
            ("channels", self.channels.is_some()),
            ("kernel", self.kernel.is_some()),
            ("stride", self.stride.is_some()),
            ("padding", self.padding.is_some()),
            ("groups", self.groups.is_some()),
            ("bias", self.bias.is_some()),
            ("width", self.width.is_some()),
            ("rows", self.rows.is_some()),
            ("extent", self.extent.is_some()),
            ("factor", self.factor.is_some()),
            ("heads", self.heads.is_some()),
            ("causal", self.causal.is_some()),
        ]
        .into_iter()
        .filter_map(|(field, stated)| stated.then_some(field))
    }
}

/// Reads a network from the text of a TOML file; its form is described in this folder's
/// `README.md`. `file` is what errors call it, and its stem is the network's name.
///
/// # Errors
/// Where the text is no such file, or its layers do not fit together.
pub fn network_from_toml(
    text: &str,
    file: &Path,
    options: &NetworkOptions,
) -> Result<Network, NetworkError> {
    read(text, file, options).map_err(|error| error.in_file(file))
}

fn read(text: &str, file: &Path, options: &NetworkOptions) -> Result<Network, NetworkError> {
    let read: NetworkFile = toml::from_str(text).map_err(|source| NetworkError::Syntax {
        file: file.to_path_buf(),
        source: Box::new(source),
    })?;
    let stem = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let mut b = Builder::new(&stem, options, Dtype::F32, Optimizer::Momentum)?;
    let mut last = b.input("input", &read.input)?;
    for table in &read.layer {
        check(table, &b, file)?;
        last = add(&mut b, table, last, file)?;
    }
    b.finish(last)
}

fn wrong(file: &Path, layer: &str, why: String) -> NetworkError {
    NetworkError::Field { file: file.to_path_buf(), layer: layer.to_string(), why }
}

fn check(table: &LayerTable, b: &Builder, file: &Path) -> Result<(), NetworkError> {
    let error = |why| Err(wrong(file, &table.name, why));
    if b.find(&table.name).is_some() {
        return error("an earlier layer has this name: give each its own".to_string());
    }
    let Some((kind, needed, fields, inputs)) = KINDS.iter().find(|kind| kind.0 == table.kind)
    else {
        let known: Vec<String> = KINDS.iter().map(|kind| kind.0.to_string()).collect();
        let closest = closest(&table.kind, &known);
        let remedy = remedy(&closest, &known);
        return error(format!("there is no kind `{}`: {remedy}", table.kind));
    };
    let stated: Vec<&str> = table.stated().collect();
    if let Some(missing) = fields[..*needed].iter().find(|field| !stated.contains(field)) {
        return error(format!("a layer of kind {kind} needs `{missing}`"));
    }
    if let Some(other) = stated.iter().find(|field| !fields.contains(field)) {
        let remedy = match fields {
            [] => "it takes none".to_string(),
            fields => format!("it takes {}", fields.join(", ")),
        };
        return error(format!("a layer of kind {kind} has no `{other}`: {remedy}"));
    }
    if !inputs.fit(table.inputs.len()) {
        let (count, expected) = (table.inputs.len(), inputs.expected());
        return error(format!("has {count} inputs: a layer of kind {kind} takes {expected}"));
    }
    Ok(())
}

fn add(b: &mut Builder, table: &LayerTable, last: LayerId, file: &Path) -> Built {
    let mut inputs = Vec::new();
    for input in &table.inputs {
        let found = b.find(input).ok_or_else(|| {
            let why = format!("reads `{input}`, which is no layer before it");
            wrong(file, &table.name, why)
        })?;
        inputs.push(found);
    }
    let name = &table.name;
    let x = inputs.first().copied().unwrap_or(last);
    // `check` has made sure that what a kind needs is there.
    let given = |field: Option<u64>| field.unwrap_or(1);
    let dimensions = b.shape(x).len().saturating_sub(2);
    let window = |stride: u64| {
        let (kernel, padding) = (given(table.kernel), table.padding.unwrap_or(0));
        Window::cube(dimensions, kernel, table.stride.unwrap_or(stride), padding)
    };
    match table.kind.as_str() {
        "convolution" => {
            if dimensions == 0 {
                return Err(b.rank(name, x, "3 or more"));
            }
            let (groups, bias) = (given(table.groups), table.bias.unwrap_or(true));
            b.convolution(name, x, given(table.channels), window(1), groups, bias)
        }
        "linear" => b.linear(name, x, given(table.width), table.bias.unwrap_or(true)),
        "batch-norm" => b.batch_norm(name, x),
        "layer-norm" => b.row_norm(name, x, true),
        "rms-norm" => b.row_norm(name, x, false),
        "activation" => b.act(name, x),
        "max-pool" => b.max_pool(name, x, window(given(table.kernel))),
        "average-pool" => b.average_pool(name, x, window(given(table.kernel))),
        "adaptive-pool" => b.adaptive_pool(name, x, given(table.extent)),
        "dropout" => b.dropout(name, x, 50),
        "add" => b.sum(name, x, inputs[1]),
        "multiply" => b.multiply(name, x, inputs[1]),
        "concat" => b.concat(name, &inputs),
        "flatten" => b.flatten(name, x),
        "upsample" => b.upsample(name, x, given(table.factor)),
        "embedding" => b.embedding(name, x, given(table.rows), given(table.width)),
        "attention" => {
            let [q, k, v] = [x, inputs[1], inputs[2]];
            let heads = given(table.heads);
            let width = b.shape(q).last().copied().unwrap_or(1);
            if b.shape(q).len() != 3 {
                return Err(b.rank(name, q, "3"));
            }
            if heads == 0 || width % heads != 0 {
                let why = format!("has {heads} heads, which do not divide its width of {width}");
                return Err(wrong(file, name, why));
            }
            b.attention(name, [q, k, v], heads, width / heads, table.causal.unwrap_or(false))
        }
        kind => {
            let activation = kind.parse().unwrap_or(Activation::Relu);
            b.activation(name, x, activation)
        }
    }
}

#[cfg(test)]
#[path = "toml_file_tests.rs"]
mod tests;
