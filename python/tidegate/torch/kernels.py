"""Memory that a graph takes in Inductor's kernels, by their order and what they read and write.

A kernel needs all that it reads and all that it writes at once. So does a function of several kernels, as which those that
follow one another on a processor are compiled: its results are there before it is called.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from types import MappingProxyType

from torch._inductor import memory
from torch._inductor.graph import GraphLowering
from torch._inductor.ir import ExternKernel
from torch._inductor.scheduler import FusedSchedulerNode, NopKernelSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

from .graph import WORKSPACE


class Memory:
    """The memory of one graph while Inductor makes kernels of it, beside what its caller holds throughout."""

    def __init__(self, inputs: dict[str, int]):
        # Bytes of the inputs that are given back after their last use.
        self.inputs = inputs
        self._graph: GraphLowering | None = None
        self._functions: list[list[list]] = []

    def singly(self, nodes: list) -> list:
        """Looks at the calls before any are fused."""
        # A graph within this one is part of one call.
        if self._graph is None:
            self._graph = V.graph
            memory.assign_memory_planning_info_for_scheduler_buffers(nodes, V.graph.scheduler.name_to_buf)
            self._outputs = set(V.graph.get_output_names())
            # Fusing changes who a buffer's users are.
            self._users = {
                buffer.get_name(): {each.get_name() for user in buffer.mpi_buffer.succ_nodes for each in user.get_nodes()}
                for node in nodes
                for buffer in node.get_outputs()
            }
            self._functions = [[node.get_nodes()] for node in nodes]
            self._before, self._limit = self._take()
        return nodes

    def has_room(self, first: object, second: object) -> bool:
        """Whether a kernel of both, which are neighbours, holds no more than there is somewhere with calls one by one."""
        nodes = [*first.get_nodes(), *second.get_nodes()]
        return self._graph is not V.graph or self._before[first.min_order] + self._writes(nodes) <= self._limit

    def fused(self, nodes: list) -> list:
        """Looks at the kernels, and decides which are one function."""
        if self._graph is V.graph:
            self._functions = self._joined(nodes)
            self._last = {kernels[-1][-1].get_name() for kernels in self._functions}
        return nodes

    def is_last(self, nodes: list) -> bool:
        """Whether a function ends with the last of these nodes."""
        return bool(nodes) and nodes[-1].get_name() in self._last

    def most(self) -> int:
        """The most bytes that there are at once, once the kernels are written."""
        if self._graph is None:  # There is nothing to compute.
            return sum(self.inputs.values())
        # What is of use within one kernel alone, and what is written over something that is not used again.
        return self._take(self._graph.removed_buffers, self._graph.wrapper_code.reuses)[1]

    def _joined(self, nodes: list) -> list[list[list]]:
        functions: list[list[list]] = []
        open_, needs = False, 0
        for node in nodes:
            # Loops that are fused from without keep what passes between them in memory.
            kernels = [part.get_nodes() for part in (node.get_outer_nodes() if hasattr(node, "get_outer_nodes") else [node])]
            joins = isinstance(node, (FusedSchedulerNode, SchedulerNode)) and node.get_device().type == "cpu"
            between = isinstance(node, NopKernelSchedulerNode)
            written = sum(self._writes(each) for each in kernels)
            needs += written
            if open_ and needs <= self._limit and (joins or between):
                functions[-1] += kernels
            else:
                functions.append(kernels)
                needs = self._before[node.min_order] + written
            open_ = joins or (open_ and between)
        return functions

    def _writes(self, nodes: list) -> int:
        """Bytes of the results that a kernel writes to memory, as they are not of use to itself alone."""
        own = {node.get_name() for node in nodes}
        return sum(
            buffer.mpi_buffer.size_alloc
            for node in nodes
            for buffer in node.get_outputs()
            if len(nodes) == 1 or buffer.get_name() in self._outputs or not self._users[buffer.get_name()] <= own
        )

    def _take(self, removed: Collection[str] = (), over: Mapping[str, str] = MappingProxyType({})) -> tuple[list[int], int]:
        """Bytes that are there before each function, and the most that there are at once."""
        step = {node.get_name(): place for place, kernels in enumerate(self._functions) for nodes in kernels for node in nodes}
        stay = {*self._outputs, *removed, *over.values()}
        last: dict[str, int] = {}
        written, works, given_back = ([0] * len(self._functions) for _ in range(3))
        for place, kernels in enumerate(self._functions):
            for node in itertools.chain(*kernels):
                works[place] += _workspace(node)
                last.update((each.name, place) for each in node.read_writes.reads if each.name in self.inputs)
                for buffer in node.get_outputs():
                    if buffer.get_name() not in removed and buffer.get_name() not in over:
                        written[place] += buffer.mpi_buffer.size_alloc
                    if buffer.get_name() not in stay:
                        ends = max((step[user] for user in self._users[buffer.get_name()]), default=place)
                        given_back[ends] += buffer.mpi_buffer.size_free
        for name, place in last.items():
            given_back[place] += self.inputs[name] if name not in stay else 0
        now, before, most = sum(self.inputs.values()), [], 0
        for place in range(len(self._functions)):
            before.append(now)
            now += written[place]
            most = max(most, now + works[place])
            now -= given_back[place]
        return before, most


def _workspace(node: object) -> int:
    """What a call of one of PyTorch's own kernels works in; Inductor's work in no memory."""
    origins = node.node.get_origins() if isinstance(node.node, ExternKernel) else ()
    return max((origin.meta.get(WORKSPACE, 0) for origin in origins), default=0)
