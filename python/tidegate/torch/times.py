"""How long each op takes and how much memory it needs besides its tensors, measured on the device at hand, in sequence."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from .graph import Joint, Op

REPEATS = 5


@dataclass
class Costs:
    """Nanoseconds and bytes of workspace of each op, and what they were measured on."""

    device: str
    times: list[int] | None
    workspaces: list[int] | None
    note: str | None = None


def measure(joint: Joint) -> Costs:
    """Runs the joint graph several times, op by op, with made-up inputs."""
    device = joint.device
    with unset_fake_temporarily(), torch.no_grad(), torch.random.fork_rng(
        [device] if device.type == "cuda" else [], device_type="cuda"
    ):
        if device.type == "cuda":
            return _on_cuda(joint, device)
        return _on_cpu(joint)


def _on_cpu(joint: Joint) -> Costs:
    inputs = materials(joint)
    runs = []
    for _ in range(REPEATS):
        times = [0] * len(joint.ops)

        def timed(op: Op, call, times=times) -> object:  # noqa: ANN001
            begin = time.perf_counter_ns()
            made = call()
            times[op.index] = time.perf_counter_ns() - begin
            return made

        interpret(joint, inputs, timed)
        runs.append(times)
    return Costs(_processor(), _medians(runs), _workspaces_on_cpu(joint, inputs))


def _medians(runs: list[list[int]]) -> list[int]:
    # The first run warms caches up.
    return [max(1, int(statistics.median(times))) for times in zip(*runs[1:], strict=True)]


def _workspaces_on_cpu(joint: Joint, inputs: dict[fx.Node, object]) -> list[int]:
    """What each op takes from the allocator beside its results, by the profiler's memory events."""
    names = {}

    def named(op: Op, call) -> object:  # noqa: ANN001
        names[f"tidegate op {op.index}"] = op.index
        with torch.profiler.record_function(f"tidegate op {op.index}"):
            return call()

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        interpret(joint, inputs, named)
    found = [0] * len(joint.ops)

    def walk(event, inside: int | None, live: list[int]) -> None:  # noqa: ANN001
        if event.name in names and inside is None:
            live = [0, 0]
            for child in event.children:
                walk(child, names[event.name], live)
            index = names[event.name]
            made = sum(storage.bytes for storage in joint.ops[index].writes)
            found[index] = max(0, live[1] - max(made, 0))
            return
        if event.name == "[memory]" and inside is not None:
            live[0] += event.extra_fields.alloc_size
            live[1] = max(live)
        for child in event.children:
            walk(child, inside, live)

    for root in profile.profiler.kineto_results.experimental_event_tree():
        walk(root, None, [0, 0])
    return found


def _on_cuda(joint: Joint, device: torch.device) -> Costs:
    inputs = materials(joint)
    runs, workspaces = [], [0] * len(joint.ops)

    def weighed(op: Op, call) -> object:  # noqa: ANN001
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        made = call()
        after = torch.cuda.memory_allocated(device)
        workspaces[op.index] = max(0, torch.cuda.max_memory_allocated(device) - max(after, before))
        return made

    interpret(joint, inputs, weighed)
    for _ in range(REPEATS):
        events = {}

        def timed(op: Op, call, events=events) -> object:  # noqa: ANN001
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            made = call()
            end.record()
            events[op.index] = (begin, end)
            return made

        interpret(joint, inputs, timed)
        torch.cuda.synchronize(device)
        runs.append([int(begin.elapsed_time(end) * 1e6) for _, (begin, end) in sorted(events.items())])
    return Costs(torch.cuda.get_device_name(device), _medians(runs), workspaces)


def materials(joint: Joint) -> dict[fx.Node, object]:
    """Made-up values for the graph's inputs."""
    made: dict[fx.Node, object] = {}
    for node in (*joint.inputs, *joint.tangents):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            made[node] = value
            continue
        tensor = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
        if value.dtype.is_floating_point:
            tensor.normal_(0.0, 0.02)
            if "running_var" in node.name:
                tensor.abs_()
        else:
            tensor.zero_()
        made[node] = tensor
    return made


def interpret(joint: Joint, inputs: dict[fx.Node, object], around) -> None:  # noqa: ANN001
    """Runs the joint graph call by call, and frees each value after its last use; `around(op, call)` runs an op."""
    last: dict[fx.Node, fx.Node] = {}
    nodes = list(joint.module.graph.nodes)
    for node in nodes:
        for argument in node.all_input_nodes:
            last[argument] = node
    values = dict(inputs)
    dying: dict[fx.Node, list[fx.Node]] = {}
    for argument, user in last.items():
        dying.setdefault(user, []).append(argument)
    for node in nodes:
        if node.op == "get_attr":
            attribute = joint.module
            for part in str(node.target).split("."):
                attribute = getattr(attribute, part)
            values[node] = attribute
        elif node.op == "call_function":
            arguments, keywords = pytree.tree_map(
                lambda leaf: values[leaf] if isinstance(leaf, fx.Node) else leaf, (tuple(node.args), dict(node.kwargs))
            )
            op = joint.op.get(node)
            if op is not None and op.node is node:
                values[node] = around(op, lambda: node.target(*arguments, **keywords))  # noqa: B023
            else:
                values[node] = node.target(*arguments, **keywords)
            del arguments, keywords
        for argument in dying.get(node, []):
            if argument.op == "call_function":
                values.pop(argument, None)
        if node.op == "call_function" and node not in last:
            values.pop(node, None)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return "CPU"
