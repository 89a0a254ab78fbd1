"""What a step of a compiled graph takes at once, as it is measured: of fused kernels no plan says it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree

from . import firststep, measure, together
from .graph import Joint


def taken(call: Callable, inputs: firststep.Given, device: torch.device) -> int | None:
    """The most bytes that there are at once in a step, with what it is given; None where someone else profiles."""
    if torch.autograd._profiler_enabled():
        return None
    given = firststep.copies(inputs)
    leaves = [leaf for leaf in given if isinstance(leaf, torch.Tensor) and leaf.requires_grad]

    def step() -> None:
        roots = [leaf for leaf in pytree.tree_leaves(call(*given)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        with torch._C._DisableAutocast():
            torch.autograd.grad(roots, leaves, [torch.ones_like(root) for root in roots], allow_unused=True)

    with torch.random.fork_rng([device] if device.type == "cuda" else [], device_type="cuda"):
        step()  # Backward is compiled where it is first called, and libraries take what they keep.
        above = measure.most(step, device)
    return above + sum(together.memory(given).values())


def beside(joint: Joint) -> int:
    """What a step may take beside a plan: single numbers, and on a GPU what its allocator rounds up by."""
    return 1024 + (512 * len(joint.storages) if joint.device.type == "cuda" else 0)
