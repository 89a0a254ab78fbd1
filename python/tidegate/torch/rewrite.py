"""Calls of the joint graph that have a form nearer to what eager runs.

Tracing turns every batch norm into PyTorch's own kernels, where eager on CUDA takes cuDNN's: other bits, and slower. The
form with a reserve chooses as eager does.

Tracing makes a GRU's gates tensors of their own, where eager computes them in place in the tensor of all gates: a sigmoid then
takes other elements together, and the last bits of those at the ends of rows differ. They are parts of one sum here.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from . import whole

_ATEN = torch.ops.aten
_WITH_UPDATE = _ATEN._batch_norm_with_update_functional.default
# Where the results of the one are among those of the other.
_RESULTS = {0: 0, 1: 1, 2: 2, 3: 4, 4: 5}
RESERVE = 3


def rewrite(module: fx.GraphModule) -> None:
    """Changes the graph in place."""
    for node in module.graph.find_nodes(op="call_function", target=_ATEN.native_batch_norm_backward.default):
        forward = _forward_of(node)
        if forward is not None:
            _replace(module.graph, forward, node)
    _gates(module.graph)
    whole.notes(module)
    module.recompile()


def _gates(graph: fx.Graph) -> None:
    """Takes the sigmoids of a GRU's gates of the sum of all gates, as only recurrent cells split so that parts may be written to."""
    sums: dict[tuple[fx.Node, fx.Node], fx.Node] = {}
    for node in graph.find_nodes(op="call_function", target=_ATEN.add.Tensor):
        parts = [each for each in node.args if isinstance(each, fx.Node) and each.target is operator.getitem]
        splits = [part.args[0] for part in parts if part.args[0].target is _ATEN.unsafe_split.Tensor]
        gate = len(splits) == 2 and not node.kwargs and {user.target for user in node.users} == {_ATEN.sigmoid.default}
        if not gate or parts[0].args[1] != parts[1].args[1] or splits[0].args[1:] != splits[1].args[1:]:
            continue
        with graph.inserting_before(node):
            key = (splits[0].args[0], splits[1].args[0])
            if key not in sums:
                sums[key] = _call(graph, node, _ATEN.add.Tensor, key)
            _, size, dim = splits[0].args
            part = _call(graph, node, _ATEN.slice.Tensor, (sums[key], dim, parts[0].args[1] * size, (parts[0].args[1] + 1) * size))
        node.replace_all_uses_with(part)
        graph.erase_node(node)


def _call(graph: fx.Graph, like: fx.Node, target: torch._ops.OpOverload, given: tuple) -> fx.Node:
    made = graph.call_function(target, given)
    with like.meta["val"].fake_mode:
        made.meta = {**like.meta, "val": target(*(each.meta["val"] if isinstance(each, fx.Node) else each for each in given))}
    return made


def _forward_of(backward: fx.Node) -> fx.Node | None:
    """The batch norm in training whose statistics it is given, if that is what they are."""
    saved = backward.args[5]
    while isinstance(saved, fx.Node) and saved.target is _ATEN.detach.default:
        saved = saved.args[0]
    if not isinstance(saved, fx.Node) or saved.target is not operator.getitem:
        return None
    forward = saved.args[0]
    if forward.target is not _ATEN._native_batch_norm_legit_functional.default or not forward.args[5]:
        return None
    backwards = {user for part in forward.users for user in part.users if user.target is backward.target}
    # Without a weight there is no such form; two backwards of one forward are not what this is for.
    return forward if forward.args[1] is not None and len(backwards) <= 1 else None


def _replace(graph: fx.Graph, forward: fx.Node, backward: fx.Node) -> None:
    with graph.inserting_before(forward):
        made = graph.call_function(_WITH_UPDATE, (*forward.args[:5], *forward.args[6:8]))
    values = forward.meta["val"]
    with values[0].fake_mode:
        given = [argument.meta["val"] if isinstance(argument, fx.Node) else argument for argument in made.args]
        reserve = _WITH_UPDATE(*given)[RESERVE]
    made.meta = {**forward.meta, "val": (*values[:3], reserve, *values[3:])}
    for part in list(forward.users):
        part.args = (made, _RESULTS[part.args[1]])
    with graph.inserting_after(made):
        kept = graph.call_function(operator.getitem, (made, RESERVE))
    kept.meta = {**forward.meta, "val": reserve}
    with graph.inserting_before(backward):
        again = graph.call_function(_ATEN.batch_norm_backward.default, (*backward.args, kept))
    again.meta = dict(backward.meta)
    backward.replace_all_uses_with(again)
    graph.erase_node(backward)
    graph.erase_node(forward)
