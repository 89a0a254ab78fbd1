"""Checkpoints within a model, as eager runs them.

Dynamo writes `torch.utils.checkpoint` as a call that does not keep the random state, which compilers of graphs see to. Where
such a graph is run as it is, its backward would draw other numbers than its forward did.
"""

from __future__ import annotations

import copy

import torch
from torch import fx
from torch.utils.checkpoint import checkpoint

_WRITTEN = torch.ops.higher_order.tag_activation_checkpoint


def as_eager(module: fx.GraphModule) -> fx.GraphModule:
    """The module with its checkpoints as eager has them, or itself where it has none."""
    parts = {name: (part, as_eager(part)) for name, part in module.named_children() if isinstance(part, fx.GraphModule)}
    written = any(node.target is _WRITTEN for node in module.graph.nodes)
    if not written and all(part is made for part, made in parts.values()):
        return module
    made = fx.GraphModule(module, copy.deepcopy(module.graph))
    made.meta = module.meta
    for name, (_, part) in parts.items():
        setattr(made, name, part)
    for node in made.graph.nodes:
        node.target = _checkpoint if node.target is _WRITTEN else node.target
    made.recompile()
    return made


def _checkpoint(part: fx.GraphModule, *given: object, **options: object) -> object:
    # Only what it gives a gradient for is an argument, as in eager: buffers it may change.
    places = [place for place, leaf in enumerate(given) if getattr(leaf, "requires_grad", False)]

    def run(*leaves: object) -> object:
        filled = dict(zip(places, leaves))
        return part(*(filled.get(place, leaf) for place, leaf in enumerate(given)))

    chosen = part.meta.get("_checkpoint_context_fn")
    options |= {"context_fn": chosen} if chosen is not None else {}
    return checkpoint(run, *(given[place] for place in places), **{**options, "use_reentrant": False})
