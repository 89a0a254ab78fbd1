//! From layers to ops and tensors: the forward phase, what autograd makes of it, and the update.
//!
//! What each backward op reads is what PyTorch's autograd has it read, and the ops are cut as the
//! profiles of MONeT have them: the backward of a convolution or a linear layer is two ops, first
//! `_param_grad`, which reads the layer's input, then `_ip_grad`, which reads its weights; each
//! other backward is one op, `_ip_grad`, that makes the gradients of its parameters too.
//!
//! Not tensors of their own, being under a thousandth of what is beside them: the statistics that
//! normalisations save and the log-sum-exp of fused attention.

use schema::{Bytes, Dtype, Home, Op, Phase, Role, Tensor};

use super::class::Pass;
use super::layer::{Compute, Layer, LayerId, Network, Parameter, elements};
use super::options::element_bytes;
use super::place::place;
use super::work::{Work, backward_work, forward_work};

/// A network's iteration without times: they are modelled from `works`, one per op.
pub(crate) struct Iteration {
    pub tensors: Vec<Tensor>,
    pub ops: Vec<Op>,
    pub works: Vec<Work>,
}

/// A value: a tensor, or a view of one.
type Value = usize;

struct Lowering<'a> {
    network: &'a Network,
    tensors: Vec<Tensor>,
    ops: Vec<RawOp>,
    /// The value of each layer's output.
    outputs: Vec<Value>,
    /// What a layer keeps for its backward beside input and output: a mask, indices.
    kept: Vec<Option<Value>>,
    /// Gradients of each layer's output that are not yet added up.
    gradients: Vec<Vec<Value>>,
    /// The tensor of each parameter, and its gradients.
    parameters: Vec<Value>,
    parameter_gradients: Vec<Vec<Value>>,
}

/// An op before it is known which of its values are views of another.
pub(super) struct RawOp {
    pub name: String,
    pub phase: Phase,
    pub reads: Vec<Value>,
    pub writes: Vec<Value>,
    /// An input that the output may take the place of, and that output.
    pub over: Option<(Value, Value)>,
    /// The outputs are views of the first input.
    pub views: bool,
    pub recompute_differs: bool,
    pub workspace: u64,
    pub work: Work,
}

pub(crate) fn lower(network: &Network) -> Iteration {
    let count = network.layers.len();
    let mut lowering = Lowering {
        network,
        tensors: Vec::new(),
        ops: Vec::new(),
        outputs: Vec::with_capacity(count),
        kept: vec![None; count],
        gradients: vec![Vec::new(); count],
        parameters: Vec::new(),
        parameter_gradients: vec![Vec::new(); network.parameters.len()],
    };
    for parameter in &network.parameters {
        let value = lowering.parameter_tensor(&parameter.name, parameter.elements);
        lowering.parameters.push(value);
    }
    for id in 0..count {
        lowering.forward(id);
    }
    for id in (0..count).rev() {
        lowering.backward(id);
    }
    lowering.update();
    place(lowering.tensors, lowering.ops)
}

