"""The machine at hand, measured: its memory, and the link between host and device."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from functools import cache

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import unset_fake_temporarily

import tidegate

from . import offload

_OPS = torch.ops.tidegate
SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]


def named(name: str, device: torch.device) -> tidegate.Machine:
    """A machine by its name or file, or the one `here`."""
    return _here(device.type, device.index or 0) if name == "here" else tidegate.Machine.load(name)


def device_name(device: torch.device) -> str:
    """What the device is called."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor()


def conditions(device: torch.device) -> str:
    """What times and workspaces depend on besides the graph."""
    chosen = [
        torch.__version__,
        device_name(device),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads() if device.type == "cpu" else "",
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
    ]
    return " ".join(map(str, chosen))


def processor() -> str:
    """What the CPU is called."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return "CPU"


@cache
def _here(kind: str, index: int) -> tidegate.Machine:
    device = torch.device(kind, index) if kind == "cuda" else torch.device(kind)
    # A compiler asks while its tensors are fake, whose copies take no time, and its calls go by way of Python, which takes long.
    with unset_fake_temporarily(), no_python_dispatcher():
        content = _measured(device)
    document = {"format": "tidegate/machine", "version": 1, "content": content}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "here.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return tidegate.Machine.load(path)


def _measured(device: torch.device) -> dict:
    on_gpu = device.type == "cuda"
    if on_gpu:
        free, total = torch.cuda.mem_get_info(device)
        # What PyTorch has already set aside is there for plans.
        reserved = max(0, total - free - torch.cuda.memory_reserved(device))
    else:
        total, reserved = _host_bytes(), 0
    name = device_name(device)
    out, back, latency = _link(device) if on_gpu else _copies_on_cpu(device)
    flops = _flops(device)
    link = {
        "name": "as measured",
        "d2h": {"pinned": out},
        "h2d": {"pinned": back},
        "latency_ns": latency,
        "both_directions": _both(device) if on_gpu else 0.5,
        # A copy on the CPU is made by the thread that computes: meanwhile nothing else is.
        "beside_copy": _beside(device) if on_gpu else 0.1,
    }
    return {
        "name": "here",
        "description": f"{name}, as PyTorch has it",
        "device": {
            "name": name,
            "memory_bytes": total,
            "reserved_bytes": reserved,
            "compute": {
                "f32_flops": flops,
                "f16_flops": flops,
                "memory_bytes_per_sec": _bandwidth(device),
                "codec_lane": False,
            },
        },
        "host": {"memory_bytes": _host_bytes()},
        "link": link,
        "sources": {"link": "copies measured by tidegate.torch", "device.compute": "a product and a copy, measured"},
    }


def _host_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _seconds(device: torch.device, call, repeats: int = 5) -> float:  # noqa: ANN001
    """The median time of a call, after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def _copies_on_cpu(device: torch.device) -> tuple[list[dict], list[dict], int]:
    """Copies by the ops that plans make them with, which take longer than small copies do; each of memory that was not
    copied just before, as in a step."""
    plan = offload.register(device, SIZES[-1])
    pool = _OPS.pool(plan)

    def nanoseconds(size: int) -> tuple[float, float]:
        count = min(256, SIZES[-1] // size)
        tensors = [torch.empty(size, dtype=torch.uint8) for _ in range(count)]

        def out() -> None:
            for number, tensor in enumerate(tensors):
                _OPS.offload(tensor, pool, number * size, size, [], plan, number, [])
                _OPS.wait([tensor], plan, [number])

        def back() -> None:
            for number in range(count):
                _OPS.reload(pool, number * size, [size], [1], torch.uint8, device, plan, number, [])

        return tuple(_seconds(device, call) / count * 1e9 for call in (out, back))

    latency = min(nanoseconds(64))
    found = [(size, *nanoseconds(size)) for size in SIZES]
    rate = lambda size, time: {"bytes": size, "bytes_per_sec": int(size * 1e9 / max(time - latency, time / 10))}  # noqa: E731
    return [rate(size, out) for size, out, _ in found], [rate(size, back) for size, _, back in found], int(latency)


def _link(device: torch.device) -> tuple[list[dict], list[dict], int]:
    out, back = [], []
    for size in SIZES:
        host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(size, dtype=torch.uint8, device=device)
        count = max(1, (8 << 20) // size)

        def copies(to: torch.Tensor, of: torch.Tensor, count: int = count) -> None:
            for _ in range(count):
                to.copy_(of, non_blocking=True)

        out.append({"bytes": size, "bytes_per_sec": int(size * count / _seconds(device, lambda: copies(host, there)))})
        back.append({"bytes": size, "bytes_per_sec": int(size * count / _seconds(device, lambda: copies(there, host)))})
    return out, back, 5000


def _both(device: torch.device) -> float:
    """Speed of each direction while both are busy, as a share of its speed alone."""
    size = SIZES[-1]
    host = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2)]
    streams = [torch.cuda.Stream(device) for _ in range(2)]

    def one() -> None:
        with torch.cuda.stream(streams[0]):
            host[0].copy_(there[0], non_blocking=True)

    def two() -> None:
        one()
        with torch.cuda.stream(streams[1]):
            there[1].copy_(host[1], non_blocking=True)

    alone = _seconds(device, one)
    return round(min(1.0, max(0.5, alone / _seconds(device, two))), 3)


def _beside(device: torch.device) -> float:
    """Speed of compute while copies run, as a share of its speed alone: the mean of a product's and an addition's."""
    size = SIZES[-1]
    host = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2)]
    streams = [torch.cuda.Stream(device) for _ in range(2)]
    matrix = torch.randn(4096, 4096, device=device)
    shares = []
    for work in (lambda: matrix @ matrix, lambda: matrix + 1.0):
        times = []
        for copying in (False, False, True):
            torch.cuda.synchronize(device)
            for stream, to, of in zip(streams, (host[0], there[1]), (there[0], host[1]), strict=True):
                with torch.cuda.stream(stream):
                    for _ in range(30 if copying else 0):
                        to.copy_(of, non_blocking=True)
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(8):
                work()
            end.record()
            torch.cuda.synchronize(device)
            times.append(begin.elapsed_time(end))
        shares.append(times[1] / times[2])
    return round(min(1.0, max(0.1, sum(shares) / len(shares))), 3)


def _flops(device: torch.device) -> int:
    size = 4096 if device.type == "cuda" else 512
    matrix = torch.randn(size, size, device=device)
    return int(2 * size**3 / _seconds(device, lambda: matrix @ matrix))


def _bandwidth(device: torch.device) -> int:
    values = torch.empty(64 << 20, dtype=torch.uint8, device=device)
    return int(2 * values.numel() / _seconds(device, values.clone))
