//! The autodiff: of each layer, which backward ops there are, what they read and whose gradients
//! they make.

use super::conventions::Conventions;
use super::layer::{Compute, Layer, Saves, elements};
use super::options::NetworkOptions;
use super::part::Part;

/// Something that a backward op of a layer reads, or makes the gradient of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// One of the layer's inputs.
    Input(usize),
    Inputs,
    Weight,
    Parameters,
    Output,
    /// What it keeps beside, where it does: a mask, a seed, positions, statistics, probabilities.
    Kept,
    /// What the loss compares with.
    Labels,
    /// The gradient of the output.
    Gradient,
}

/// One backward op.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub part: Part,
    /// In the order of the kernel's operands.
    pub reads: Vec<Operand>,
    /// Whose gradients it makes, in the order in which it writes them.
    pub of: Vec<Operand>,
}

/// What backward is of a layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// The ops, in their order.
    pub ops: Vec<Rule>,
    /// The inputs that have the output's gradient as it is, after the ops.
    pub hands_on: Vec<usize>,
}

fn op(part: Part, reads: &[Operand], of: &[Operand]) -> Rule {
    Rule { part, reads: reads.to_vec(), of: of.to_vec() }
}

/// The backward ops of a layer.
pub(crate) fn rules(
    layer: &Layer,
    shapes: [&[u64]; 2],
    by: &Conventions,
    options: &NetworkOptions,
) -> Rules {
    use Operand::{Gradient, Input, Inputs, Kept, Labels, Output, Parameters, Weight};
    // One op that makes all gradients, from what was saved and the gradient of the output.
    let whole = |saved: &[Operand]| {
        vec![op(Part::Whole, &[saved, &[Gradient]].concat(), &[Inputs, Parameters])]
    };
    let two = |first, second| vec![first, second];
    let ops = match &layer.compute {
        Compute::Input | Compute::Parameter => vec![],
        Compute::Convolution { .. } | Compute::Deconvolution { .. } | Compute::Linear => two(
            op(Part::Weights, &[Input(0), Gradient], &[Parameters]),
            op(Part::Input, &[Weight, Gradient], &[Input(0)]),
        ),
        Compute::MatrixProduct { .. } => two(
            op(Part::Left, &[Input(1), Gradient], &[Input(0)]),
            op(Part::Right, &[Input(0), Gradient], &[Input(1)]),
        ),
        Compute::Embedding => vec![op(Part::Table, &[Input(0), Gradient], &[Parameters])],
        Compute::BatchNorm | Compute::RowNorm => whole(&[Input(0), Weight, Kept]),
        Compute::Activation(activation) if by.reads_output(*activation, options.in_place) => {
            whole(&[Output])
        }
        Compute::Activation(_) => whole(&[Input(0), Kept]),
        Compute::Softmax => whole(&[Output]),
        Compute::Attention { .. } => whole(&[Inputs, Output, Kept]),
        Compute::MaxPool(_) if by.keeps_positions(options) => whole(&[Kept]),
        Compute::MaxPool(_) => whole(&[Input(0)]),
        Compute::Dropout { .. } if by.masks => whole(&[Kept]),
        Compute::Dropout { .. } => vec![op(Part::Whole, &[Gradient, Kept], &[Input(0)])],
        Compute::Multiply if by.joint_gradients => whole(&[Inputs]),
        Compute::Multiply => two(
            op(Part::Right, &[Input(0), Gradient], &[Input(1)]),
            op(Part::Left, &[Gradient, Input(1)], &[Input(0)]),
        ),
        Compute::Add if by.joint_gradients => whole(&[]),
        Compute::Add if elements(shapes[0]) == elements(shapes[1]) => {
            return Rules { ops: vec![], hands_on: vec![0, 1] };
        }
        Compute::Add => {
            let ops = vec![op(Part::Right, &[Gradient], &[Input(1)])];
            return Rules { ops, hands_on: vec![0] };
        }
        Compute::Other(other) => match other.saves {
            Saves::Nothing => whole(&[]),
            Saves::Inputs => whole(&[Inputs]),
            Saves::First => whole(&[Input(0)]),
            Saves::Last => whole(&[Input(layer.inputs.len() - 1)]),
            Saves::Output => whole(&[Output]),
        },
        Compute::View if !by.views => vec![],
        Compute::Loss if by.fused_loss => vec![],
        Compute::Loss => vec![op(Part::Whole, &[Kept, Labels], &[Input(0)])],
        Compute::AveragePool(_)
        | Compute::AdaptivePool
        | Compute::Concat
        | Compute::View
        | Compute::Movement(_)
        | Compute::Upsample
        | Compute::Fixed(_) => whole(&[]),
    };
    Rules { ops, hands_on: vec![] }
}
