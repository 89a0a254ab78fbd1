"""The first step under a plan, held against eager: outputs, gradients, and buffers that forward changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import fx
from torch.utils import _pytree as pytree

# Relative error, in the norm of each tensor, that counts as the same where bits cannot be.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 5e-2}


class WrongGradients(RuntimeError):
    """A planned step does not give what eager gives."""


@dataclass
class _Step:
    """What a step left, in host memory."""

    results: list[torch.Tensor]

    def differs(self, other: _Step) -> float:
        """The largest relative error of any tensor; 0: the same bits; infinity: more than is tolerated of its type."""
        worst = 0.0
        for mine, theirs in zip(self.results, other.results, strict=True):
            if torch.equal(mine, theirs) or (mine.is_floating_point() and torch.equal(mine.isnan(), theirs.isnan())
                                             and torch.equal(mine.nan_to_num(), theirs.nan_to_num())):  # fmt: skip
                continue
            if not (mine.is_floating_point() or mine.is_complex()) or not mine.isfinite().all():
                return float("inf")
            base = theirs.double().norm().item()
            error = (mine.double() - theirs.double()).norm().item() / max(base, 1e-30)
            # What is all rounding error has no digits to agree in.
            if error > TOLERANCES.get(mine.dtype, 0.0) and base > 1e-6 * self.scale(other):
                return float("inf")
            worst = max(worst, error)
        return worst

    @staticmethod
    def scale(step: _Step) -> float:
        """The largest norm of its results."""
        return max((result.double().norm().item() for result in step.results if result.is_floating_point()), default=0.0)


def compare(module: fx.GraphModule, compiled: Callable, unplanned: Callable[[], Callable], inputs: tuple) -> str:
    """How the planned step compares with eager's, in words.

    # Errors
    `WrongGradients` where it is neither eager's, nor within what eager itself differs from run to run.
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
    with torch.random.fork_rng(_cards(inputs), device_type="cuda"):
        plain = _step(unplanned(), module, inputs)
    if planned.differs(plain) == 0.0 and error != float("inf"):
        return f"bit for bit that of the same graph without a plan, and within {error:.1e} of eager's, whose kernels differ"
    with torch.random.fork_rng(_cards(inputs), device_type="cuda"):
        again = _step(module, module, inputs)
    noise = eager.differs(again)
    if error != float("inf") and noise > 0.0:
        return f"within {error:.1e} of eager's, which differs from itself by {noise:.1e} from run to run"
    if error != float("inf") and planned.differs(plain) <= error:
        return f"within {error:.1e} of eager's"
    raise WrongGradients("a step under the plan does not give what eager gives")


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
