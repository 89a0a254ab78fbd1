//! The backward ops of each layer in reverse order, as autograd engines run them, and the update.

use schema::Role;

use super::{Lowering, Value};
use crate::gradients::{Operand, Rule, Rules, rules};
use crate::initial::Initial;
use crate::layer::{Compute, Like, Parameter};
use crate::options::Optimizer;
use crate::part::Part;

impl Lowering<'_> {
    pub(super) fn backward(&mut self, id: usize) {
        let (network, by) = (self.network, self.by);
        let layer = &network.layers[id];
        let is_name = layer.compute == Compute::View && !by.views;
        if is_name || matches!(layer.compute, Compute::Input | Compute::Parameter) {
            return;
        }
        let output = self.outputs[id];
        let mut incoming = std::mem::take(&mut self.gradients[output]);
        let is_loss = layer.compute == Compute::Loss;
        // An output without a gradient has no influence on the loss.
        if incoming.is_empty() && !is_loss {
            return;
        }
        // A single op adds up its last two gradients itself; two ops would do it twice, and a view
        // is of one tensor.
        let reads_a_sum = matches!(
            layer.compute,
            Compute::Convolution { .. }
                | Compute::Deconvolution { .. }
                | Compute::Linear
                | Compute::MatrixProduct { .. }
                | Compute::View
                | Compute::Concat
                | Compute::Other(_)
        );
        if reads_a_sum && incoming.len() > 1 {
            incoming = vec![self.sum(id, output, incoming)];
        }
        let shape = |index: usize| {
            layer.inputs.get(index).map_or(&[][..], |input| &network.layers[input.0].shape)
        };
        let Rules { ops, hands_on } = rules(layer, [shape(0), shape(1)], by, &network.options);
        for rule in ops {
            self.gradient_op(id, &rule, &incoming);
        }
        let inputs = self.inputs_of(id);
        for index in hands_on {
            self.arrive(id, inputs[index], incoming[0]);
        }
    }

    fn values(&self, id: usize, operand: Operand, incoming: &[Value]) -> Vec<Value> {
        match operand {
            Operand::Input(index) => vec![self.inputs_of(id)[index]],
            Operand::Inputs => self.inputs_of(id),
            Operand::Weight => self.parameters_of(id).into_iter().take(1).collect(),
            Operand::Parameters => self.parameters_of(id),
            Operand::Output => vec![self.outputs[id]],
            Operand::Kept => self.kept[id].into_iter().collect(),
            Operand::Labels => self.labels.into_iter().collect(),
            Operand::Gradient => incoming.to_vec(),
        }
    }

    /// Whether a value is to have a gradient.
    fn needs_gradient(&self, value: Value) -> bool {
        self.trained[value]
    }

    fn gradient_op(&mut self, id: usize, rule: &Rule, incoming: &[Value]) {
        let (network, by) = (self.network, self.by);
        let layer = &network.layers[id];
        let all = |operands: &[Operand]| -> Vec<Value> {
            operands.iter().flat_map(|operand| self.values(id, *operand, incoming)).collect()
        };
        let (reads, mut of) = (all(&rule.reads), all(&rule.of));
        let needed = of.iter().any(|value| self.needs_gradient(*value));
        match by.prunes {
            // A kernel makes all of its gradients or none.
            true if !needed => return,
            true => {}
            // What is frozen has no gradient, and no op.
            false if !needed && network.options.lora.is_some() => return,
            // The op is there all the same, as in profiles.
            false => of.retain(|value| self.needs_gradient(*value)),
        }
        let writes: Vec<Value> = of.iter().map(|value| self.gradient(*value, "grad")).collect();
        let over = by.overlays(&layer.compute, rule.part, &network.options);
        let over = incoming.first().filter(|_| over).zip(writes.first());
        let over = over.map(|(input, output)| (*input, *output));
        let workspace = self.workspace(id);
        let mut work = self.costs.backward(id, rule.part, incoming.len());
        if rule.part == Part::Input && writes.is_empty() {
            // The gradient of what the iteration is given: nothing is done.
            (work.flops, work.bytes) = (0, 0);
        }
        let name = by.gradient_op(layer, rule.part);
        let views = by.views
            && match layer.compute {
                Compute::View | Compute::Concat => true,
                Compute::Other(other) => other.like == Like::View,
                _ => false,
            };
        let op = self.op(name, id, rule.part, work);
        (op.reads, op.writes, op.over) = (reads, writes.clone(), over);
        (op.views, op.workspace) = (views, workspace);
        for (value, gradient) in of.into_iter().zip(writes) {
            self.arrive(id, value, gradient);
        }
    }

    /// A tensor for the gradient of a value.
    fn gradient(&mut self, of: Value, what: &str) -> Value {
        let tensor = &self.tensors[of];
        let (name, count) = (format!("{}.{what}", tensor.name), tensor.elements as u64);
        self.tensor(name, count, self.float(), Role::Gradient)
    }

    /// Takes note of a gradient, where one is needed.
    fn arrive(&mut self, id: usize, of: Value, gradient: Value) {
        if !self.needs_gradient(of) {
            return;
        }
        self.gradients[of].push(gradient);
        // As autograd does, gradients are added up as they come in. Where sums are fused, the op
        // that reads the sum adds the last one itself.
        let most = if self.by.fused_sums { 2 } else { 1 };
        if self.gradients[of].len() <= most {
            return;
        }
        let mut waiting = std::mem::take(&mut self.gradients[of]);
        if self.by.fused_sums {
            let last = waiting.pop();
            let sum = self.sum(id, of, waiting);
            self.gradients[of] = std::iter::once(sum).chain(last).collect();
            return;
        }
        if waiting[0] == waiting[1] {
            // Sums hand their gradient on, so that it may come back twice; an op reads it once.
            let (name, _) = self.by.sum(&self.tensors[of].name);
            let copy = self.gradient(of, "grad.copy");
            let work = self.costs.copy(self.tensors[of].elements as u64);
            let op = self.op(format!("{name}.copy"), id, Part::Copy, work);
            (op.reads, op.writes) = (vec![gradient], vec![copy]);
            waiting[1] = copy;
        }
        // The one that has come last is the one that the sum may be laid over.
        waiting.reverse();
        self.gradients[of] = vec![self.sum(id, of, waiting)];
    }

    /// Adds up gradients of a value.
    fn sum(&mut self, id: usize, of: Value, gradients: Vec<Value>) -> Value {
        let tensor = &self.tensors[of];
        let (count, (name, total)) = (tensor.elements as u64, self.by.sum(&tensor.name));
        let sum = self.tensor(total, count, self.float(), Role::Gradient);
        let work = self.costs.sum(count, gradients.len());
        let op = self.op(name, id, Part::Sum, work);
        op.over = Some((gradients[0], sum));
        (op.reads, op.writes) = (gradients, vec![sum]);
        sum
    }

    /// The first layer that has each parameter: all gradients of it are there when that layer's backward
    /// ops have run.
    pub(super) fn first_layers(&self) -> Vec<usize> {
        let mut first = vec![usize::MAX; self.network.parameters.len()];
        for (id, layer) in self.network.layers.iter().enumerate().rev() {
            layer.parameters.iter().for_each(|parameter| first[*parameter] = id);
        }
        first
    }

    /// What the optimizer does to each parameter that has a gradient, and that this layer is the first to
    /// have.
    pub(super) fn update(&mut self, id: usize, first: &[usize]) {
        let network = self.network;
        if network.optimizer == Optimizer::None {
            return;
        }
        let layer = &network.layers[id];
        let (mut reads, mut count) = (Vec::new(), 0);
        for &parameter in &layer.parameters {
            let Some(value) = self.parameters[parameter].filter(|_| first[parameter] == id) else {
                continue;
            };
            let gradients = std::mem::take(&mut self.gradients[value]);
            if gradients.is_empty() {
                continue;
            }
            let Parameter { name, elements } = &network.parameters[parameter];
            let state = self.state(name, *elements);
            if self.by.joint_updates {
                reads.extend(state.into_iter().chain([value]).chain(gradients));
                count += elements;
                continue;
            }
            let work = self.costs.update(*elements);
            let op = self.op(format!("{name}.update"), id, Part::Update, work);
            op.updates = [value].into_iter().chain(state).collect();
            op.reads = gradients;
        }
        if count > 0 {
            let work = self.costs.update(count);
            self.op(format!("{}_update", layer.name), id, Part::Update, work).reads = reads;
        }
    }

    fn state(&mut self, parameter: &str, elements: u64) -> Option<Value> {
        let network = self.network;
        let (what, figures) = self.by.state(network, elements);
        let name = format!("{parameter}.{what}");
        let initial = Initial::Constant(0.0);
        (figures > 0).then(|| self.constant(name, figures, Role::OptimizerState, initial))
    }
}
