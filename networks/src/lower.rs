//! From layers to ops and tensors: the forward phase, what autodiff makes of it, and the update.

mod backward;
mod place;
mod prepare;

use std::borrow::Cow;

use schema::{Dtype, Phase, Role};

use super::conventions::Conventions;
use super::initial::Initial;
use super::layer::{Compute, Layer, LayerId, Like, Network, Other, elements};
use super::options::Activation;
use super::part::Part;
use super::tape::{Step, Tape, Tensor};
use super::work::{Costs, Work, depth};

/// What a network calls the input that counts its tokens.
const POSITIONS: &str = "positions";
/// Cells of the seed of dropout.
pub const SEED_CELLS: usize = 3;

/// A network's iteration as some framework runs it.
#[derive(Debug, Clone)]
pub struct Lowered<'a> {
    /// The network, with the layers that the framework needs beside: copies.
    pub network: Cow<'a, Network>,
    /// Its ops.
    pub tape: Tape<Step>,
}

/// A value: a tensor, or a view of one.
type Value = usize;

struct Lowering<'a> {
    network: &'a Network,
    by: &'a Conventions,
    costs: Costs<'a>,
    tensors: Vec<Tensor>,
    /// Whether a value depends on a parameter.
    trained: Vec<bool>,
    ops: Vec<RawOp>,
    /// The value of each layer's output.
    outputs: Vec<Value>,
    /// What a layer keeps for its backward beside input and output.
    kept: Vec<Option<Value>>,
    /// Gradients of each value that are not yet added up.
    gradients: Vec<Vec<Value>>,
    parameters: Vec<Option<Value>>,
    labels: Option<Value>,
    seed: Option<Value>,
}

/// An op before it is known which of its values are views of another.
struct RawOp {
    name: String,
    step: Step,
    phase: Phase,
    reads: Vec<Value>,
    updates: Vec<Value>,
    writes: Vec<Value>,
    /// An input that the output may take the place of, and that output.
    over: Option<(Value, Value)>,
    /// The outputs are views of the first input.
    views: bool,
    recompute_differs: bool,
    workspace: u64,
    work: Work,
}

impl Network {
    /// The iteration as ops over tensors, by the conventions of a framework.
    pub fn lower(&self, by: &Conventions) -> Lowered<'_> {
        let network = prepare::prepared(self, by);
        let tape = Lowering::of(&network, by).tape();
        Lowered { network, tape }
    }
}

impl<'a> Lowering<'a> {
    fn of(network: &'a Network, by: &'a Conventions) -> Self {
        let count = network.layers.len();
        Self {
            network,
            by,
            costs: Costs { network, by },
            tensors: Vec::new(),
            trained: Vec::new(),
            ops: Vec::new(),
            outputs: Vec::with_capacity(count),
            kept: vec![None; count],
            gradients: Vec::new(),
            parameters: vec![None; network.parameters.len()],
            labels: None,
            seed: None,
        }
    }

    fn tape(mut self) -> Tape<Step> {
        let layers = &self.network.layers;
        if self.by.parameters_first {
            let mut owned: Vec<(usize, usize)> = Vec::new();
            for (id, layer) in layers.iter().enumerate() {
                owned.extend(layer.parameters.iter().map(|parameter| (*parameter, id)));
            }
            owned.sort_unstable();
            owned.into_iter().for_each(|(parameter, id)| self.declare(parameter, id));
        }
        for id in 0..layers.len() {
            self.forward(id);
        }
        let first = self.first_layers();
        let early = self.network.options.update_in_backward;
        for id in (0..layers.len()).rev() {
            self.backward(id);
            if early {
                self.update(id, &first);
            }
        }
        for id in 0..if early { 0 } else { layers.len() } {
            self.update(id, &first);
        }
        let narrow = !self.by.uniform && self.network.dtype == Dtype::Bf16;
        let tape = place::place(self);
        if narrow { tape.in_bf16() } else { tape }
    }

    /// What activations, parameters and gradients are before they are narrowed.
    fn float(&self) -> Dtype {
        if self.by.uniform { self.network.dtype } else { Dtype::F32 }
    }

    fn tensor(&mut self, name: String, count: u64, dtype: Dtype, role: Role) -> Value {
        let elements = usize::try_from(count).unwrap_or(usize::MAX);
        self.tensors.push(Tensor { name, elements, role, dtype, exact: false, initial: None });
        self.trained.push(role == Role::Parameter);
        self.gradients.push(Vec::new());
        self.tensors.len() - 1
    }

    fn constant(&mut self, name: String, count: u64, role: Role, initial: Initial) -> Value {
        let dtype = match role {
            _ if initial.is_index() => self.by.index,
            Role::OptimizerState => Dtype::F32,
            _ => self.float(),
        };
        let value = self.tensor(name, count, dtype, role);
        self.tensors[value].initial = Some(initial);
        value
    }

