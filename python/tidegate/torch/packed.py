"""What forward keeps for backward in fewer bytes than PyTorch stores it in: lossless, of a size that is known before.

A mask, such as dropout's, is a byte an element, and takes a bit. The position of a maximum is eight bytes, and takes one, two or
four where the values among which it lies are so few. Either is a call more in forward and one in backward, which a
plan times, places and runs again like any other: so its peak is proven, and no bit of a gradient changes.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import fx

from .graph import Joint
from .offload import LIBRARY, lies_as_said
from .times import Costs

_ATEN = torch.ops.aten
# Smaller ones save less than their calls cost.
LEAST = 1 << 16
# Words of eight masks that are packed at a time, so that no more is taken to work in.
CHUNK = {"cpu": 1 << 16, "cuda": 1 << 22}
# Moves the lowest bit of each of eight bytes into the highest byte.
_GATHER = 0x0102040810204080
# Puts a byte into each of eight, of which each then keeps a bit of its own.
_SPREAD, _EACH = 0x0101010101010101, 0x8040201008040201 - (1 << 64)
# Of calls that give positions: which result they are, and among how many values each lies.
_POSITIONS = {
    "max_pool2d_with_indices": (1, lambda value, _: value.shape[-1] * value.shape[-2]),
    "adaptive_max_pool2d": (1, lambda value, _: value.shape[-1] * value.shape[-2]),
    "max_pool3d_with_indices": (1, lambda value, _: value.shape[-1] * value.shape[-2] * value.shape[-3]),
    "max": (1, lambda value, given: value.shape[given[0]] if value.ndim else 1),
    "min": (1, lambda value, given: value.shape[given[0]] if value.ndim else 1),
    "topk": (1, lambda value, given: value.shape[given[1] if len(given) > 1 else -1] if value.ndim else 1),
    "sort": (1, lambda value, given: value.shape[given[0] if given else -1] if value.ndim else 1),
}


def form(joint: Joint) -> Joint | None:
    """The graph with all such values packed; none where there are none."""
    graph, copies = fx.Graph(), {}
    for node in joint.module.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    done: dict[tuple, fx.Node] = {}
    for node in joint.module.graph.nodes:
        users = [user for user in node.users if user.op == "call_function" and not joint.in_forward[user]]
        kept = _dense(node) and joint.in_forward.get(node) and users and not joint.storage[node].held
        narrow = _narrow(joint, node) if kept else None
        if narrow is None:
            continue
        value = node.meta["val"]
        key = (joint.storage[node], value.shape, value.stride())
        if key not in done:
            done[key] = _pack(graph, copies[node], copies[users[0]], narrow)
        for user in users:
            copies[user].replace_input_with(copies[node], done[key])
    return Joint(fx.GraphModule(joint.module, graph), joint.forward_outputs) if done else None


def costs(plain: tuple[Joint, Costs], small: tuple[Joint, Costs]) -> Costs:
    """The costs of the packed graph, of which what is in the plain one, too, has that one's: no two measurements are alike."""
    joint, own = small
    both = [{op.node.name: each[op.index] for op in plain[0].ops} for each in (plain[1].times, plain[1].workspaces)]
    found = [
        [known.get(op.node.name, each[op.index]) for op in joint.ops] for known, each in zip(both, (own.times, own.workspaces))
    ]
    return replace(own, times=found[0], workspaces=found[1])


