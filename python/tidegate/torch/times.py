"""How long each op takes and how much memory it needs besides its tensors, measured on the device at hand, in sequence."""

from __future__ import annotations

import bisect
import gc
import itertools
import operator
import statistics
import time
from dataclasses import dataclass, field

import torch
from torch import fx
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from .graph import Joint, Op, Unsupported, is_number
from .machine import device_name

REPEATS = 5
# On the processor, as many more as there is time for: one run of a small graph says little on a machine that does other work, too.
SECONDS = 0.5
MOST = 40


@dataclass
class Costs:
    """Nanoseconds and bytes of workspace of each op, and what they were measured on."""

    device: str
    times: list[int]
    workspaces: list[int]
    note: str | None = None
    # What cuBLAS keeps of the device's memory beside the plan.
    outside: int = 0
    # Of tensors whose memory is larger than they are: by how much.
    beyond: dict[str, int] = field(default_factory=dict)

    def fit(self, joint: Joint) -> Costs:
        """Gives the graph's tensors the memory that they were seen to have."""
        for storage in joint.storages:
            storage.beyond = self.beyond.get(storage.name, 0)
        return self


def measure(joint: Joint) -> Costs:
    """Runs the joint graph several times, op by op, with made-up inputs; where that does not fit the device, each op alone."""
    device = joint.device
    cards = [device] if device.type == "cuda" else []
    # A compiler calls ops by way of Python, which takes longer than many of them.
    with unset_fake_temporarily(), no_python_dispatcher(), torch.no_grad(), torch.random.fork_rng(cards, device_type="cuda"):
        if device.type != "cuda":
            return _on_cpu(joint)
        try:
            return _on_cuda(joint, device)
        except torch.OutOfMemoryError:
            pass
        gc.collect()
        torch.cuda.empty_cache()
        return _alone_on_cuda(joint, device)


def _on_cpu(joint: Joint) -> Costs:
    inputs = materials(joint)
    order, runs = _sequences(joint, inputs)
    times = dict(zip(order, _medians(runs), strict=True))
    workspaces, beyond = _workspaces_on_cpu(joint, inputs)
    return Costs(device_name(joint.device), [times[op.index] for op in joint.ops], workspaces, beyond=beyond)


def now(joint: Joint) -> float:
    """Nanoseconds that the ops of a graph on the processor take in sequence as of now, the median."""
    with torch.no_grad(), torch.random.fork_rng([]):
        return statistics.median(map(sum, _sequences(joint, materials(joint))[1]))


def _sequences(joint: Joint, inputs: dict[fx.Node, object]) -> tuple[list[int], list[list[int]]]:
    """The order of ops, and what each took in some runs."""
    step, order, marks = _marked(joint)
    given = [inputs[node] for node in joint.module.graph.find_nodes(op="placeholder")]
    runs: list[list[int]] = []
    collecting = gc.isenabled()
    gc.disable()  # What the compiler has left would be looked through again and again.
    try:
        end = time.monotonic() + SECONDS
        while len(runs) < REPEATS or (len(runs) < MOST and time.monotonic() < end):
            marks.clear()
            step(*given)
            runs.append([after - before for before, after in zip(marks, marks[1:])])
    finally:
        if collecting:
            gc.enable()
    return order, runs[1:]  # The first run warms caches up.


def _marked(joint: Joint) -> tuple[fx.GraphModule, list[int], list[int]]:
    """The joint graph as code that notes the time before each op and at the end, as what a plan makes of it is code.

    So an op's time has in it what comes with it: views of what it made, and memory that is given back after it.
    """
    marks: list[int] = []
    order: list[int] = []
    graph, copies = fx.Graph(), {}

    def tidegate_mark() -> None:
        marks.append(time.perf_counter_ns())

    for node in joint.module.graph.nodes:
        op = joint.op.get(node)
        if op is not None and op.node is node:
            order.append(op.index)
        if node.op == "output" or (op is not None and op.node is node):
            graph.call_function(tidegate_mark)
        copies[node] = graph.node_copy(node, copies.__getitem__)
    return fx.GraphModule(joint.module, graph), order, marks