    /// The tensor of a parameter that a layer has, which may be there already.
    fn declare(&mut self, parameter: usize, id: usize) {
        if self.parameters[parameter].is_some() {
            return;
        }
        let layer = &self.network.layers[id];
        let is_weight = layer.parameters[0] == parameter;
        let initial = match layer.compute {
            Compute::Convolution { .. } | Compute::Deconvolution { .. } if is_weight => {
                Initial::weights(depth(self.network, id))
            }
            Compute::Linear if is_weight => Initial::small_weights(depth(self.network, id)),
            Compute::BatchNorm | Compute::RowNorm if is_weight => Initial::Constant(1.0),
            Compute::Embedding => Initial::TABLE,
            _ => Initial::Constant(0.0),
        };
        let of = &self.network.parameters[parameter];
        let value = self.constant(of.name.clone(), of.elements, Role::Parameter, initial);
        self.trained[value] = !self.network.is_frozen(parameter);
        self.parameters[parameter] = Some(value);
    }

    fn parameters_of(&self, id: usize) -> Vec<Value> {
        let parameters = &self.network.layers[id].parameters;
        parameters.iter().filter_map(|parameter| self.parameters[*parameter]).collect()
    }

    fn inputs_of(&self, id: usize) -> Vec<Value> {
        self.network.layers[id].inputs.iter().map(|input| self.outputs[input.0]).collect()
    }

    fn op(&mut self, name: String, layer: usize, part: Part, work: Work) -> &mut RawOp {
        self.ops.push(RawOp {
            name,
            step: Step { layer, part },
            phase: match part {
                Part::Forward | Part::Running => Phase::Forward,
                Part::Update => Phase::Update,
                _ => Phase::Backward,
            },
            reads: Vec::new(),
            updates: Vec::new(),
            writes: Vec::new(),
            over: None,
            views: false,
            recompute_differs: false,
            workspace: 0,
            work,
        });
        self.ops.last_mut().expect("just pushed")
    }

    fn forward(&mut self, id: usize) {
        let (network, by) = (self.network, self.by);
        let layer = &network.layers[id];
        layer.parameters.iter().for_each(|parameter| self.declare(*parameter, id));
        let count = elements(&layer.shape);
        let inputs = self.inputs_of(id);
        match layer.compute {
            Compute::Input => {
                let initial = self.given(id);
                let value = self.constant(layer.name.clone(), count, Role::Input, initial);
                return self.outputs.push(value);
            }
            Compute::View if !by.views => return self.outputs.push(inputs[0]),
            Compute::Parameter => {
                let value = self.parameters_of(id);
                return self.outputs.extend(value.first());
            }
            _ => {}
        }
        let beside = match layer.compute {
            Compute::Dropout { .. } if !by.masks => Some(self.seed()),
            Compute::Loss if !by.fused_loss => Some(self.labels(layer)),
            _ => None,
        };
        let is_value = layer.compute == Compute::Loss && !by.fused_loss;
        let size = if is_value { 1 } else { count };
        let special = match layer.compute {
            Compute::Other(Other { dtype, .. }) => dtype,
            _ => None,
        };
        let dtype = special.unwrap_or_else(|| self.float());
        let output = self.tensor(layer.name.clone(), size, dtype, Role::Activation);
        self.tensors[output].exact = is_value;
        self.outputs.push(output);
        let mut reads = inputs;
        reads.extend(self.parameters_of(id));
        reads.extend(beside);
        let mut writes = vec![output];
        if let Some((what, count, dtype)) = self.keeps(layer) {
            let name = format!("{}.{what}", layer.name);
            let value = self.tensor(name, count, dtype, Role::Activation);
            self.tensors[value].exact = what == "saved";
            self.kept[id] = Some(value);
            writes.push(value);
        }
        match layer.compute {
            Compute::Loss if by.fused_loss => {
                // It leaves the gradient of the logits behind, and is their first gradient op.
                self.tensors[output].role = Role::Gradient;
                self.gradients[reads[0]].push(output);
                reads.push(self.labels(layer));
            }
            Compute::Dropout { .. } if !by.masks => self.kept[id] = beside,
            _ => {}
        }
        let trained = special.is_none() && reads.iter().any(|read| self.trained[*read]);
        writes.iter().for_each(|write| self.trained[*write] = trained);
        let over = by.overlays(&layer.compute, Part::Forward, &network.options);
        let over = over.then_some((reads[0], output));
        let workspace = self.workspace(id);
        let work = self.costs.forward(id);
        let op = self.op(layer.name.clone(), id, Part::Forward, work);
        op.views = match layer.compute {
            Compute::View => true,
            Compute::Other(other) => by.views && matches!(other.like, Like::View | Like::Part),
            _ => false,
        };
        op.recompute_differs = !by.statistics && layer.compute == Compute::BatchNorm;
        (op.reads, op.writes, op.over, op.workspace) = (reads, writes, over, workspace);
        if by.statistics && layer.compute == Compute::BatchNorm {
            self.running(id);
        }
    }

