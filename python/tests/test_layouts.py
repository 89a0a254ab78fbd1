"""Fake tensors lie in memory as what the processor's kernels really make."""

import itertools

import pytest

torch = pytest.importorskip("torch")

from tidegate.torch import layouts  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

ATEN = torch.ops.aten
SHAPE = (4, 8, 6, 10)
# Values between 0 and 1 of one shape, row by row and otherwise.
LAID = {
    "rows": lambda: torch.rand(SHAPE),
    "channels last": lambda: torch.rand(SHAPE).contiguous(memory_format=torch.channels_last),
    "transposed": lambda: torch.rand(4, 8, 10, 6).transpose(2, 3),
    "every other": lambda: torch.rand(4, 8, 6, 20)[..., ::2],
    "expanded": lambda: torch.rand(4, 1, 6, 10).expand(SHAPE),
}
ONES = torch.ones(8)
STATISTICS = (ONES, ONES, torch.zeros(8), ONES)
CALLS = {
    "softplus": lambda g, x: ATEN.softplus_backward.default(g, x, 1.0, 20.0),
    "hardtanh": lambda g, x: ATEN.hardtanh_backward.default(g, x, -1.0, 1.0),
    "hardswish": lambda g, x: ATEN.hardswish_backward.default(g, x),
    "hardsigmoid": lambda g, x: ATEN.hardsigmoid_backward.default(g, x),
    "logit": lambda g, x: ATEN.logit_backward.default(g, x, None),
    "dropout": lambda g, x: ATEN.native_dropout_backward.default(g, x > 0.5, 2.0),
    "elu": lambda g, x: ATEN.elu_backward.default(g, 1.0, 1.0, 1.0, False, x),
    "leaky relu": lambda g, x: ATEN.leaky_relu_backward.default(g, x, 0.1, False),
    "threshold": lambda g, x: ATEN.threshold_backward.default(g, x, 0),
    "prelu": lambda g, x: ATEN._prelu_kernel_backward.default(g, x, torch.rand(1, 8, 1, 1).expand(SHAPE)),
    "rrelu": lambda g, x: ATEN.rrelu_with_noise_backward.default(g, x, torch.empty_like(x), 0.1, 0.3, True, False),
    "log softmax": lambda g, x: ATEN._log_softmax_backward_data.default(g, x, 1, torch.float),
    "layer norm": lambda g, x: ATEN.native_layer_norm_backward.default(
        g, x, [10], torch.zeros(4, 8, 6, 1), torch.ones(4, 8, 6, 1), torch.ones(10), torch.ones(10), [True] * 3),
    "cross entropy": lambda g, x: ATEN.binary_cross_entropy.default(g, x, None, 0),
    "cross entropy's mean": lambda g, x: ATEN.binary_cross_entropy.default(g, x),
    "cross entropy's gradient": lambda g, x: ATEN.binary_cross_entropy_backward.default(g, x, x, None, 0),
    "batch norm": lambda _, x: ATEN._batch_norm_with_update_functional.default(x, *STATISTICS, 0.1, 1e-5),
    "batch norm's gradient": lambda g, x: ATEN.batch_norm_backward.default(
        g, x, ONES, *STATISTICS[2:], ONES, ONES, True, 1e-5, [True] * 3, torch.empty(0, dtype=torch.uint8)),
    "sum": lambda _, x: ATEN.sum.dim_IntList(x, [1, 3]),
    "mean": lambda _, x: ATEN.mean.dim(x, [0, 2], True),
    "cat": lambda g, x: ATEN.cat.default([g, x], 2),
    "reflection": lambda _, x: ATEN.reflection_pad2d.default(x, [1] * 4),
    "replication": lambda _, x: ATEN.replication_pad2d.default(x, [1] * 4),
    "reflection's gradient": lambda g, x: ATEN.reflection_pad2d_backward.default(torch.cat([g, g], 3)[..., :8, :12], x[..., :4, :10], [1, 1, 2, 0]),
}  # fmt: skip


def strides(made):
    """Of dimensions that have any."""
    made = made if isinstance(made, tuple) else (made,)
    return [[stride for stride, length in zip(each.stride(), each.shape) if length > 1] for each in made]


@pytest.mark.parametrize("name", CALLS)
def test_results_lie_as_the_kernels_make_them(name):
    for gradient, values in itertools.product(LAID, LAID):
        given = LAID[gradient](), LAID[values]()
        with layouts.as_made(True), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = strides(CALLS[name](*map(mode.from_tensor, given)))
        assert fake == strides(CALLS[name](*given)), (gradient, values)
