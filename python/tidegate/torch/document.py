"""The trace document of a joint graph."""

from __future__ import annotations

import hashlib
import re

import torch
from torch import fx

from .costs import bytes_moved, flops
from .graph import Joint, Op, Storage
from .kinds import kind
from .times import Costs

DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
    torch.float8_e4m3fn: "f8_e4m3", torch.float8_e5m2: "f8_e5m2", torch.complex64: "complex64",
}
# CUDA's caching allocator hands memory out in these.
GRANULARITY = {"cuda": 512}


def rounded(size: int, device: torch.device) -> int:
    """Bytes that the device's allocator sets aside for so many."""
    unit = GRANULARITY.get(device.type, 1)
    return -(-size // unit) * unit


def name(op: Op) -> str:
    """What the call is called, such as `mm`."""
    packet = getattr(op.node.target, "overloadpacket", None)
    return packet.__name__ if packet is not None else getattr(op.node.target, "__name__", str(op.node.target))


def module_path(node: fx.Node) -> str:
    """The path of the module that the call is of, such as `layers.0.attention`; empty where it is of none."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = [entry[0] for entry in stack.values()][-1:]
    # Dynamo writes `L['self']._modules['layers']._modules['0']` or `L['self'].layers.0`.
    parts = re.findall(r"[\w]+", re.sub(r"^L\['\w+'\]|_modules|_orig_mod", "", path[0])) if path else []
    return ".".join(parts)


def graph_digest(joint: Joint) -> str:
    """A digest of the calls, their arguments, the shapes, types and devices of all values, and which lie in one memory."""
    lines, numbers = [], {}
    for node in joint.module.graph.nodes:
        memory = joint.storage.get(node) or joint.views.get(node)
        side, place = joint.in_forward.get(node), numbers.setdefault(memory, len(numbers))
        lines.append(f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {side} {place}")
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            lines.append(f"{tuple(value.shape)} {value.stride()} {value.dtype} {value.device}")
    lines.append(f"{joint.forward_outputs} {joint.mutated}")
    return "sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()


def document(joint: Joint, network: str, costs: Costs | None, provenance: dict) -> dict:
    """The trace document. Without costs, times are left to the model of a machine."""
    number = {storage: index for index, storage in enumerate(joint.storages)}
    frees: dict[int, list[int]] = {}
    last: dict[Storage, int] = {}
    for op in joint.ops:
        for storage in (*op.reads, *op.writes):
            last[storage] = op.index
    for storage, index in last.items():
        if not storage.held and storage.writer is not None:
            frees.setdefault(index, []).append(number[storage])
    return {
        "format": "tidegate/trace",
        "version": 1,
        "content": {
            "network": network,
            "provenance": {**provenance, "framework": f"PyTorch {torch.__version__}", "graph": graph_digest(joint)},
            "tensors": [_tensor(storage) for storage in joint.storages],
            "ops": [
                _op(joint, op, number, sorted(frees.get(op.index, [])),
                    costs.times[op.index] if costs else None, costs.workspaces[op.index] if costs else 0)
                for op in joint.ops
            ],
        },
    }


def _tensor(storage: Storage) -> dict:
    tensor: dict = {"name": storage.name, "bytes": rounded(storage.bytes + storage.beyond, storage.device), "role": storage.role}
    if storage.dtype in DTYPES:
        tensor["dtype"] = DTYPES[storage.dtype]
    if storage.held:
        tensor["held"] = True
    if storage.appears is not None:
        tensor["appears_before"] = storage.appears.index
    tensor["key"] = storage.name
    return tensor


def _op(joint: Joint, op: Op, number: dict[Storage, int], frees: list[int], time: int | None, workspace: int) -> dict:
    called = name(op)
    made: dict = {
        "name": ".".join(part for part in (module_path(op.node), op.node.name) if part),
        "key": op.node.name,
        "kind": kind(called),
        "phase": "forward" if op.forward else "backward",
        "reads": [number[storage] for storage in op.reads],
        "writes": [number[storage] for storage in op.writes],
        "frees": frees,
        "workspace_bytes": workspace,
        "rerunnable": op.rerunnable,
        "bytes_moved": bytes_moved(op),
    }
    if op.mutates or not op.rerunnable:
        made["mutates"] = [number[storage] for storage in op.mutates]
    if op.again:
        made["rerun"] = {name: [number[each] for each in storages] for name, storages in zip(("reads", "writes"), op.again)}
    if op.state_bytes:
        made["random_bytes"] = op.state_bytes
    count = flops(op)
    if count is not None:
        made["flops"] = count
    if time is not None:
        made["duration_ns"] = time
    return made