impl Lowering<'_> {
    fn tensor(&mut self, name: String, elements: u64, dtype: Dtype, role: Role) -> Value {
        self.tensors.push(Tensor {
            name,
            bytes: Bytes(elements.saturating_mul(element_bytes(dtype))),
            role,
            dtype: Some(dtype),
            home: Home::Device,
            appears_before: None,
            sparsity: None,
        });
        self.tensors.len() - 1
    }

    fn parameter_tensor(&mut self, name: &str, elements: u64) -> Value {
        self.tensor(name.to_string(), elements, self.network.dtype, Role::Parameter)
    }

    fn op(&mut self, name: String, phase: Phase, work: Work) -> &mut RawOp {
        self.ops.push(RawOp {
            name,
            phase,
            reads: Vec::new(),
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
        let network = self.network;
        let layer = &network.layers[id];
        let count = elements(&layer.shape);
        let role = if layer.compute == Compute::Input { Role::Input } else { Role::Activation };
        let looks_up = |other: &Layer| {
            other.compute == Compute::Embedding && other.inputs.contains(&LayerId(id))
        };
        let tokens = layer.compute == Compute::Input && network.layers.iter().any(looks_up);
        let dtype = if tokens { Dtype::I64 } else { network.dtype };
        let output = self.tensor(layer.name.clone(), count, dtype, role);
        self.outputs.push(output);
        let inputs: Vec<Value> = layer.inputs.iter().map(|input| self.outputs[input.0]).collect();
        let in_place = network.options.in_place;
        let mut writes = vec![output];
        let (mut over, mut workspace) = (None, 0);
        match &layer.compute {
            Compute::Input => return,
            Compute::Loss => {
                // It leaves the gradient of the logits behind, and is their first gradient op.
                self.tensors[output].role = Role::Gradient;
                self.gradients[layer.inputs[0].0].push(output);
            }
            Compute::Dropout { .. } => {
                let mask =
                    self.tensor(format!("{}.mask", layer.name), count, Dtype::U8, Role::Activation);
                self.kept[id] = Some(mask);
                writes.push(mask);
            }
            Compute::MaxPool(_) if network.options.pool_indices => {
                let name = format!("{}.indices", layer.name);
                let indices = self.tensor(name, count, Dtype::I64, Role::Activation);
                self.kept[id] = Some(indices);
                writes.push(indices);
            }
            Compute::MaxPool(_) => workspace = count.saturating_mul(element_bytes(Dtype::I64)),
            Compute::Convolution { .. } => workspace = convolution_workspace(network, id),
            Compute::Activation(activation) if in_place && activation.backward_reads_output() => {
                over = Some((inputs[0], output));
            }
            Compute::Add if in_place => over = Some((inputs[0], output)),
            _ => {}
        }
        let parameters = layer.parameters.iter().map(|id| self.parameters[*id]);
        let mut reads = inputs;
        reads.extend(parameters);
        if layer.compute == Compute::Loss {
            let labels = elements(&layer.shape[..layer.shape.len() - 1]);
            reads.push(self.tensor("labels".to_string(), labels, Dtype::I64, Role::Input));
        }
        let op = self.op(layer.name.clone(), Phase::Forward, forward_work(network, id));
        op.views = layer.compute == Compute::View;
        op.recompute_differs = layer.compute == Compute::BatchNorm;
        (op.reads, op.writes, op.over, op.workspace) = (reads, writes, over, workspace);
    }

    /// Whether anything below a layer is to be trained, so that its output needs a gradient.
    fn needs_gradient(&self, id: LayerId) -> bool {
        // Networks begin with their inputs, and everything that follows has parameters below it,
        // or is a copy of an input that nobody reads in the backward phase.
        self.network.layers[id.0].compute != Compute::Input
    }

    fn backward(&mut self, id: usize) {
        let network = self.network;
        let layer = &network.layers[id];
        let mut incoming = std::mem::take(&mut self.gradients[id]);
        if incoming.is_empty() || matches!(layer.compute, Compute::Input | Compute::Loss) {
            return;
        }
        // A single op adds up its last two gradients itself; two ops would do it twice, and a view
        // is of one tensor.
        let reads_a_sum = matches!(
            layer.compute,
            Compute::Convolution { .. }
                | Compute::Linear
                | Compute::MatrixProduct { .. }
                | Compute::View
                | Compute::Concat
        );
        if reads_a_sum && incoming.len() > 1 {
            incoming = vec![self.accumulate(id, incoming)];
        }
        let inputs: Vec<Value> = layer.inputs.iter().map(|input| self.outputs[input.0]).collect();
        let weight = layer.parameters.first().map(|id| self.parameters[*id]);
        match &layer.compute {
            Compute::Convolution { .. } | Compute::Linear => {
                self.parameter_gradient(id, inputs, &incoming);
                let weight = weight.into_iter().collect();
                self.input_gradients(id, "_ip_grad", weight, &incoming, &[0]);
            }
            Compute::MatrixProduct { .. } => {
                self.input_gradients(id, "_left_grad", vec![inputs[1]], &incoming, &[0]);
                self.input_gradients(id, "_right_grad", vec![inputs[0]], &incoming, &[1]);
            }
            Compute::Embedding => self.parameter_gradient(id, inputs, &incoming),
            compute => {
                let output = self.outputs[id];
                let saved = match compute {
                    Compute::BatchNorm | Compute::RowNorm => {
                        inputs.into_iter().chain(weight).collect()
                    }
                    Compute::Activation(activation) if activation.backward_reads_output() => {
                        vec![output]
                    }
                    Compute::Softmax => vec![output],
                    Compute::Activation(_) | Compute::Multiply => inputs,
                    Compute::Attention { .. } => inputs.into_iter().chain([output]).collect(),
                    Compute::MaxPool(_) if self.kept[id].is_none() => inputs,
                    _ => self.kept[id].into_iter().collect(),
                };
                let all: Vec<usize> = (0..layer.inputs.len()).collect();
                self.input_gradients(id, "_ip_grad", saved, &incoming, &all);
            }
        }
    }

    /// The op of a layer that makes the gradients of its parameters.
    fn parameter_gradient(&mut self, id: usize, mut reads: Vec<Value>, incoming: &[Value]) {
        reads.extend(incoming);
        let writes = self.new_parameter_gradients(id);
        let name = format!("{}_param_grad", self.network.layers[id].name);
        let work = backward_work(self.network, id, Pass::Parameters, incoming.len());
        let workspace = match self.network.layers[id].compute {
            Compute::Convolution { .. } => convolution_workspace(self.network, id),
            _ => 0,
        };
        let op = self.op(name, Phase::Backward, work);
        (op.reads, op.writes, op.workspace) = (reads, writes, workspace);
    }

    fn new_parameter_gradients(&mut self, id: usize) -> Vec<Value> {
        let network = self.network;
        let mut written = Vec::new();
        for &parameter in &network.layers[id].parameters {
            let Parameter { name, elements } = &network.parameters[parameter];
            let name = format!("{name}.grad");
            let value = self.tensor(name, *elements, network.dtype, Role::Gradient);
            self.parameter_gradients[parameter].push(value);
            written.push(value);
        }
        written
    }

    /// The op of a layer that makes the gradients of some of its inputs. Where the input is the
    /// network's own, a convolution's op is there all the same and does nothing, as in profiles.
    fn input_gradients(
        &mut self,
        id: usize,
        suffix: &str,
        mut reads: Vec<Value>,
        incoming: &[Value],
        which: &[usize],
    ) {
        reads.extend(incoming);
        let network = self.network;
        let layer = &network.layers[id];
        let wanted: Vec<LayerId> = (which.iter().map(|i| layer.inputs[*i]))
            .filter(|input| self.needs_gradient(*input))
            .collect();
        let separate = matches!(layer.compute, Compute::Convolution { .. } | Compute::Linear);
        let mut writes = Vec::new();
        for input in &wanted {
            let name = format!("{}.grad", network.layers[input.0].name);
            let count = elements(&network.layers[input.0].shape);
            let value = self.tensor(name, count, network.dtype, Role::Gradient);
            writes.push(value);
        }
        let over = match layer.compute {
            Compute::Activation(_) | Compute::Dropout { .. } | Compute::Add | Compute::Softmax => {
                writes.first().map(|first| (incoming[0], *first))
            }
            _ => None,
        };
        let made = writes.clone();
        if !separate {
            writes.extend(self.new_parameter_gradients(id));
        }
        let mut work = backward_work(network, id, Pass::Input, incoming.len());
        if wanted.is_empty() && separate {
            (work.flops, work.bytes) = (0, 0);
        }
        let workspace = match (&layer.compute, self.kept[id]) {
            (Compute::MaxPool(_), None) => elements(&layer.shape) * element_bytes(Dtype::I64),
            (Compute::Convolution { .. }, _) => convolution_workspace(network, id),
            _ => 0,
        };
        let views = matches!(layer.compute, Compute::View | Compute::Concat);
        let op = self.op(format!("{}{suffix}", layer.name), Phase::Backward, work);
        (op.reads, op.writes, op.over, op.views) = (reads, writes, over, views);
        op.workspace = workspace;
        for (input, value) in wanted.into_iter().zip(made) {
            self.gradients[input.0].push(value);
            // As autograd does, gradients are added up as they come in. The op that reads the sum
            // adds the last one itself.
            if self.gradients[input.0].len() > 2 {
                let mut waiting = std::mem::take(&mut self.gradients[input.0]);
                let last = waiting.pop();
                let sum = self.accumulate(input.0, waiting);
                self.gradients[input.0] = std::iter::once(sum).chain(last).collect();
            }
        }
    }

    /// Adds up gradients of one layer's output.
    fn accumulate(&mut self, id: usize, gradients: Vec<Value>) -> Value {
        let network = self.network;
        let layer = &network.layers[id];
        let count = elements(&layer.shape);
        let sum = self.tensor(format!("{}.grad", layer.name), count, network.dtype, Role::Gradient);
        let work = Work::sum(network, count, gradients.len());
        let op = self.op(format!("{}_accumulate", layer.name), Phase::Backward, work);
        op.over = Some((gradients[0], sum));
        (op.reads, op.writes) = (gradients, vec![sum]);
        sum
    }

    /// One op per layer that owns parameters. It writes over constants, which is no write of the
    /// trace, so it cannot be run again.
    fn update(&mut self) {
        let network = self.network;
        if network.optimizer == super::Optimizer::None {
            return;
        }
        let mut updated = vec![false; network.parameters.len()];
        for layer in &network.layers {
            let mut reads = Vec::new();
            let mut count = 0;
            for &parameter in &layer.parameters {
                if std::mem::replace(&mut updated[parameter], true)
                    || self.parameter_gradients[parameter].is_empty()
                {
                    continue;
                }
                let Parameter { name, elements } = &network.parameters[parameter];
                let master = u64::from(network.dtype != Dtype::F32);
                let figures = elements.saturating_mul(network.optimizer.moments() + master);
                if figures > 0 {
                    let (name, role) = (format!("{name}.optimizer"), Role::OptimizerState);
                    reads.push(self.tensor(name, figures, Dtype::F32, role));
                }
                reads.push(self.parameters[parameter]);
                reads.append(&mut self.parameter_gradients[parameter].clone());
                count += elements;
            }
            if count > 0 {
                let work = Work::update(network, count);
                let op = self.op(format!("{}_update", layer.name), Phase::Update, work);
                op.reads = reads;
            }
        }
    }
}

/// What the kernels of a convolution need beside their operands. The implicit products that run
/// in the recordings need no unrolled input, just a table of offsets: 4 bytes for each position
/// of the window in each input channel.
fn convolution_workspace(network: &Network, id: usize) -> u64 {
    let layer = &network.layers[id];
    let Compute::Convolution { window, groups } = &layer.compute else { return 0 };
    let channels = network.layers[layer.inputs[0].0].shape[1] / groups;
    channels.saturating_mul(window.volume()).saturating_mul(4)
}
