"""Calls that PyTorch captures in a form of its own, captured as eager computes them.

PyTorch writes recurrent layers, interpolations and a few functions in Python as ops of other kinds, whose last bits are not
eager's, and which leave out the dropout between recurrent layers. What eager calls is captured instead.

Of eager's LSTM kernel on the processor, backward reads what forward noted for it, which forward leaves out where gradients are
switched off, as they are while a captured graph runs, and whose size no fake tensor has. So the kernel has a name of its own
here, under which it notes in any case, and its notes' size is that of a call.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from functools import cache

import torch
from torch import fx
from torch._dispatch.python import no_python_dispatcher
from torch._functorch import config as functorch_config
from torch._higher_order_ops.effects import _get_effect, _register_effectful_op
from torch._inductor import config as inductor_config
from torch._subclasses.fake_tensor import unset_fake_temporarily

from . import layouts
from .offload import LIBRARY
from .times import likeness, operands

_ATEN = torch.ops.aten
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_OTHERS = ("hardshrink", "softshrink", "multi_margin_loss", "multilabel_margin_loss_forward")
_DROPOUT = _ATEN.dropout.default
_BERNOULLI = _ATEN.bernoulli_.float
_CUMPROD = _ATEN.cumprod_backward.default
_CHECK = _ATEN._linalg_check_errors.default
_KERNEL = _ATEN.mkldnn_rnn_layer.default
_NOTES = 3


@cache
def _forms(recurrent: bool) -> list[torch._ops.OpOverload]:
    """The calls that have a form in Python."""
    names = _RECURRENT if recurrent else (*_OTHERS, *(name for name in dir(_ATEN) if "upsample_" in name and "backward" not in name))
    calls = (getattr(getattr(_ATEN, name), form) for name in names for form in getattr(_ATEN, name).overloads())
    return [call for call in calls if _KEYS[0] in call.py_kernels]


@contextlib.contextmanager
def faithful() -> Iterator[None]:
    """Captures all that eager computes, and as it does: numbers that nothing uses are drawn, what cannot be factored is an
    error, and backward is outside of autocast, which ends with forward."""
    with inductor_config.patch(fallback_random=True), functorch_config.patch(backward_pass_autocast="off"), _checked():
        yield


@contextlib.contextmanager
def _checked() -> Iterator[None]:
    """Keeps the look at what a factorization says of itself in graphs, as a call that has no result and no token either: PyTorch
    2.11 drops it as one that nothing uses, and garbage goes on; 2.15 gives it a token, of which no plan is made."""
    effect, kept = _get_effect(_CHECK), _CHECK in fx.node._side_effectful_functions
    _register_effectful_op(_CHECK, None)
    fx.node.has_side_effect(_CHECK)
    try:
        yield
    finally:
        _register_effectful_op(_CHECK, effect)
        if not kept:
            fx.node._side_effectful_functions.discard(_CHECK)


@contextlib.contextmanager
def as_fused(inputs: list) -> Iterator[None]:
    """Captures what Inductor takes apart; what it leaves whole lies as it is made."""
    with faithful(), layouts.as_made(layouts.on_processor(inputs)):
        yield


@contextlib.contextmanager
def as_eager(inputs: list, recurrent: bool = True) -> Iterator[None]:
    """Captures such calls as eager makes them; recurrent layers only where all inputs are on the processor, as those of other
    devices are not tested."""
    here = recurrent and layouts.on_processor(inputs)
    own = {_DROPOUT: dict.fromkeys(_KEYS, _dropout), _CUMPROD: dict.fromkeys(_KEYS, torch.ops.tidegate.cumprod_backward.default)} if here else {}
    if here and _in_order_of_memory():
        own[_BERNOULLI] = {_KEYS[0]: _bernoulli}
    calls = [*_forms(False), *(_forms(True) if here else []), *own]
    forms = [(call, {key: call.py_kernels.pop(key) for key in own.get(call, _KEYS) if key in call.py_kernels}) for call in calls]
    try:
        for call in calls:
            call._dispatch_cache.clear()
        for call, form in own.items():
            call.py_kernels.update(form)
        with faithful(), layouts.as_made(here):
            yield
    finally:
        for call, form in forms:
            for key in own.get(call, ()):
                call.py_kernels.pop(key)
            call.py_kernels.update(form)
            call._dispatch_cache.clear()


def _dropout(values: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    if not train or not p or not values.numel():
        return values
    if p == 1:
        return values * values.new_zeros(())
    # Draws in the order of memory, as eager does.
    dropped, mask = _ATEN.native_dropout(values, p, True)
    if _one_factor(p, values.dtype):
        return dropped
    return values * mask.to(values.dtype).div_(1 - p)


def _bernoulli(values: torch.Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> torch.Tensor:
    """`bernoulli_`, which draws in the order of memory, and is captured as a call that draws row by row."""
    order = sorted(range(values.ndim), key=values.stride, reverse=True)
    if values.requires_grad or order != sorted(order):
        drawn = _ATEN.bernoulli.p(values.detach().permute(order), p, generator=generator)
        return values.copy_(drawn.permute([order.index(place) for place in range(values.ndim)]))
    with torch._C._AutoDispatchBelowAutograd():
        return _BERNOULLI(values, p, generator=generator)


@cache
def _in_order_of_memory() -> bool:
    """Whether eager draws so; libraries of some processors draw row by row."""
    with unset_fake_temporarily():
        draw = lambda values: values.bernoulli_(0.5, generator=torch.Generator().manual_seed(0))  # noqa: E731
        return torch.equal(draw(torch.empty(64, 64)), draw(torch.empty(64, 64).T).T)


@cache
def _one_factor(p: float, dtype: torch.dtype) -> bool:
    """Whether kept values are multiplied by the same number either way."""
    with unset_fake_temporarily(), no_python_dispatcher():
        precise = torch.float32 if dtype.itemsize < torch.float32.itemsize else dtype
        return torch.ones((), dtype=dtype).div(1 - p).double().item() == torch.tensor(1 / (1 - p), dtype=precise).double().item()


# Eager's has a short way where no value is zero, which a graph that is captured without values never takes.
LIBRARY.define("cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor")
LIBRARY.impl("cumprod_backward", lambda *given: _CUMPROD(*given), "CPU")
torch.library.register_fake("tidegate::cumprod_backward", lambda grad, values, dim, output: torch.empty_like(values), lib=LIBRARY)


def _layer(*given: object) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():
        return _KERNEL(*given)


LIBRARY.define("lstm_layer" + str(_KERNEL._schema).split("mkldnn_rnn_layer", 1)[1])
LIBRARY.impl("lstm_layer", _layer, "CPU")
torch.library.register_fake("tidegate::lstm_layer", _KERNEL, lib=LIBRARY)


def notes(module: fx.GraphModule) -> None:
    """Lets all LSTM layers of a graph note what backward reads, and says how large that is."""
    sizes: dict[str, int] = {}
    for node in module.graph.find_nodes(op="call_function", target=_KERNEL):
        node.target = torch.ops.tidegate.lstm_layer.default
        like = likeness(node)
        if like not in sizes:
            with unset_fake_temporarily(), no_python_dispatcher(), torch.random.fork_rng([]):
                arguments, _ = operands(node)
                sizes[like] = node.target(*arguments)[_NOTES].numel()
        values = node.meta["val"]
        with values[0].fake_mode:
            noted = torch.empty(sizes[like], dtype=torch.uint8)
        node.meta["val"] = (*values[:_NOTES], noted)
        same = [part for part in node.users if part.target is operator.getitem and part.args[1] == _NOTES]
        for part in same:
            part.meta["val"] = noted
            same += [user for user in part.users if user.target is _ATEN.detach.default]
