"""How results of calls lie in memory where PyTorch says otherwise of them, as its kernels for the processor make them.

Whether a `reshape` is a view is decided while a graph is captured, by what is said of its input: where that is wrong, the graph has
a view that cannot be made, or adds up in another order than eager.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

_ATEN = torch.ops.aten

_Made = tuple | torch.Tensor


def _rows(made: _Made, *_given: object) -> _Made:
    return pytree.tree_map_only(torch.Tensor, lambda each: torch.empty_like(each, memory_format=torch.contiguous_format), made)


def _format(place: int) -> Callable:
    """The first result lies row by row, or channels last where the argument of this place does."""

    def laid(made: _Made, *given: object) -> _Made:
        first, *rest = made if isinstance(made, tuple) else (made,)
        first = first if first is None else torch.empty_like(first, memory_format=suggest_memory_format(given[place]))
        return (first, *rest) if isinstance(made, tuple) else first

    return laid


def _like(place: int) -> Callable:
    """A result of this argument's size lies as it does."""
    return lambda made, *given: torch.empty_like(given[place], dtype=made.dtype) if made.shape == given[place].shape else made


def _sum(*places: int) -> Callable:
    """The results lie as the sum of these arguments would."""

    def laid(made: _Made, *given: object) -> _Made:
        strides = _ATEN.add.Tensor(*(given[place] for place in places)).stride()
        return pytree.tree_map_only(torch.Tensor, lambda each: each.new_empty_strided(each.shape, strides), made)

    return laid


_LAID: dict[torch._ops.OpOverload, Callable] = {
    **dict.fromkeys((_ATEN.mse_loss_backward.default, _ATEN.smooth_l1_loss_backward.default, _ATEN.huber_loss_backward.default), _rows),
    **dict.fromkeys((_ATEN.log_sigmoid_forward.default, _ATEN.glu_backward.default), _rows),
    _ATEN.log_sigmoid_backward.default: lambda _made, gradient, *_given: torch.empty_like(gradient),
    **dict.fromkeys((_ATEN.native_batch_norm.default, _ATEN._native_batch_norm_legit.no_stats), _format(0)),
    **dict.fromkeys((_ATEN._native_batch_norm_legit_functional.default, _ATEN._batch_norm_with_update_functional.default), _format(0)),
    **dict.fromkeys((_ATEN.native_batch_norm_backward.default, _ATEN.batch_norm_backward.default), _format(1)),
    **dict.fromkeys((_ATEN.softplus_backward.default, _ATEN.hardtanh_backward.default, _ATEN.hardswish_backward.default), _sum(0, 1)),
    **dict.fromkeys((_ATEN.hardsigmoid_backward.default, _ATEN.logit_backward.default, _ATEN.native_dropout_backward.default), _sum(0, 1)),
    _ATEN.elu_backward.default: _sum(0, 5),
    **dict.fromkeys((_ATEN.leaky_relu_backward.default, _ATEN.threshold_backward.default, _ATEN._prelu_kernel_backward.default), _sum(1, 0)),
    _ATEN.rrelu_with_noise_backward.default: _sum(2, 0),
    _ATEN.binary_cross_entropy.default: _like(0),
    _ATEN.binary_cross_entropy_backward.default: _like(1),
    _ATEN._log_softmax_backward_data.default: _rows,
    _ATEN.native_layer_norm_backward.default: _rows,
    **dict.fromkeys((_ATEN.reflection_pad2d.default, _ATEN.replication_pad2d.default), _format(0)),
    **dict.fromkeys((_ATEN.reflection_pad2d_backward.default, _ATEN.replication_pad2d_backward.default), _format(1)),
    **dict.fromkeys((_ATEN.roll.default, _ATEN.channel_shuffle.default), _format(0)),
}


def on_processor(inputs: Iterable) -> bool:
    """Whether all tensors of a graph's inputs are there."""
    return all(leaf.device.type == "cpu" for leaf in inputs if isinstance(leaf, torch.Tensor))


@contextlib.contextmanager
def as_made(here: bool) -> Iterator[None]:
    """Has fake tensors lie as the processor's kernels would make them, where that is what makes them."""
    if not here:
        yield
        return
    said = FakeTensorMode.__torch_dispatch__

    def corrected(mode: FakeTensorMode, call: object, types: object, given: tuple = (), keywords: dict | None = None) -> object:
        made = said(mode, call, types, given, keywords)
        how = _LAID.get(call)
        if how is None:
            return made
        with mode:
            return how(made, *given)

    FakeTensorMode.__torch_dispatch__ = corrected
    try:
        yield
    finally:
        FakeTensorMode.__torch_dispatch__ = said
