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
    chosen = part.meta.get("_checkpoint_context_fn")
    options |= {"context_fn": chosen} if chosen is not None else {}
    return checkpoint(part, *given, **{**options, "use_reentrant": False})
