"""The first step under a plan, held against eager: outputs, gradients, what forward changes, and what is left of random states.

Its bits are eager's. Where they are not, they must be those of the same graph without a plan, unless ops are fused or
that graph gives other bits each time; and in any case every tensor must be as near to eager's as rounding explains:
within `LEEWAY` times what it does to eager's to change the last place of each op's result at random. Fused kernels may
add up one by one what eager adds up in 64 bits; then all of one sample's last places change upwards, as they do where
sums are rounded in one direction.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


LEEWAY = 10.0
# Steps with other last places, the farthest of which counts.
SAMPLES = 3
# Runs of the graph without a plan before it is said to give the same bits each time: a sum in an order that varies
# comes out the same most of the time.
AGAIN = 8
# Elements that are compared at a time.
CHUNK = 1 << 22

Step = dict[str, torch.Tensor]


class WrongGradients(RuntimeError):
    """A planned step does not give what eager gives."""


def unhooked() -> contextlib.AbstractContextManager:
    """Keeps what steps save from hooks that are there, such as a checkpoint's around the model, which counts what is saved.

    Where there are none, none are set: functions of `torch.func` within a model run under no hooks.
    """
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        return contextlib.nullcontext()
    return torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved)


@dataclass(frozen=True)
class Given:
    """What a step is called with, and the places of what it has a gradient for and changes all the same, with gradients off."""

    leaves: tuple
    changed: frozenset[int] = frozenset()


def compare(module: fx.GraphModule, compiled: Callable, unplanned: Callable[[], Callable], inputs: Given, *, fused: bool) -> str:
    """How the planned step compares with eager's, in words.

    # Errors
    `WrongGradients` where it is off by more than may be.
    """
    planned = _step(compiled, module, inputs)
    try:
        eager = _eager(module, inputs)
        if not _differing(planned, eager):
            return "bit for bit eager's"
        said = "fused"
        if not fused:
            graph = unplanned()
            plain = _step(graph, module, inputs)
            said = "bit for bit that of the same graph without a plan"
            apart = _differing(planned, plain)
            if apart:
                if not any(_differing(_step(graph, module, inputs), plain) for _ in range(AGAIN)):
                    raise WrongGradients(f"a step under the plan gives another {apart[0]} than the same graph gives without it")
                said = "that of a graph which gives other bits each time"
        seeds = [*range(SAMPLES), None] if fused else range(SAMPLES)
        samples = [_eager(module, inputs, lambda seed=seed: _LastPlaces(seed)) for seed in seeds]
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return "not compared: a step in eager does not fit the device"
    off, name = max((_roundings(name, planned, eager, samples), name) for name in _differing(planned, eager))
    if off > LEEWAY:
        raise WrongGradients(f"the {name} of the graph that PyTorch captured is {off:.1e} times as far from eager's as rounding explains")
    return f"{said}, and within rounding of eager's: {off:.1f} times what changing last places does ({name})"


def either_way(module: fx.GraphModule, inputs: Given) -> bool:
    """Whether eager's backward gives the same bits under the autocast that is there now as outside of it."""
    try:
        return not _differing(_step(module, module, inputs, contextlib.nullcontext()), _step(module, module, inputs))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return False


def _differing(mine: Step, theirs: Step) -> list[str]:
    return [name for name in (mine | theirs) if _distance(mine.get(name), theirs.get(name))]


def _distance(mine: torch.Tensor | None, theirs: torch.Tensor | None) -> float:
    """The norm of the difference; what has no gradient counts as zeros, and NaN as NaN."""
    if mine is None or theirs is None:
        return (mine if theirs is None else theirs).double().norm().item()
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return float("inf")
    # Piece by piece: what a language model gives for each word takes gigabytes.
    pieces = zip(mine.flatten().split(CHUNK), theirs.flatten().split(CHUNK))
    return math.hypot(*(_apart(a, b) for a, b in pieces))