def _medians(runs: list[list[int]]) -> list[int]:
    """Of each op, in such a proportion that they are the median run's together: what slows a run down meets other ops each time."""
    medians = [statistics.median(times) for times in zip(*runs, strict=True)]
    share = statistics.median(map(sum, runs)) / max(1, sum(medians))
    return [max(1, int(share * median)) for median in medians]


def _beyond(joint: Joint, op: Op, made: object) -> dict[str, int]:
    """Of what an op has really made: by how much memory is larger than what lies in it."""
    memory: dict[int, tuple[int, list]] = {}
    for node in op.values:
        value = made if node is op.node else made[node.args[1]] if node.args[0] is op.node else None
        storage = joint.storage.get(node)
        if isinstance(value, torch.Tensor) and storage in op.writes:
            found = memory.setdefault(value.untyped_storage()._cdata, (value.untyped_storage().nbytes(), []))[1]
            found += [storage] if storage not in found else []
    rest = {inside[0].name: size - sum(storage.bytes for storage in inside) for size, inside in memory.values()}
    return {name: size for name, size in rest.items() if size > 0}


def _workspaces_on_cpu(joint: Joint, inputs: dict[fx.Node, object]) -> tuple[list[int], dict[str, int]]:
    """What each op takes from the allocator beside its results, by the profiler's memory events; and what memory results have beyond them."""
    names, beyond = {}, {}

    def named(op: Op, call) -> object:  # noqa: ANN001
        names[f"tidegate op {op.index}"] = op.index
        with torch.profiler.record_function(f"tidegate op {op.index}"):
            made = call()
        beyond.update(_beyond(joint, op, made))
        return made

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profile:
        interpret(joint, inputs, named)
    # By time: what a call's other threads allocate is not below it in the profiler's tree.
    spans, sizes = [], []

    def walk(event) -> None:  # noqa: ANN001
        if event.name in names:
            spans.append((event.start_time_ns, event.end_time_ns, names[event.name]))
        elif event.name == "[memory]":
            sizes.append((event.start_time_ns, event.extra_fields.alloc_size))
        for child in event.children:
            walk(child)

    for root in profile.profiler.kineto_results.experimental_event_tree():
        walk(root)
    sizes.sort(key=lambda entry: entry[0])
    moments = [moment for moment, _ in sizes]
    found = [0] * len(joint.ops)
    for begin, end, index in spans:
        inside = sizes[bisect.bisect_left(moments, begin) : bisect.bisect_right(moments, end)]
        peak = max(itertools.accumulate((size for _, size in inside), initial=0))
        found[index] = max(0, peak - sum(storage.bytes + beyond.get(storage.name, 0) for storage in joint.ops[index].writes))
    return found, beyond


def _on_cuda(joint: Joint, device: torch.device) -> Costs:
    # What cuBLAS keeps belongs to no op: one workspace for the thread of forward, and one for that of backward.
    torch._C._cuda_clearCublasWorkspaces()
    inputs = materials(joint)
    runs, workspaces, beyond = [], [0] * len(joint.ops), {}

    def weighed(op: Op, call) -> object:  # noqa: ANN001
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        made = call()
        after = torch.cuda.memory_allocated(device)
        workspaces[op.index] = max(0, torch.cuda.max_memory_allocated(device) - max(after, before))
        beyond.update(_beyond(joint, op, made))
        return made

    interpret(joint, inputs, weighed)
    for _ in range(REPEATS):
        events = {}
        # The device is kept busy while the host gets ahead, so that no op's time has the host's in it.
        torch.cuda._sleep(len(joint.ops) * 400_000)

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
    # Nothing makes an op faster than it is, and much makes one slower.
    times = [max(1, min(found)) for found in zip(*runs, strict=True)]
    host = _host_time(joint, inputs)
    note = None
    if host > sum(times):
        note = f"Python is the limit: {host / 1e6:.1f} ms of calls for {sum(times) / 1e6:.1f} ms of the device's work"
    before = torch.cuda.memory_allocated(device)
    torch._C._cuda_clearCublasWorkspaces()
    outside = 2 * (before - torch.cuda.memory_allocated(device))
    return Costs(device_name(device), times, workspaces, note, outside, beyond)


