//! What frameworks do differently with the same network.

use schema::{Dtype, Framework};

use super::layer::{Compute, Layer, Network};
use super::options::{Activation, NetworkOptions, Optimizer};
use super::part::Part;

/// What frameworks do differently with the same network: what is kept for the backward pass, which
/// gradients are ops of their own, and how long tensors live. The lowering asks for nothing else,
/// so that another framework is another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conventions {
    /// The type of tokens, labels and positions.
    pub index: Dtype,
    /// Parameters come before all else, or each before the layer that has it.
    pub parameters_first: bool,
    /// Reshaping is an op that yields a view, and so are the parts of a concatenation's gradient;
    /// else a view is a name, and the parts are copied.
    pub views: bool,
    /// Where an op wants the same tensor twice, the second is a copy; else it reads it once.
    pub distinct: bool,
    /// Normalisations and attention keep their statistics, and running statistics are an op; else
    /// statistics are under a thousandth of what is beside them, and no tensors.
    pub statistics: bool,
    /// Max pooling keeps the positions of its maxima whatever the options say.
    pub positions: bool,
    /// Dropout keeps a mask; else it draws again from a seed.
    pub masks: bool,
    /// The loss is one op that leaves the gradient of the logits behind; else its backward is an
    /// op.
    pub fused_loss: bool,
    /// The op that reads a gradient adds up to two that arrive; else each sum is an op.
    pub fused_sums: bool,
    /// The backward of a sum or an elementwise product is one op that makes all gradients; else a
    /// sum hands its gradient on, and each gradient of a product is an op.
    pub joint_gradients: bool,
    /// The backward of a sum copies its gradient for one of the two inputs, as Caffe's does and MONeT's
    /// profiles have it; else both are handed the same, which takes no time.
    pub copies_sums: bool,
    /// The gradients of activations, dropouts and softmax are laid over those of their outputs. PyTorch's
    /// are tensors of their own (`threshold_backward`, `native_dropout_backward`,
    /// `_softmax_backward_data` and the like), and what they are made from is there until they are.
    pub gradients_over: bool,
    /// Only what a parameter is below gets a gradient; else all but what the iteration is given.
    pub prunes: bool,
    /// Activations keep what the modules of a framework do: a clamp (ReLU6) its input, of which there is a
    /// copy where the output is laid over it; a GELU that a model writes out what its steps make
    /// ([`Network::writes_gelu_out`]). Else one kernel computes each, from its input or its output.
    pub module_activations: bool,
    /// ReLU that is not in place keeps its input; else its output.
    pub relu_keeps_input: bool,
    /// A layer's parameters are updated by one op; else each by its own.
    pub joint_updates: bool,
    /// The loss, and without an optimizer the gradients, are there when the iteration has ended.
    pub keeps_results: bool,
    /// Every output and every gradient is a blob that is there until the iteration has ended. A
    /// normalisation has its gradient over the one of its output, and a sum lies over no input.
    pub blobs: bool,
    /// Everything is of the network's type. Else activations and gradients are of 32 bits, or of
    /// 16 where the options choose them, and parameters, statistics and the loss of 32.
    pub uniform: bool,
    /// Convolutions may go Winograd's way in kernels of their own for its transforms. Otherwise one kernel does all
    /// of it: the libraries of 2020 were asked for what their heuristics said, which was that.
    pub winograd_apart: bool,
    /// Arithmetic of 32 bits may be left to matrix units, as the options choose.
    pub tf32: bool,
}

impl Conventions {
    /// PyTorch's autograd, with ops cut as the profiles of MONeT have them: the backward of a
    /// convolution or a linear layer is two ops, first `_param_grad`, which reads the layer's
    /// input, then `_ip_grad`, which reads its weights; each other backward is one op.
    pub const PYTORCH: Self = Self {
        index: Dtype::I64,
        parameters_first: true,
        views: true,
        distinct: false,
        statistics: false,
        positions: false,
        masks: true,
        fused_loss: true,
        fused_sums: true,
        joint_gradients: true,
        copies_sums: false,
        gradients_over: false,
        prunes: false,
        module_activations: true,
        relu_keeps_input: false,
        joint_updates: true,
        keeps_results: false,
        blobs: false,
        uniform: true,
        winograd_apart: true,
        tf32: true,
    };

    /// PyTorch of 2020 (1.5), of which the older recordings are.
    pub const PYTORCH_1_5: Self =
        Self { relu_keeps_input: true, winograd_apart: false, tf32: false, ..Self::PYTORCH };

    /// The same as MONeT's profiles of it have it.
    pub const MONET: Self = Self { copies_sums: true, gradients_over: true, ..Self::PYTORCH_1_5 };

    /// Caffe: as [`Conventions::PYTORCH`], but that each blob has its data and its diff for the whole
    /// iteration, and each parameter a diff and a history (`blob.hpp`, `sgd_solver.cpp`). ReLU is in place;
    /// so is batch norm, which then keeps what it normalised in a blob of its own (`x_norm_`): its
    /// data are two here, and its diff one. A split's copies share their data (`split_layer.cpp`); their diffs
    /// are added up here in the blob that they are of. Max pooling is Caffe's own whatever the engine, as cuDNN's would
    /// not do with layers in place (`layer_factory.cpp`): it keeps where its maxima are (`max_idx_`) and no input.
    pub const CAFFE: Self = Self {
        blobs: true,
        index: Dtype::I32,
        positions: true,
        copies_sums: true,
        gradients_over: true,
        tf32: false,
        ..Self::PYTORCH
    };

