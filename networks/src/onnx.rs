//! Imports the forward graph of an ONNX model; the backward follows as for any other network.

mod elements;
mod fold;
mod graph;
mod layout;
mod node;
mod operators;
mod patterns;
mod products;
mod proto;
mod selection;
mod value;
mod windows;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use prost::Message;
use schema::Dtype;

use self::node::Node;
use self::proto::{Model, ValueInfo};
use self::value::{Axis, Constant, Tensor, Value};
use super::builder::Builder;
use super::error::NetworkError;
use super::layer::{Compute, LayerId, Network};
use super::options::{NetworkOptions, Optimizer};
use super::registry::refuse_others;

/// An import under way.
struct Import<'a> {
    b: Builder,
    file: &'a Path,
    options: &'a NetworkOptions,
    opset: i64,
    /// Values by name.
    values: HashMap<String, Value>,
    /// Of each layer, where its output has the batch and whether it depends on a parameter.
    facts: Vec<Fact>,
    /// The batch that the file was exported with: everything is worked out for it, and grows in the end.
    exported: u64,
    /// Extents that the file leaves open, by name.
    open: HashMap<String, u64>,
    /// Shapes that the file states, for ops that are not known.
    stated: HashMap<String, Vec<Option<u64>>>,
    /// Parameters by initializer, so that layers share what the file shares.
    shared: HashMap<String, usize>,
    /// Constants that ops read as activations, by name.
    given: HashMap<String, Tensor>,
    /// What had to be decided, with how often and where first.
    notes: BTreeMap<String, (u64, String)>,
    /// Whether the model writes GELU out in steps that keep what they make.
    in_steps: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Fact {
    axis: Option<Axis>,
    trained: bool,
}

/// Imports the forward graph of an ONNX model and derives its backward. `file` is what errors
/// call it, and its stem is the network's name. The first extent of the first input is the batch,
/// and the options' batch takes its place; the loss is of the first output, and of others that no
/// node reads. What had to be decided is in [`Network::notes`].
///
/// # Errors
/// Where the bytes are no ONNX model, an option is not one of it, or a node is of a kind that is not
/// imported.
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
    refuse_others(&stem, options, &["image", "sequence", "training-batch-norm"])?;
    let mut kinds: [u64; 17] = [0; 17];
    for tensor in &graph.initializer {
        if let Some(kind) = tensor.data_type.and_then(|kind| kinds.get_mut(kind as usize)) {
            let extents = tensor.dims.iter().map(|extent| extent.unsigned_abs());
            *kind = kind.saturating_add(extents.fold(1, u64::saturating_mul));
        }
    }
    let dtype = match (kinds[10], kinds[16]) {
        (half, _) if half > kinds[1] => Dtype::F16,
        (_, brain) if brain > kinds[1] => Dtype::Bf16,
        _ => Dtype::F32,
    };
    let b = Builder::new(&stem, options, dtype, Optimizer::Momentum)?;
    let opset = model.opset.iter().find(|opset| opset.domain.is_empty());
    let mut import = Import {
        b,
        file,
        options,
        opset: opset.map_or(13, |opset| opset.version),
        values: HashMap::new(),
        facts: Vec::new(),
        exported: 1,
        open: HashMap::new(),
        stated: HashMap::new(),
        shared: HashMap::new(),
        given: HashMap::new(),
        notes: BTreeMap::new(),
        in_steps: false,
    };
    let turned = graph::turned_tables(&graph);
    for tensor in &graph.initializer {
        let origin = turned.get(tensor.name.as_str()).copied().unwrap_or(&tensor.name);
        let constant = Constant::read(tensor, Some(origin)).map_err(wrong)?;
        import.values.insert(tensor.name.clone(), Value::Constant(constant));
    }
    import.inputs(&graph.input).map_err(|error| match error {
        InputError::Format(why) => wrong(why),
        InputError::Layer(error) => error,
    })?;
    let nodes = graph::inlined(&graph.node, &model.functions).map_err(wrong)?;
    for info in graph.value_info.iter().chain(&graph.output) {
        import.state(info);
    }
    let roots = graph::losses(&nodes, &graph.output);
    import.walk(&nodes, &roots)?;
    import.finish(&roots).map_err(|error| {
        error.unwrap_or_else(|| {
            wrong("its first output is nothing that a node makes of its inputs".to_string())
        })
    })
}

enum InputError {
    Format(String),
    Layer(NetworkError),
}

impl From<NetworkError> for InputError {
    fn from(error: NetworkError) -> Self {
        Self::Layer(error)
    }
}

