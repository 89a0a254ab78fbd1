"""Outputs that no gradient comes back for, as of a model whose loss is taken of some of them.

Compiled backwards take zeros for these, and give zeros for what only they depend on, where eager leaves no gradient: an optimizer
that lets weights decay changes the one and not the other.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import PlainAOTOutput

from .graph import Joint


def fill(node: object, gradients: list) -> set[int]:
    """Puts zeros where no gradient is, and gives those places."""
    missing = {place for place, gradient in enumerate(gradients) if gradient is None}
    for place in missing:
        made = node._input_metadata[place]
        if made.dtype.is_floating_point or made.dtype.is_complex:
            gradients[place] = torch.zeros(made.shape, dtype=made.dtype, device=made.device)
    return missing


def leave_out(joint: Joint, first: int, missing: set[int], results: tuple) -> tuple:
    """The results without those that depend on nothing but gradients that are missing; outputs begin at the place `first`."""
    made = joint.outputs[joint.forward_outputs :]
    if len(made) != len(results):
        return results
    sources = _sources(joint)
    places = {tangent: _place(tangent, first) for tangent in joint.tangents}
    unasked = [isinstance(value, fx.Node) and bool(sources[value]) and {places[each] for each in sources[value]} <= missing for value in made]
    return tuple(None if empty else result for empty, result in zip(unasked, results))


def _place(tangent: fx.Node, first: int) -> int | None:
    output = getattr(tangent.meta.get("desc"), "output", None)
    return first + output.idx if isinstance(output, PlainAOTOutput) else None


def _sources(joint: Joint) -> dict[fx.Node, set[fx.Node]]:
    """The gradients that each value is made of."""
    found: dict[fx.Node, set[fx.Node]] = {tangent: {tangent} for tangent in joint.tangents}
    for node in joint.module.graph.nodes:
        found.setdefault(node, _union(found[each] for each in node.all_input_nodes))
    return found


def _union(sets: Iterable[set]) -> set:
    return set().union(*sets)
