//! What is assumed of ops that no recording has: what a fit begins with, and keeps where nothing tells.

use std::collections::BTreeMap;

use super::class::{Class, Pass};
use super::efficiency::{Efficiencies, Efficiency};

impl Efficiencies {
    /// What is assumed where no recording tells.
    pub fn assumed() -> Self {
        let of = |class| {
            let (compute, bandwidth, why) = shares(class);
            let source = format!("assumed: {why}");
            (class, Efficiency { compute, bandwidth, kernels: 1.0, source })
        };
        Self {
            launch_ns: 2_000,
            dispatch_ns: 12_000,
            half_depth: 16.0,
            convolution_half_depth: 32.0,
            unit_half_depth: 64.0,
            waves: 0.5,
            sides: 0.5,
            convolution_sides: 0.4,
            cached: 0.0,
            untuned: 0.55,
            recordings: Vec::new(),
            band: BTreeMap::new(),
            class: Class::all().into_iter().map(of).collect(),
            without: BTreeMap::new(),
        }
    }
}

/// Shares of operations and of bandwidth.
fn shares(class: Class) -> (f64, f64, &'static str) {
    use Pass::Forward;
    let streamed = "each operand is read and written once, in order";
    let strided = "what is read again is not always in a cache, or threads have too little to do";
    match class {
        Class::Pointwise(_) | Class::Square(_) | Class::Window(_) | Class::Matrix => {
            (0.8, 0.7, "as libraries' large products reach")
        }
        Class::Matrix16 | Class::MatrixTf32 => {
            (0.6, 0.6, "about what large training runs print of single products")
        }
        Class::Convolution16 | Class::ConvolutionTf32 => {
            (0.3, 0.6, "half of what products do: operands are gathered")
        }
        Class::Grouped(_) => (0.3, 0.3, "a third of what ungrouped ones reach"),
        Class::Depthwise(Pass::Parameters) => (0.15, 0.1, strided),
        Class::Depthwise(_) => (0.3, 0.3, strided),
        Class::Attention(Forward) => {
            (0.45, 0.6, "FlashAttention-2 prints 50 to 73 % of an A100 with long sequences")
        }
        Class::Attention(_) => (0.35, 0.6, "FlashAttention-2 prints 50 to 63 % backward"),
        Class::Elementwise(_) => (0.7, 0.85, streamed),
        Class::Dropout(_) | Class::Movement | Class::Softmax(_) => (0.7, 0.75, streamed),
        Class::BatchNorm(_) => (0.7, 0.65, "two passes over a tensor"),
        Class::BatchNorm16(_) => (0.7, 0.3, "PyTorch's own kernels, a block for each channel"),
        Class::RowNorm(Forward) => (0.7, 0.6, "two passes over a row"),
        Class::RowNorm(_) => (0.7, 0.5, "two passes over a row"),
        Class::MaxPool(Forward) | Class::Upsample(_) => (0.7, 0.6, strided),
        Class::MaxPool(_) | Class::MaxPoolIndices => (0.7, 0.35, strided),
        Class::AveragePool(Forward) => (0.7, 0.3, strided),
        Class::AveragePool(_) | Class::GlobalPool(Forward) => (0.7, 0.15, strided),
        Class::GlobalPool(_) | Class::AdaptivePool(_) => (0.7, 0.05, strided),
        Class::View => (1.0, 1.0, "nothing moves"),
        Class::Embedding(_) | Class::Loss => (0.7, 0.4, strided),
        Class::Optimizer => (0.7, 0.6, streamed),
    }
}
