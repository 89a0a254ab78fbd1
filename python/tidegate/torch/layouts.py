"""How results of calls lie in memory where PyTorch says otherwise of them, as its kernels for the processor make them.

Whether a `reshape` is a view is decided while a graph is captured, by what is said of its input: where that is wrong, the graph has
a view that cannot be made, or adds up in another order than eager.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

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


_LAID: dict[torch._ops.OpOverload, Callable] = {
    **dict.fromkeys((_ATEN.mse_loss_backward.default, _ATEN.smooth_l1_loss_backward.default, _ATEN.huber_loss_backward.default), _rows),
    **dict.fromkeys((_ATEN.log_sigmoid_forward.default, _ATEN.glu_backward.default), _rows),
    _ATEN.log_sigmoid_backward.default: lambda _made, gradient, *_given: torch.empty_like(gradient),
    **dict.fromkeys((_ATEN.native_batch_norm.default, _ATEN._native_batch_norm_legit.no_stats), _format(0)),
    _ATEN._native_batch_norm_legit_functional.default: _format(0),
    _ATEN.native_batch_norm_backward.default: _format(1),
    **dict.fromkeys((_ATEN.roll.default, _ATEN.channel_shuffle.default), _format(0)),
}


@contextlib.contextmanager
def as_made() -> Iterator[None]:
    """Has fake tensors lie as the processor's kernels would make them."""
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
