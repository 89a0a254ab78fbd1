"""Inductor as the inner compiler, held to the plan's order.

By itself Inductor makes a value where it is first read, moves what it fuses to the earliest of its parts, makes one function of
kernels that follow one another, and keeps memory that is free for a later buffer of the same size. Each holds more at once
than the plan does, which computes a value again as late as it can. So every value is made at its place, only what follows
one another is fused, where there is room for it, and freed memory is given back.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch import fx
from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.lowering import fallback_handler, lowerings, make_fallback
from torch._inductor.virtualized import V

from . import layouts
from .graph import GIVEN_BACK
from .kernels import Memory

# Its own layouts would change strides that a plan was made for, its own order that of calls; and a random op that is run
# again must draw as eager does.
_CONFIG = {
    "layout_optimization": False,
    "reorder_for_peak_memory": False,
    "allow_buffer_reuse": False,
    "fallback_random": True,
}


# On a processor these stay PyTorch's own calls: they add up in 64 bits what kernels would add up in 32, or take another
# exponential, and many norms in a row make a last place of a loss's gradient a digit that can be seen.
_WHOLE = ("batch_norm", "_log_softmax")
# So do these where they add up more than a few numbers, of which kernels would be off by more than a millionth.
_SUMS = (torch.ops.aten.sum.default, torch.ops.aten.sum.dim_IntList, torch.ops.aten.mean.default, torch.ops.aten.mean.dim)
_FEW = 1024
# And this on any device: kernels would write its parts to their places, so that all of it is there from the first part on.
_CAT = torch.ops.aten.cat.default


class _InOrder(InductorChoices):
    """Fuses what follows one another, so that nothing is made earlier or later than the graph says, where there is room for it."""

    def __init__(self, memory: Memory):
        super().__init__()
        self._memory = memory

    def can_fuse(self, scheduler, node1, node2, shared_data_score) -> bool:  # noqa: ANN001
        first, second = sorted((node1, node2), key=lambda node: node.min_order)
        near = second.min_order <= first.max_order + 1 and InductorChoices.can_fuse(scheduler, node1, node2, shared_data_score)
        return near and self._memory.has_room(first, second)


def _own(call: torch._ops.OpOverload) -> Callable:
    """Lowers it to PyTorch's own call."""
    return fallback_handler(call, add_to_fallback_set=False)


def _own_where_many(call: torch._ops.OpOverload) -> Callable:
    """Lowers a sum to PyTorch's own call on a processor where it adds up many numbers, else to a kernel."""
    fused, own = lowerings[call], _own(call)

    def lower(x, *given, **named):  # noqa: ANN001, ANN202
        many = math.prod(x.get_size()) > _FEW * V.graph.current_node.meta["val"].numel()
        return (own if many and x.get_device().type == "cpu" else fused)(x, *given, **named)

    return lower


@contextlib.contextmanager
def _in_order(memory: Memory, on_processor: bool) -> Iterator[None]:
    ready = CppScheduling.ready_to_flush
    ends = lambda scheduling: ready(scheduling) or memory.is_last(scheduling.kernel_group.scheduled_nodes)  # noqa: E731
    passes = {"_pre_fusion_custom_pass": memory.singly, "_post_fusion_custom_pass": memory.fused}
    own = mock.patch.dict(lowerings, {_CAT: _own(_CAT), **{call: _own_where_many(call) for call in _SUMS}})
    together = mock.patch.object(CppScheduling, "ready_to_flush", ends)
    with config.patch({**_CONFIG, **passes}), V.set_choices_handler(_InOrder(memory)), together, own, layouts.as_made(on_processor):
        yield


def compiled(module: fx.GraphModule, inputs: list, **given: object) -> tuple[Callable, int]:
    """The graph in fused kernels, and the bytes that it takes at once beside what its caller holds."""
    # Each value has memory of its own from its place on, unless one kernel makes it and reads it.
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor):
            node.meta["inductor_realize_to_strides"] = True
    memory = Memory({node.name: node.meta.get(GIVEN_BACK, 0) for node in module.graph.find_nodes(op="placeholder")})
    with _in_order(memory, layouts.on_processor(inputs)):
        call = compile_fx_inner(module, inputs, **given)
    return call, memory.most()


def decompositions(on_processor: bool) -> dict:
    """What it takes ops apart into, which is what is planned."""
    with config.patch(_CONFIG):
        table = dict(select_decomp_table())
    for call in [call for call in table if on_processor and any(name in call.name() for name in _WHOLE)]:
        del table[call]
        if call not in lowerings:
            make_fallback(call, warn=False, override_decomp=True)
    return table
