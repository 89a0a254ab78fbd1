//! Imports the forward graph of an ONNX model; the backward follows as for any other network.

mod node;
mod proto;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use prost::Message;
use schema::Dtype;

use self::node::NodeImport;
use self::proto::{Graph, INT64, Model, Tensor, ValueInfo};
use super::builder::Builder;
use super::error::NetworkError;
use super::layer::{LayerId, Network};
use super::options::{NetworkOptions, Optimizer};

/// What a name of the graph stands for.
#[derive(Debug, Clone)]
enum Value {
    /// The output of a layer.
    Layer(LayerId),
    /// A constant, by its extents.
    Constant(Vec<u64>),
    /// A constant of integers, such as the shape for a reshape.
    Integers(Vec<i64>),
}

/// Imports the forward graph of an ONNX model and derives its backward. `file` is what errors
/// call it, and its stem is the network's name. The first extent of each input is the batch, and
/// the options' batch takes its place; the first output is what the loss is of.
///
/// # Errors
/// Where the bytes are no ONNX model, or a node is of a kind that is not imported.
pub fn network_from_onnx(
    bytes: &[u8],
    file: &Path,
    options: &NetworkOptions,
) -> Result<Network, NetworkError> {
    read(bytes, file, options).map_err(|error| error.in_file(file))
}

fn read(bytes: &[u8], file: &Path, options: &NetworkOptions) -> Result<Network, NetworkError> {
    let wrong = |why: String| NetworkError::OnnxFormat { file: file.to_path_buf(), why };
    let model = Model::decode(bytes).map_err(|error| wrong(error.to_string()))?;
    let graph = model.graph.ok_or_else(|| wrong("it holds no graph".to_string()))?;
    let stem = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let mut builder = Builder::new(&stem, options, Dtype::F32, Optimizer::Momentum)?;
    let mut values: HashMap<String, Value> = HashMap::new();
    for tensor in &graph.initializer {
        values.insert(tensor.name.clone(), constant(tensor).map_err(wrong)?);
    }
    let mut batch = None;
    for input in &graph.input {
        // Older files list what is initialized among the inputs.
        if values.contains_key(&input.name) {
            continue;
        }
        let shape = input_shape(input).map_err(wrong)?;
        batch = batch.or(shape[0]);
        let per_sample: Option<Vec<u64>> = shape[1..].iter().copied().collect();
        let per_sample = per_sample.ok_or_else(|| {
            let name = &input.name;
            wrong(format!("input `{name}` has an extent without a value beside the batch: fix it"))
        })?;
        let layer = builder.input(&input.name, &per_sample)?;
        values.insert(input.name.clone(), Value::Layer(layer));
    }
    let Graph { node: nodes, output, .. } = graph;
    for node in &nodes {
        let import = NodeImport { node, file, batch };
        let value = import.value(&mut builder, &values)?;
        if let Some(output) = node.output.first() {
            values.insert(output.clone(), value);
        }
    }
    let logits = output.first().and_then(|output| values.get(&output.name));
    match logits {
        Some(Value::Layer(layer)) => builder.finish(*layer),
        _ => Err(wrong("its first output is not made by any node".to_string())),
    }
}

fn constant(tensor: &Tensor) -> Result<Value, String> {
    let extent = |extent: &i64| {
        u64::try_from(*extent).map_err(|_| format!("`{}` has an extent of {extent}", tensor.name))
    };
    let dims: Vec<u64> = tensor.dims.iter().map(extent).collect::<Result<_, _>>()?;
    if tensor.data_type != Some(INT64) {
        return Ok(Value::Constant(dims));
    }
    let raw = tensor.raw_data.iter().flat_map(|raw| raw.chunks_exact(8));
    let raw = raw.map(|chunk| chunk.iter().rev().fold(0, |sum, byte| sum << 8 | i64::from(*byte)));
    Ok(Value::Integers(tensor.int64_data.iter().copied().chain(raw).collect()))
}

/// Extents of an input; those without a value are none. There is at least the batch.
fn input_shape(input: &ValueInfo) -> Result<Vec<Option<u64>>, String> {
    let shape = input.r#type.as_ref().and_then(|of| of.tensor.as_ref()?.shape.as_ref());
    let dims = shape.map(|shape| shape.dim.as_slice()).unwrap_or_default();
    if dims.is_empty() {
        let name = &input.name;
        return Err(format!("input `{name}` has no shape: export the model with its shapes"));
    }
    Ok(dims.iter().map(|dim| dim.value.and_then(|value| u64::try_from(value).ok())).collect())
}