def _dense(node: fx.Node) -> bool:
    """Whether its value fills a large memory of its own."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.storage_offset():
        return False
    dense = torch.ops.aten.is_non_overlapping_and_dense.default(value)
    return dense and value.numel() * value.element_size() == value.untyped_storage().nbytes() >= LEAST


def _narrow(joint: Joint, node: fx.Node) -> torch.dtype | None:
    """The type that holds all that the value may be: `bool` is a bit. None: no smaller one."""
    dtype = node.meta["val"].dtype
    if dtype == torch.bool:
        return torch.bool
    while node.target is _ATEN.detach.default:
        node = node.args[0]
    op = joint.op.get(node)
    place, among = _POSITIONS.get(op.node.target._schema.name.removeprefix("aten::") if op and node in op.parts else "", (None, None))
    if place is None or node.args[1] != place or dtype != torch.int64:
        return None
    values = among(op.node.args[0].meta["val"], [each for each in op.node.args[1:] if isinstance(each, int)])
    return next((narrow for narrow, least in ((torch.uint8, 1 << 8), (torch.int16, 1 << 15), (torch.int32, 1 << 31)) if values <= least), None)


def _pack(graph: fx.Graph, node: fx.Node, user: fx.Node, narrow: torch.dtype) -> fx.Node:
    """Packs a value where it is made, and gives it back where it is first used."""
    value = node.meta["val"]
    if narrow is torch.bool:
        pack, given = torch.ops.tidegate.pack.default, {"stride": list(value.stride())}
        unpack, back = torch.ops.tidegate.unpack.default, (list(value.shape), list(value.stride()))
    else:
        pack, given = _ATEN._to_copy.default, {"dtype": narrow}
        unpack, back = _ATEN._to_copy.default, ()

    def call(target: torch.ops.OpOverload, arguments: tuple, keywords: dict, tag: str) -> fx.Node:
        made = graph.call_function(target, arguments, keywords)
        made.meta = {**node.meta, "partitioner_tag": tag}
        with value.fake_mode:
            made.meta["val"] = target(*(each.meta["val"] if isinstance(each, fx.Node) else each for each in arguments), **keywords)
        return made

    with graph.inserting_after(node):
        small = call(pack, (node,), given, "is_forward")
    with graph.inserting_before(user):
        return call(unpack, (small, *back), {} if narrow is torch.bool else {"dtype": value.dtype}, "is_backward")


def _words(count: int, device: torch.device) -> range:
    return range(0, count, CHUNK[device.type])


def _flat(mask: torch.Tensor) -> torch.Tensor:
    return mask.as_strided((mask.numel(),), (1,)).view(torch.uint8)


def _packed(mask: torch.Tensor, *, stride: list[int]) -> torch.Tensor:
    lies_as_said(mask, stride)
    flat, whole = _flat(mask), mask.numel() // 8
    made = torch.empty(-(-mask.numel() // 8), dtype=torch.uint8, device=mask.device)
    words = flat[: 8 * whole].view(torch.int64)
    for begin in _words(whole, mask.device):
        part = words[begin : begin + CHUNK[mask.device.type]]
        made[begin : begin + part.numel()] = part.mul(_GATHER).bitwise_right_shift_(56)
    if whole < made.numel():
        rest = torch.zeros(8, dtype=torch.uint8, device=mask.device)
        rest[: mask.numel() - 8 * whole] = flat[8 * whole :]
        made[whole:] = rest.view(torch.int64).mul_(_GATHER).bitwise_right_shift_(56)
    return made


def _unpacked(packed: torch.Tensor, size: list[int], stride: list[int]) -> torch.Tensor:
    made = torch.empty(8 * packed.numel(), dtype=torch.bool, device=packed.device)
    for begin in _words(packed.numel(), packed.device):
        words = packed[begin : begin + CHUNK[packed.device.type]].to(torch.int64).mul_(_SPREAD).bitwise_and_(_EACH)
        torch.clamp(words.view(torch.uint8), max=1, out=made.view(torch.uint8)[8 * begin : 8 * (begin + words.numel())])
    return made.as_strided(size, stride)


def _fake_packed(mask: torch.Tensor, *, stride: list[int]) -> torch.Tensor:  # noqa: ARG001
    return mask.new_empty(-(-mask.numel() // 8), dtype=torch.uint8)


def _fake_unpacked(packed: torch.Tensor, size: list[int], stride: list[int]) -> torch.Tensor:
    return packed.new_empty(8 * packed.numel(), dtype=torch.bool).as_strided(size, stride)


for _schema, _real, _fake in (
    ("pack(Tensor mask, *, int[] stride) -> Tensor", _packed, _fake_packed),
    ("unpack(Tensor packed, int[] size, int[] stride) -> Tensor", _unpacked, _fake_unpacked),
):
    LIBRARY.define(_schema)
    LIBRARY.impl(_schema.split("(")[0], _real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tidegate::{_schema.split('(')[0]}", _fake, lib=LIBRARY)