    /// Chainer, as PooCH's authors ran it: as [`Conventions::PYTORCH`], but that the gradients of
    /// activations are supposed to lie over those of their outputs. No paper says so. With gradients
    /// of their own, SuperNeurons' plan for ResNet50 at batch 512 (table 3) does not fit the memory
    /// that it ran in: a what-if of PooCH's study.
    pub const CHAINER: Self = Self { gradients_over: true, ..Self::PYTORCH };

    /// What the runtime that comes with tidegate runs: one kernel for each op.
    pub const TIDEGATE: Self = Self {
        index: Dtype::I32,
        parameters_first: false,
        views: false,
        distinct: true,
        statistics: true,
        positions: true,
        masks: false,
        fused_loss: false,
        fused_sums: false,
        joint_gradients: false,
        copies_sums: false,
        gradients_over: true,
        prunes: true,
        module_activations: false,
        relu_keeps_input: false,
        joint_updates: false,
        keeps_results: true,
        blobs: false,
        uniform: false,
        winograd_apart: false,
        tf32: false,
    };

    /// Those of a framework whose ops no kernels here run, or of the runtime.
    pub fn of(framework: Framework) -> &'static Self {
        match framework {
            Framework::Pytorch => &Self::PYTORCH,
            Framework::Caffe => &Self::CAFFE,
            Framework::Chainer => &Self::CHAINER,
            Framework::Tidegate => &Self::TIDEGATE,
        }
    }

    /// Whether max pooling keeps the positions of its maxima, or its input.
    pub(crate) fn keeps_positions(&self, options: &NetworkOptions) -> bool {
        self.positions || options.pool_indices
    }

    /// Whether the backward of an activation reads its output, or its input.
    pub(crate) fn reads_output(&self, activation: Activation, in_place: bool) -> bool {
        let keeps_input = match activation {
            Activation::Relu6 => self.module_activations,
            Activation::Relu => self.relu_keeps_input && !in_place,
            _ => false,
        };
        activation.backward_reads_output() && !keeps_input
    }

    /// The name of a backward op.
    pub(crate) fn gradient_op(&self, layer: &Layer, part: Part) -> String {
        let suffix = match (self.joint_updates, part) {
            (true, Part::Weights | Part::Table) => "_param_grad",
            (true, Part::Left) => "_left_grad",
            (true, Part::Right) => "_right_grad",
            (true, _) => "_ip_grad",
            (false, Part::Weights) => ".backward.weights",
            (false, Part::Input) => ".backward.input",
            (false, Part::Left) => ".backward.left",
            (false, Part::Right) => ".backward.right",
            (false, _) => ".backward",
        };
        format!("{}{suffix}", layer.name)
    }

    /// The names of the op that adds up gradients of a tensor, and of the sum.
    pub(crate) fn sum(&self, of: &str) -> (String, String) {
        match self.fused_sums {
            true => (format!("{of}_accumulate"), format!("{of}.grad")),
            false => (format!("{of}.accumulate"), format!("{of}.grad.total")),
        }
    }

    /// What the optimizer keeps for a parameter of so many elements: its name, and its figures or, where they
    /// have other than 32 bits, how many of 32 take as much.
    pub(crate) fn state(&self, network: &Network, elements: u64) -> (&str, u64) {
        let optimizer = network.optimizer;
        let moments = elements.saturating_mul(optimizer.moments());
        match (self.uniform, optimizer) {
            (true, _) => {
                let narrow = network.dtype != Dtype::F32;
                let master = network.options.master_weights && narrow;
                let moments = match optimizer {
                    Optimizer::Adam8bit => (moments + moments.div_ceil(256) * 4).div_ceil(4),
                    _ if narrow && !master => moments.div_ceil(2),
                    _ => moments,
                };
                // A copy of 32 bits where parameters have fewer.
                ("optimizer", moments.saturating_add(if master { elements } else { 0 }))
            }
            // Adam counts its steps in a cell of their own.
            (false, Optimizer::Adam) => ("moments", moments.saturating_add(1)),
            (false, _) => ("momentum", moments),
        }
    }

    /// Whether an op of a layer may lay its output over what it reads first (forward), or over the
    /// gradient of its output (backward).
    pub(crate) fn overlays(&self, compute: &Compute, part: Part, options: &NetworkOptions) -> bool {
        use super::layer::Fixed;
        let forward = part == Part::Forward;
        match (compute, self.joint_gradients) {
            (Compute::Dropout { .. } | Compute::Softmax | Compute::Activation(_), _)
                if !forward =>
            {
                self.gradients_over
            }
            (Compute::Activation(activation), true) => {
                options.in_place && self.reads_output(*activation, true)
            }
            (Compute::Activation(_), false) => true,
            (Compute::Dropout { .. } | Compute::Softmax, joint) => !joint,
            (Compute::Add, true) => !forward || options.in_place && !self.blobs,
            (Compute::BatchNorm, _) => self.blobs && !forward,
            (Compute::Fixed(Fixed::Rotary { .. }), false) => true,
            (Compute::Add, false) => forward,
            (Compute::Multiply, false) => forward || part == Part::Left,
            _ => false,
        }
    }
}