def _apart(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    if torch.equal(mine, theirs):
        return 0.0
    if not torch.equal(mine.isnan(), theirs.isnan()):
        return float("inf")
    return (mine.nan_to_num().double() - theirs.nan_to_num().double()).norm().item()


def _roundings(name: str, mine: Step, eager: Step, samples: Iterable[Step]) -> float:
    """How far it is from eager's, in what rounding does to eager's."""
    own = max(_distance(sample.get(name), eager.get(name)) for sample in samples)
    return _distance(mine.get(name), eager.get(name)) / own if own else float("inf")


# On a processor eager itself adds up the gradients of their weights one by one: what it is off by grows with the root of how many
# there are (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019).
_ONE_BY_ONE = ("layer_norm_backward", "group_norm_backward")


class _LastPlaces(TorchDispatchMode):
    """Changes the last place of what each op makes: up or down at random, or all upwards without a seed."""

    def __init__(self, seed: int | None):
        super().__init__()
        self.seed, self.generators = seed, {}

    def __torch_dispatch__(self, call, types, arguments=(), keywords=None):  # noqa: ANN001, ANN204
        made = call(*arguments, **(keywords or {}))
        taken = _tensors((arguments, keywords))
        most = max((leaf.numel() for leaf in taken), default=0)
        given = {leaf.untyped_storage()._cdata for leaf in taken}
        for leaf in _tensors(made):
            if not leaf.is_floating_point() or leaf.element_size() == 1 or leaf.untyped_storage()._cdata in given:
                continue
            eps = torch.finfo(leaf.dtype).eps
            if self.seed is None:
                terms = most / max(1, leaf.numel()) if call.name().endswith(_ONE_BY_ONE) else 1
                leaf.add_(leaf.abs().mul_(eps * max(1, terms) ** 0.5))
                continue
            if leaf.device not in self.generators:
                self.generators[leaf.device] = torch.Generator(leaf.device).manual_seed(self.seed)
            up = torch.empty_like(leaf).bernoulli_(0.5, generator=self.generators[leaf.device])
            leaf.mul_(up.mul_(2).sub_(1).mul_(eps).add_(1))
        return made


def _tensors(value: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


def _eager(module: fx.GraphModule, inputs: Given, places: Callable = contextlib.nullcontext) -> Step:
    def step() -> Step:
        with places():
            return _step(module, module, inputs)

    try:
        return step()
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
    # The same kernels, with what autograd saves in host memory.
    with torch.autograd.graph.save_on_cpu():
        return step()


def _step(call: Callable, module: fx.GraphModule, inputs: Given, around: contextlib.AbstractContextManager | None = None) -> Step:
    """What a step leaves, in host memory; backward is outside of autocast, or within what is given. Random states and tensors that it changes are put back, so that the real first step starts anew."""
    given = copies(inputs)
    cards = sorted({leaf.get_device() for leaf in given if isinstance(leaf, torch.Tensor) and leaf.is_cuda})
    with torch.random.fork_rng(cards, device_type="cuda"):
        outputs = call(*given)
        found = {f"output {number}": leaf for number, leaf in enumerate(pytree.tree_leaves(outputs)) if isinstance(leaf, torch.Tensor)}
        names = [node.name for node in module.graph.find_nodes(op="placeholder")]
        tensors = {name: leaf for name, leaf in zip(names, given) if isinstance(leaf, torch.Tensor)}
        leaves = {name: leaf for name, leaf in (tensors | dict(module.named_parameters())).items() if leaf.requires_grad}
        roots = [output for output in found.values() if output.requires_grad]
        generator = torch.Generator().manual_seed(0)
        tangents = [torch.randn(root.shape, generator=generator, dtype=torch.float32).to(root) for root in roots]
        with around or torch._C._DisableAutocast():
            gradients = torch.autograd.grad(roots, list(leaves.values()), tangents, allow_unused=True)
        found |= {f"gradient of {name}": gradient for name, gradient in zip(leaves, gradients) if gradient is not None}
        changed = {names[place] for place in inputs.changed}
        found |= {f"{name} afterwards": leaf for name, leaf in tensors.items() if not leaf.requires_grad or name in changed}
        found["random state"] = torch.get_rng_state()
        found |= {f"random state of device {card}": torch.cuda.get_rng_state(card) for card in cards}
        return {name: value.detach().cpu() for name, value in found.items()}


def copies(inputs: Given) -> list:
    """Leaves of their own. What has no gradient may be changed by forward, so it is copied: views of one another as such."""
    bases = [id(_base(leaf)) for leaf in inputs.leaves if isinstance(leaf, torch.Tensor) and not leaf.requires_grad]
    made: dict[int, torch.Tensor] = {}

    def copy(place: int, leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.requires_grad:
            return (leaf.detach().clone() if place in inputs.changed else leaf.detach()).requires_grad_()
        base = _base(leaf)
        if bases.count(id(base)) == 1:
            return leaf.detach().clone()
        own = made.get(id(base))
        if own is None:
            own = made[id(base)] = base.detach().clone()
        return own if leaf is base else own.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())

    return [copy(*each) for each in enumerate(inputs.leaves)]


def _base(leaf: torch.Tensor) -> torch.Tensor:
    """What it is a view of; PyTorch captures nothing that changes views of another type."""
    return leaf if leaf._base is None or leaf._base.dtype != leaf.dtype else leaf._base