impl Import<'_> {
    fn inputs(&mut self, inputs: &[ValueInfo]) -> Result<(), InputError> {
        // Older files list what is initialized among the inputs.
        let inputs: Vec<&ValueInfo> =
            inputs.iter().filter(|input| !self.values.contains_key(&input.name)).collect();
        let batch = u64::from(self.options.batch / self.options.accumulate.max(1));
        let mut asked = [self.options.image.is_some(), self.options.sequence.is_some()];
        self.exported = batch;
        for (number, input) in inputs.into_iter().enumerate() {
            let dims = dimensions(input).ok_or_else(|| {
                InputError::Format(format!("input `{}` has no shape", input.name))
            })?;
            let rank = dims.len();
            let mut shape = Vec::with_capacity(rank);
            for (index, (value, name)) in dims.into_iter().enumerate() {
                let image = self.options.image.map(|image| image.map(u64::from));
                let chosen = match (index, rank) {
                    (0, _) => Some(batch),
                    (2 | 3, 4) => image.map(|image| image[index - 2]),
                    (1, 2 | 3) => self.options.sequence.map(u64::from),
                    _ => None,
                };
                if value.is_none() && chosen.is_some() && index > 0 {
                    asked[usize::from(rank != 4)] = false;
                }
                let known = name.as_ref().and_then(|name| self.open.get(name).copied());
                let extent = value.or(known).or(chosen).ok_or_else(|| {
                    let option = if rank == 4 { "image" } else { "sequence" };
                    let why = format!(
                        "is left open by input `{}` (extent {index}): state --{option} where that is \
                         what it is, or export it with a fixed one",
                        input.name
                    );
                    NetworkError::Option { network: self.file.display().to_string(), option, why }
                })?;
                if let (Some(name), None) = (name, value) {
                    self.open.insert(name, extent);
                }
                if number == 0 && index == 0 {
                    self.exported = extent;
                }
                shape.push(extent);
            }
            let axis = (shape.first() == Some(&self.exported)).then_some(Axis::first_of(0));
            let id = self.b.add(&input.name, Compute::Input, &[], shape.clone(), &[])?;
            self.take_note(id, axis);
            let value = Value::Layer(Tensor::new(id, shape, axis));
            self.values.insert(input.name.clone(), value);
        }
        for (option, asked) in ["image", "sequence"].into_iter().zip(asked) {
            if asked {
                let why = "is fixed in the file: export it with an open extent".to_string();
                let network = self.file.display().to_string();
                return Err(NetworkError::Option { network, option, why }.into());
            }
        }
        Ok(())
    }

    /// Takes in a shape that the file states.
    fn state(&mut self, info: &ValueInfo) {
        let Some(dims) = dimensions(info) else { return };
        let extents = dims.into_iter().map(|(value, name)| {
            value.or_else(|| name.and_then(|name| self.open.get(&name).copied()))
        });
        self.stated.insert(info.name.clone(), extents.collect());
    }

    /// Takes note of a layer that was added.
    fn take_note(&mut self, id: LayerId, axis: Option<Axis>) {
        let layer = self.b.layer(id);
        let counts = !matches!(layer.compute, Compute::Other(other) if other.dtype.is_some());
        let below = layer.inputs.iter().any(|input| self.facts[input.0].trained);
        let trained = counts && (below || !layer.parameters.is_empty());
        let count = self.facts.len().max(id.0 + 1);
        self.facts.resize(count, Fact::default());
        self.facts[id.0] = Fact { axis, trained };
    }

    /// What was decided about a node, in a sentence that may come often.
    fn note(&mut self, node: Node<'_>, what: impl Into<String>) {
        let entry = self.notes.entry(what.into()).or_insert((0, node.name().to_string()));
        entry.0 += 1;
    }

    /// Ends the network with its losses, at the batch that was asked for. No error: the first
    /// output is no layer.
    fn finish(mut self, roots: &[String]) -> Result<Network, Option<NetworkError>> {
        let mut losses = Vec::new();
        for (index, root) in roots.iter().enumerate() {
            match self.values.get(root) {
                Some(Value::Layer(tensor)) if index == 0 || self.facts[tensor.id.0].trained => {
                    losses.push(tensor.clone());
                }
                _ if index == 0 => return Err(None),
                _ => {}
            }
        }
        let last = losses.len().checked_sub(1).ok_or(None)?;
        for (index, tensor) in losses.into_iter().rev().enumerate() {
            let axis = self.facts[tensor.id.0].axis;
            let id = match tensor.shape.is_empty() {
                true => self.b.view("loss.of", tensor.id, vec![1])?,
                false => tensor.id,
            };
            let name = if index == last { "loss".into() } else { format!("loss{}", last - index) };
            self.facts.resize(id.0 + 1, Fact { axis, trained: true });
            let loss = self.b.same(&name, id, Compute::Loss)?;
            self.facts.resize(loss.0 + 1, Fact { axis, trained: true });
        }
        let dimension = |fact: &Fact| fact.axis.map(|axis| axis.dimension);
        let axes: Vec<Option<usize>> = self.facts.iter().map(dimension).collect();
        let mut network = self.b.scaled(&axes, self.exported)?;
        network.writes_gelu_out = self.in_steps;
        network.notes = (self.notes.into_iter())
            .map(|(what, (times, first))| match times {
                1 => format!("`{first}` {what}"),
                times => format!("`{first}` and {} more: each {what}", times - 1),
            })
            .collect();
        Ok(network)
    }
}

type Extent = (Option<u64>, Option<String>);

/// The extents that a file states, or the names of those that it leaves open.
fn dimensions(info: &ValueInfo) -> Option<Vec<Extent>> {
    let shape = info.r#type.as_ref()?.tensor.as_ref()?.shape.as_ref()?;
    let dims = shape.dim.iter().map(|dim| {
        let value =
            dim.value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0);
        (value, dim.param.clone().filter(|name| !name.is_empty()))
    });
    Some(dims.collect())
}
