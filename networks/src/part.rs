//! What an op is of its layer.

/// What an op is of its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The layer itself.
    Forward,
    /// What keeps the running statistics of a normalisation.
    Running,
    /// The gradient of weights and what is added.
    Weights,
    /// The gradient of a table.
    Table,
    /// The gradient of the input.
    Input,
    /// The gradient of the left operand.
    Left,
    /// The gradient of the right operand.
    Right,
    /// All gradients.
    Whole,
    /// The sum of gradients.
    Sum,
    /// A copy of a gradient.
    Copy,
    /// The optimizer's step.
    Update,
}
