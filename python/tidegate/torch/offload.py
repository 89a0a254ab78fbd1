"""Copies between the device and one pool of pinned host memory, as ops that a graph can hold.

On CUDA each direction has a stream of its own and every copy an event: a copy starts after what compute was given
before it, and after the copies that it is to follow; compute waits for copies where the graph says `wait`. On the CPU the
same ops copy at once, to a second pool.

A pool belongs to one forward and its backward: `pool` takes one that is free, or makes one, and `release` gives it back,
which counts as a write, though none is made, so that autograd refuses a second backward. A pool whose backward never
comes is freed with the values that autograd saved.
"""

from __future__ import annotations

import torch


class Lanes:
    """What the ops of one plan share: events, free pools, and the pool's size."""

    def __init__(self, device: torch.device, host_bytes: int):
        self.device = device
        self.size = host_bytes
        self.free: list[torch.Tensor] = []
        self.events: dict[int, torch.cuda.Event] = {}
        self.marks: dict[int, torch.cuda.Event] = {}
        # How what each copy out copied lies in memory.
        self.strides: dict[int, tuple[int, ...]] = {}

    def acquire(self) -> torch.Tensor:
        """A pool that no other iteration uses."""
        if self.free:
            return self.free.pop()
        return torch.empty(self.size, dtype=torch.uint8, pin_memory=self.device.type == "cuda")

    def start(self, stream: torch.cuda.Stream, action: int, after: list[int]) -> None:
        """Lets the stream wait for compute as of now, and for these copies."""
        mark = self.marks.setdefault(action, torch.cuda.Event())
        mark.record(torch.cuda.current_stream(self.device))
        stream.wait_event(mark)
        for other in after:
            stream.wait_event(self.events[other])

    def end(self, stream: torch.cuda.Stream, action: int) -> None:
        """Notes that the stream has come to this copy's end."""
        self.events.setdefault(action, torch.cuda.Event()).record(stream)


_LANES: dict[int, Lanes] = {}
_STREAMS: dict[tuple[int | None, str], torch.cuda.Stream] = {}


def register(device: torch.device, host_bytes: int) -> int:
    """The number by which a plan's ops find what they share."""
    number = len(_LANES)
    _LANES[number] = Lanes(device, host_bytes)
    return number


def _stream(device: torch.device, direction: str) -> torch.cuda.Stream:
    key = (device.index, direction)
    if key not in _STREAMS:
        _STREAMS[key] = torch.cuda.Stream(device)
    return _STREAMS[key]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of its storage."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0).view(torch.uint8)


def lies_as_said(tensor: torch.Tensor, stride: list[int]) -> None:
    """Raises where a tensor has other strides than PyTorch said while it captured the graph."""
    if any(said != found for length, said, found in zip(tensor.shape, stride, tensor.stride()) if length > 1):
        raise RuntimeError(f"a tensor lies in memory otherwise, {tensor.stride()}, than PyTorch says of it, {tuple(stride)}")


def _slot(pool: torch.Tensor, offset: int, like: torch.Tensor) -> torch.Tensor:
    return pool[offset : offset + like.numel()]


def _pool(plan: int) -> torch.Tensor:
    return _LANES[plan].acquire().detach()


def _release(pool: torch.Tensor, plan: int) -> None:
    # No byte is written: the host is ahead of the device, whose copies may not have read the pool yet.
    torch.autograd.graph.increment_version(pool)
    _LANES[plan].free.append(pool.detach())


def _offload(
    tensor: torch.Tensor, pool: torch.Tensor, offset: int, size: int, stride: list[int], plan: int, action: int, after: list[int]
) -> None:
    """Copies a storage out. Without a stride it may lie in memory otherwise than PyTorch says of it, and comes back as it is."""
    # Some ops give a part of the memory that they took: PyTorch says nothing of the rest, and nothing reads it.
    source, lanes = _flat(tensor)[:size], _LANES[plan]
    last = tensor.storage_offset() + sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride()))
    reached = (last + 1) * tensor.element_size()
    if source.numel() < max(reached, size):
        raise RuntimeError(f"tidegate: a tensor of {reached} bytes was planned with {size}: its plan does not hold")
    if stride:
        lies_as_said(tensor, stride)
    lanes.strides[action] = tensor.stride()
    slot = _slot(pool, offset, source)
    if not tensor.is_cuda:
        slot.copy_(source)
        return
    stream = _stream(tensor.device, "out")
    lanes.start(stream, action, after)
    with torch.cuda.stream(stream):
        slot.copy_(source, non_blocking=True)
    lanes.end(stream, action)


def _reload(
    pool: torch.Tensor, offset: int, size: list[int], stride: list[int], dtype: torch.dtype, device: torch.device,
    plan: int, action: int, after: list[int], whole: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Copies a storage in; a whole one, with the copy out that it is of, as it was."""
    made = torch.empty_strided(size, stride if whole is None else _LANES[plan].strides[whole], dtype=dtype, device=device)
    target = _flat(made)
    slot = _slot(pool, offset, target)
    if not made.is_cuda:
        target.copy_(slot)
        return made
    lanes, stream = _LANES[plan], _stream(device, "in")
    lanes.start(stream, action, after)
    with torch.cuda.stream(stream):
        target.copy_(slot, non_blocking=True)
    lanes.end(stream, action)
    return made


def _wait(held: list[torch.Tensor], plan: int, actions: list[int]) -> None:
    # What is held is freed by the graph right after this call, so after the copy from it has ended on compute's stream.
    lanes = _LANES[plan]
    if lanes.device.type == "cuda":
        stream = torch.cuda.current_stream(lanes.device)
        for action in actions:
            stream.wait_event(lanes.events[action])


LIBRARY = torch.library.Library("tidegate", "DEF")
_SCHEMAS = {
    "pool(int plan) -> Tensor": _pool,
    "release(Tensor pool, int plan) -> ()": _release,
    "offload(Tensor tensor, Tensor pool, int offset, int size, int[] stride, int plan, int action, int[] after) -> ()": _offload,
    "reload(Tensor pool, int offset, int[] size, int[] stride, ScalarType dtype, Device device, int plan, int action, "
    "int[] after, int? whole=None) -> Tensor": _reload,
    "wait(Tensor[] held, int plan, int[] actions) -> ()": _wait,
}
for _schema, _function in _SCHEMAS.items():
    LIBRARY.define(_schema)
    LIBRARY.impl(_schema.split("(")[0], _function, "CompositeExplicitAutograd")


def _fake_pool(plan: int) -> torch.Tensor:
    return torch.empty(_LANES[plan].size, dtype=torch.uint8)


def _fake_reload(pool, offset, size, stride, dtype, device, plan, action, after, whole=None):  # noqa: ANN001, ANN202
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


torch.library.register_fake("tidegate::pool", _fake_pool, lib=LIBRARY)
torch.library.register_fake("tidegate::reload", _fake_reload, lib=LIBRARY)
for _name in ("release", "offload", "wait"):
    torch.library.register_fake(f"tidegate::{_name}", lambda *_arguments: None, lib=LIBRARY)
    torch.fx.node.has_side_effect(getattr(torch.ops.tidegate, _name).default)
