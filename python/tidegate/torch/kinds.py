"""What an op computes, in the words of trace documents."""

from __future__ import annotations

# The first that a call's name contains wins: `native_layer_norm_backward` is a normalisation.
_KINDS = [
    ("attention", ("scaled_dot_product", "flash_attention", "efficient_attention", "flex_attention")),
    ("convolution", ("convolution", "conv2d", "conv_transpose")),
    ("normalisation", ("_norm", "batch_norm")),
    ("pooling", ("pool",)),
    ("dropout", ("dropout", "bernoulli", "rand")),
    ("loss", ("nll_loss", "mse_loss", "cross_entropy", "smooth_l1", "binary_cross")),
    ("softmax", ("softmax",)),
    ("embedding", ("embedding", "index_select", "gather")),
    ("matrix_product", ("mm", "matmul", "addbmm", "baddbmm", "linear", "dot", "einsum")),
    ("activation", ("relu", "gelu", "silu", "sigmoid", "tanh", "threshold", "hardtanh", "hardswish", "elu", "mish")),
    ("movement", ("cat", "copy", "clone", "pad", "stack", "index", "scatter", "slice", "select", "flip", "roll",
                  "repeat", "constant", "full", "zeros", "ones", "empty", "arange", "upsample", "split")),
    ("elementwise", ("add", "sub", "mul", "div", "pow", "sqrt", "exp", "log", "neg", "abs", "where", "clamp", "sum",
                     "mean", "var", "max", "min", "eq", "ne", "lt", "gt", "le", "ge", "sin", "cos", "masked", "cum")),
]


def kind(name: str) -> str:
    """The kind of the call of this name, such as `mm`."""
    for found, parts in _KINDS:
        if any(part in name for part in parts):
            return found
    return "other"
