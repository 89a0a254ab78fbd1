"""The first step under a plan, held against eager: outputs, gradients, and buffers that forward changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import fx
from torch.utils import _pytree as pytree

# How much more than twice the same graph differ, where kernels are not deterministic, a plan's step may.
NOISE = 10.0


class WrongGradients(RuntimeError):
    """A planned step does not give what eager gives."""


@dataclass
class _Step:
    """What a step left, in host memory."""

    results: list[torch.Tensor]

    def differs(self, other: _Step) -> float:
        """The largest relative error of any tensor in its norm; 0: the same bits."""
        # A gradient that is nothing but rounding errors, as before a batch norm, has no digits to agree in.
        floor = 1e-4 * max((result.double().norm().item() for result in other.results if result.is_floating_point()), default=0)
        return max((_error(mine, theirs, floor) for mine, theirs in zip(self.results, other.results, strict=True)), default=0)


def _error(mine: torch.Tensor, theirs: torch.Tensor, floor: float) -> float:
    if torch.equal(mine.nan_to_num(), theirs.nan_to_num()) and torch.equal(mine.isnan(), theirs.isnan()):
        return 0.0
    error = (mine.double() - theirs.double()).norm().item() / max(theirs.double().norm().item(), floor, 1e-300)
    return error if error == error else float("inf")


def compare(module: fx.GraphModule, compiled: Callable, unplanned: Callable[[], Callable], inputs: tuple, *, fused: bool) -> str:
    """How the planned step compares with eager's, in words.

    # Errors
    `WrongGradients` where it is neither eager's, nor that of the same graph without a plan, nor within what that
    differs from itself.
    """
    # States of the generators and tensors that the step changes are put back, so that the real first step starts anew.
    with torch.random.fork_rng(_cards(inputs), device_type="cuda"):
        planned = _step(compiled, module, inputs)
    with torch.random.fork_rng(_cards(inputs), device_type="cuda"):
        try:
            eager = _step(module, module, inputs)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return "not compared: a step in eager does not fit the device"
    error = planned.differs(eager)
    if error == 0.0:
        return "bit for bit eager's"
    if error < 1.0 and not fused:
        with torch.random.fork_rng(_cards(inputs), device_type="cuda"):
            noise = eager.differs(_step(module, module, inputs))
        if error <= noise:
            return f"{error:.1e} from eager's, which differs from itself by {noise:.1e} from run to run"
    # What planning may not change is the graph that it was given; that graph's kernels may differ from eager's.
    with torch.random.fork_rng(_cards(inputs), device_type="cuda"):
        graph = unplanned()
        plain = _step(graph, module, inputs)
    apart = planned.differs(plain)
    if apart == 0.0:
        return f"bit for bit that of the same graph without a plan; {error:.1e} from eager's, whose kernels differ"
    with torch.random.fork_rng(_cards(inputs), device_type="cuda"):
        noise = plain.differs(_step(graph, module, inputs))
    if fused and apart <= _tolerance(plain):
        return f"{apart:.1e} from the same graph without a plan, not fused"
    if apart <= NOISE * noise:
        return f"{apart:.1e} from the same graph without a plan, which differs from itself by {noise:.1e} from run to run"
    raise WrongGradients(f"a step under the plan is {apart:.1e} off what the same graph gives without it")


def _tolerance(step: _Step) -> float:
    """What fusing may change, whose kernels round elsewhere."""
    narrow = any(result.dtype in (torch.float16, torch.bfloat16) for result in step.results)
    return 5e-2 if narrow else 1e-3


def _cards(inputs: tuple) -> list[int]:
    return sorted({leaf.get_device() for leaf in inputs if isinstance(leaf, torch.Tensor) and leaf.is_cuda})


def _step(call: Callable, module: fx.GraphModule, inputs: tuple) -> _Step:
    given = [_copy(leaf) for leaf in inputs]
    own = [parameter for parameter in module.parameters() if parameter.requires_grad]
    outputs = [leaf for leaf in pytree.tree_leaves(call(*given)) if isinstance(leaf, torch.Tensor)]
    leaves = [leaf for leaf in given if isinstance(leaf, torch.Tensor) and leaf.requires_grad] + own
    roots = [output for output in outputs if output.requires_grad]
    generator = torch.Generator().manual_seed(0)
    tangents = [torch.randn(root.shape, generator=generator, dtype=torch.float32).to(root) for root in roots]
    gradients = torch.autograd.grad(roots, leaves, tangents, allow_unused=True)
    changed = [leaf for leaf in given if isinstance(leaf, torch.Tensor) and not leaf.requires_grad]
    kept = [*outputs, *(gradient for gradient in gradients if gradient is not None), *changed]
    return _Step([result.detach().cpu() for result in kept])


def _copy(leaf: object) -> object:
    """A leaf of its own; what has no gradient may be changed by forward, so it is copied."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach().requires_grad_() if leaf.requires_grad else leaf.detach().clone()