def _host_time(joint: Joint, inputs: dict[fx.Node, object]) -> int:
    """How long it takes to make all calls, the device's work aside."""
    given = [inputs[node] for node in joint.inputs], [inputs[node] for node in joint.tangents]
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        torch.cuda._sleep(len(joint.ops) * 200_000)
        begin = time.perf_counter_ns()
        joint.module(*given)
        times.append(time.perf_counter_ns() - begin)
    torch.cuda.synchronize()
    return min(times)


def _alone_on_cuda(joint: Joint, device: torch.device) -> Costs:
    """Each op on inputs of its own, which are freed after it; of ops that are alike, the first."""
    known: dict[str, tuple[int, int]] = {}
    for op in joint.ops:
        key = likeness(op.node)
        if key not in known:
            try:
                known[key] = _alone(op.node, device)
            except torch.OutOfMemoryError as error:
                raise Unsupported(f"an op that does not fit the device alone ({op.node.name})") from error
    found = [known[likeness(op.node)] for op in joint.ops]
    note = "the graph does not fit the device, so that each op was timed alone"
    return Costs(device_name(device), [time for time, _ in found], [space for _, space in found], note)


def likeness(node: fx.Node) -> str:
    """The same for two nodes whose calls differ in values of tensors alone."""

    def form(leaf: object) -> object:
        value = leaf.meta.get("val") if isinstance(leaf, fx.Node) else leaf
        return (tuple(value.size()), value.stride(), value.dtype) if isinstance(value, torch.Tensor) else value

    return str((node.target, pytree.tree_map(form, (tuple(node.args), dict(node.kwargs)))))


def _alone(node: fx.Node, device: torch.device) -> tuple[int, int]:
    arguments, keywords = operands(node)
    times, workspace = [], 0
    for _ in range(REPEATS):
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        made = node.target(*arguments, **keywords)
        end.record()
        after = torch.cuda.memory_allocated(device)
        workspace = max(0, torch.cuda.max_memory_allocated(device) - max(after, before))
        del made
        torch.cuda.synchronize(device)
        times.append(int(begin.elapsed_time(end) * 1e6))
    return max(1, int(statistics.median(times[1:]))), workspace


def operands(node: fx.Node) -> tuple[tuple, dict]:
    """Made-up values for all that a call takes, but that one or two whole numbers of another call are really made by it.

    Attention says of its random state that it is on the device and keeps it in host memory, where backward reads it; and an
    index has to be one.
    """

    def operand(leaf: object) -> object:
        if not isinstance(leaf, fx.Node):
            return leaf
        value = leaf.meta.get("val")
        few = isinstance(value, torch.Tensor) and value.numel() <= 2 and not value.dtype.is_floating_point
        if not (few and leaf.target is operator.getitem):
            return material(leaf)
        maker, place = leaf.args
        arguments, keywords = operands(maker)
        return maker.target(*arguments, **keywords)[place]

    return pytree.tree_map(operand, (tuple(node.args), dict(node.kwargs)))


def materials(joint: Joint) -> dict[fx.Node, object]:
    """Made-up values for the graph's inputs."""
    return {node: material(node) for node in (*joint.inputs, *joint.tangents)}


def material(node: fx.Node) -> object:
    """A made-up value like the node's."""
    value = node.meta.get("val")
    if is_number(node):
        return value.node.hint
    if not isinstance(value, torch.Tensor):
        return value
    # Elements of an expanded view share memory, so that what lies below is filled.
    count = 1 + sum((size - 1) * stride for size, stride in zip(value.size(), value.stride())) if value.numel() else 0
    memory = torch.empty(count, dtype=value.dtype, device=value.device)
    # Positive, as variances must be; small, so that nothing overflows.
    filled = memory.uniform_(0.0, 0.05) if value.dtype.is_floating_point else memory.zero_()
    return filled.as_strided(value.size(), value.stride())


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