    /// What a layer keeps for its backward, beside input and output.
    fn keeps(&self, layer: &Layer) -> Option<(&'static str, u64, Dtype)> {
        let by = self.by;
        let (count, rows) =
            (elements(&layer.shape), elements(&layer.shape[..layer.shape.len().max(1) - 1]));
        match layer.compute {
            Compute::Dropout { .. } if by.masks => Some(("mask", count, Dtype::U8)),
            Compute::MaxPool(_) if by.positions => Some(("positions", count, by.index)),
            Compute::MaxPool(_) if by.keeps_positions(&self.network.options) => {
                Some(("indices", count, by.index))
            }
            Compute::BatchNorm if by.statistics => Some(("saved", 2 * layer.shape[1], Dtype::F32)),
            // A mean, where there is one, and a deviation.
            Compute::RowNorm if by.statistics => {
                Some(("saved", rows * layer.parameters.len() as u64, Dtype::F32))
            }
            Compute::Attention { heads, .. } if by.statistics => {
                Some(("saved", rows * heads, Dtype::F32))
            }
            Compute::Loss if !by.fused_loss => Some(("probabilities", count, Dtype::F32)),
            Compute::Activation(Activation::Gelu) if self.costs.gelu_in_steps() => {
                Some(("steps", 3 * count, self.float()))
            }
            _ => None,
        }
    }

    /// The op that keeps running statistics. It is no part of the forward op, so that recomputing
    /// that counts no batch twice.
    fn running(&mut self, id: usize) {
        let layer = &self.network.layers[id];
        let updates = [("running_mean", 0.0), ("running_variance", 1.0)].map(|(what, value)| {
            let (name, initial) = (format!("{}.{what}", layer.name), Initial::Constant(value));
            self.constant(name, layer.shape[1], Role::OptimizerState, initial)
        });
        let reads = self.kept[id].into_iter().collect();
        let work = self.costs.running(id);
        let op = self.op(format!("{}.running", layer.name), id, Part::Running, work);
        (op.reads, op.updates) = (reads, updates.to_vec());
    }

    /// The seed of dropout.
    fn seed(&mut self) -> Value {
        if let Some(seed) = self.seed {
            return seed;
        }
        let name = "dropout.seed".to_string();
        let seed = self.constant(name, SEED_CELLS as u64, Role::Input, Initial::Seed);
        *self.seed.insert(seed)
    }

    fn labels(&mut self, loss: &Layer) -> Value {
        let classes = loss.shape.last().copied().unwrap_or(1) as usize;
        let (count, classes) = match !self.by.fused_loss && loss.is_binary() {
            true => (elements(&loss.shape), 2),
            false => (elements(&loss.shape[..loss.shape.len() - 1]), classes),
        };
        let name = match loss.name.strip_prefix("loss") {
            Some(number) => format!("labels{number}"),
            None => "labels".to_string(),
        };
        let labels = self.constant(name, count, Role::Input, Initial::Classes(classes));
        *self.labels.insert(labels)
    }

    /// What the iteration is given: tokens where a table is looked up with them, else numbers.
    fn given(&self, id: usize) -> Initial {
        let layers = &self.network.layers;
        let reader = layers.iter().find(|other| {
            other.compute == Compute::Embedding && other.inputs.contains(&LayerId(id))
        });
        let Some(reader) = reader else { return Initial::normalised() };
        let layer = &layers[id];
        if layer.name == POSITIONS {
            return Initial::Positions(elements(&layer.shape[1..]) as usize);
        }
        let table = &self.network.parameters[reader.parameters[0]];
        let width = reader.shape.last().copied().unwrap_or(1).max(1);
        Initial::Classes((table.elements / width) as usize)
    }

    /// What the kernels of a layer need beside their operands. The implicit products that run
    /// convolutions in the recordings need no unrolled input, just a table of offsets: 4 bytes for
    /// each position of the window in each input channel. A runtime with kernels of its own
    /// knows better ([`Tape::try_map`]).
    fn workspace(&self, id: usize) -> u64 {
        let layer = &self.network.layers[id];
        match &layer.compute {
            Compute::Convolution { .. } | Compute::Deconvolution { .. } => {
                depth(self.network, id).saturating_mul(4)
            }
            Compute::MaxPool(_) if self.kept[id].is_none() => {
                elements(&layer.shape).saturating_mul(self.by.index.bytes())
            }
            // Log-probabilities, the gradient of them and that of the logits are there at once, in 32
            // bits whatever the network's type; logits and their gradient are counted as tensors.
            Compute::Loss if self.by.fused_loss => {
                let width = (3 * Dtype::F32.bytes()).saturating_sub(2 * self.float().bytes());
                elements(&layer.shape).saturating_mul(width)
            }
            _ => 0,
        }
    }
}
