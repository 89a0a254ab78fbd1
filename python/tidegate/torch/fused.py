"""Inductor as the inner compiler, held to the plan's order.

By itself Inductor makes a value where it is first read, moves what it fuses to the earliest of its parts, and keeps memory that is
free for a later buffer of the same size. Each holds more at once than the plan does, which computes a value again as late
as it can. So every value is made at its place, only what follows one another is fused, and freed memory is given back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import fx
from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V

# Its own layouts would change strides that a plan was made for, its own order that of calls; and a random op that is run
# again must draw as eager does.
_CONFIG = {
    "layout_optimization": False,
    "reorder_for_peak_memory": False,
    "allow_buffer_reuse": False,
    "fallback_random": True,
}


class _InOrder(InductorChoices):
    """Fuses what follows one another, so that nothing is made earlier or later than the graph says."""

    @staticmethod
    def can_fuse(scheduler, node1, node2, shared_data_score) -> bool:  # noqa: ANN001
        first, second = sorted((node1, node2), key=lambda node: node.min_order)
        return second.min_order <= first.max_order + 1 and InductorChoices.can_fuse(scheduler, node1, node2, shared_data_score)


@contextlib.contextmanager
def _in_order() -> Iterator[None]:
    with config.patch(_CONFIG), V.set_choices_handler(_InOrder()):
        yield


def compiled(module: fx.GraphModule, inputs: list, **given: object) -> Callable:
    """The graph in fused kernels."""
    from torch._inductor.compile_fx import compile_fx_inner

    # Each value has memory of its own from its place on, unless one kernel makes it and reads it.
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor):
            node.meta["inductor_realize_to_strides"] = True
    with _in_order():
        return compile_fx_inner(module, inputs, **given)


def decompositions() -> dict:
    """What it takes ops apart into, which is what is planned."""
    from torch._inductor.decomposition import select_decomp_table

    with config.patch(_CONFIG):
        return select_decomp_table()
