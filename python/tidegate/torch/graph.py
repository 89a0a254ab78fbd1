"""The joint graph of AOTAutograd as ops and storages.

An *op* is a call that makes a storage, changes one, or has an effect; a call all of whose results lie in storages that
were there before is a *view*: it costs nothing and is made again wherever its base is. Which results share a storage is
read off the fake tensors that the graph was traced with.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import torch
from torch import fx
from torch.utils import _pytree as pytree


STATISTICS = {
    torch.ops.aten._native_batch_norm_legit_functional.default: (3, 4),
    torch.ops.aten._batch_norm_with_update_functional.default: (4, 5),
}


class Unsupported(Exception):
    """Something in the graph that no plan is made for; the message names it."""


@dataclass(eq=False)
class Storage:
    """The memory of one value: what a trace calls a tensor."""

    name: str
    bytes: int
    dtype: torch.dtype
    device: torch.device
    writer: Op | None = None
    held: bool = False
    role: str = "activation"
    # The first op that can see it, for what no op makes; None: there from the start.
    appears: Op | None = None


@dataclass(eq=False)
class Op:
    """One call, with the calls that take its results apart."""

    index: int
    node: fx.Node
    forward: bool
    parts: list[fx.Node] = field(default_factory=list)
    reads: list[Storage] = field(default_factory=list)
    writes: list[Storage] = field(default_factory=list)
    rerunnable: bool = True
    random: bool = False

    @property
    def statistics(self) -> tuple[int, ...]:
        """Which of its results are a batch norm's updated running statistics, which a rerun must not make again."""
        return STATISTICS.get(self.node.target, ())

    @property
    def values(self) -> list[fx.Node]:
        """The nodes whose values it makes: itself, or the parts of its tuple."""
        return self.parts if isinstance(self.node.meta.get("val"), (tuple, list)) else [self.node]


def tensors(value: object) -> list[torch.Tensor]:
    """The tensors in a node's value."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def arguments(node: fx.Node) -> list[fx.Node]:
    """The nodes that it takes, each once."""
    return list(dict.fromkeys(node.all_input_nodes))


def is_tangent(node: fx.Node) -> bool:
    """Whether it is a gradient that backward is given."""
    return node.op == "placeholder" and "tangents" in str(node.target)


class Joint:
    """A joint graph, resolved.

    `storage[node]` is the storage of a value, `views[node]` that which a view lies in, `op[node]` the op that makes it; `outputs` are the forward's and then the backward's results.
    """

    def __init__(self, module: fx.GraphModule, forward_outputs: int, mutated: tuple[int, ...] = ()):
        self.module = module
        self.forward_outputs = forward_outputs
        self.ops: list[Op] = []
        self.storages: list[Storage] = []
        self.storage: dict[fx.Node, Storage] = {}
        self.views: dict[fx.Node, Storage] = {}
        self.op: dict[fx.Node, Op] = {}
        self._by_memory: dict[int, Storage] = {}
        self._keep: list[object] = []
        nodes = list(module.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder" and not is_tangent(node)]
        self.tangents = [node for node in nodes if is_tangent(node)]
        self.outputs = pytree.tree_leaves(nodes[-1].args[0], is_leaf=lambda leaf: leaf is None)
        self.mutated = {self.inputs[index] for index in mutated if index < len(self.inputs)}
        last = max((nodes.index(node) for node in self.outputs[:forward_outputs] if isinstance(node, fx.Node)), default=0)
        for position, node in enumerate(nodes):
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                tag = node.meta.get("partitioner_tag")
                self._call(node, position <= last if tag is None else tag in ("is_forward", "must_be_in_forward"))
            elif node.op != "output":
                raise Unsupported(f"a call of kind {node.op} ({node.name})")
        self._order()
        self._hold()

    @property
    def device(self) -> torch.device:
        """The device that it computes on."""
        return next((storage.device for storage in self.storages if storage.device.type != "cpu"), torch.device("cpu"))

    def hold(self, name: str, value: torch.Tensor, role: str) -> None:
        """Adds what the caller keeps beside the graph."""
        self.storages.append(Storage(name, value.untyped_storage().nbytes(), value.dtype, value.device, held=True, role=role))

    def _new(self, node: fx.Node, value: torch.Tensor, role: str) -> Storage:
        memory = value.untyped_storage()
        known = self._by_memory.get(memory._cdata)
        if known is not None:
            return known
        size = memory.nbytes()
        if not isinstance(size, int):
            raise Unsupported(f"dynamic shapes ({node.name}): compile with dynamic=False")
        made = Storage(node.name, size, value.dtype, value.device, role=role)
        self._by_memory[memory._cdata] = made
        self._keep.append(memory)
        self.storages.append(made)
        return made

    def _placeholder(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) or value is None:
            raise Unsupported(f"dynamic shapes ({node.name}): compile with dynamic=False")
        if not isinstance(value, torch.Tensor):
            return
        role = "gradient" if is_tangent(node) else "input"
        storage = self._new(node, value, role)
        storage.held = True
        self.storage[node] = storage

    def _constant(self, node: fx.Node) -> None:
        attribute = self.module
        for part in str(node.target).split("."):
            attribute = getattr(attribute, part)
        if isinstance(attribute, torch.Tensor):
            value = node.meta.get("val", attribute)
            storage = self._new(node, value, "input")
            storage.held = True
            self.storage[node] = storage

    def _call(self, node: fx.Node, forward: bool) -> None:
        value = node.meta.get("val")
        leaves = pytree.tree_leaves(value)
        if any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for leaf in leaves):
            raise Unsupported(f"a value that is known only at run time ({node.name})")
        if node.target is operator.getitem and node.args[0] in self.op:
            self._part(node, self.op[node.args[0]])
            return
        made = [leaf for leaf in tensors(value) if leaf.untyped_storage()._cdata not in self._by_memory]
        mutable = _mutable(node)
        if not made and tensors(value) and not mutable:
            self.views[node] = self._new(node, tensors(value)[0], "activation")
            if isinstance(value, torch.Tensor):
                self.storage[node] = self.views[node]
            return
        op = Op(len(self.ops), node, forward)
        self.ops.append(op)
        self.op[node] = op
        for argument in arguments(node):
            for storage in self._read(argument):
                if storage not in op.reads:
                    op.reads.append(storage)
        for leaf in made:
            storage = self._new(node, leaf, "activation" if forward else "gradient")
            if storage not in op.writes:
                op.writes.append(storage)
                storage.writer = op
        if isinstance(value, torch.Tensor):
            self.storage[node] = self._new(node, value, "activation")
        tags = getattr(node.target, "tags", ())
        op.random = torch.Tag.nondeterministic_seeded in tags
        op.rerunnable = isinstance(node.target, torch._ops.OpOverload) and not mutable and bool(made)
        if mutable:
            self.mutated.add(node.args[0])

    def _part(self, node: fx.Node, op: Op) -> None:
        self.op[node] = op
        op.parts.append(node)
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            storage = self._new(node, value, "activation" if op.forward else "gradient")
            storage.name = node.name if storage.writer is op else storage.name
            if storage.writer is None and not storage.held:
                storage.writer = op
                op.writes.append(storage)
            self.storage[node] = storage

    def _read(self, node: fx.Node) -> list[Storage]:
        if node in self.storage:
            return [self.storage[node]]
        return [self._by_memory[leaf.untyped_storage()._cdata] for leaf in tensors(node.meta.get("val"))]

    def _order(self) -> None:
        """Forward before backward, each in the graph's order."""
        self.ops.sort(key=lambda op: not op.forward)
        for index, op in enumerate(self.ops):
            op.index = index
        for op in self.ops:
            if any(storage.writer is not None and storage.writer.index > op.index for storage in op.reads):
                raise Unsupported(f"a forward call that needs a result of backward ({op.node.name})")

    def _hold(self) -> None:
        for node in self.outputs:
            if isinstance(node, fx.Node) and node in self.storage:
                self.storage[node].held = True
        # Backward gives a gradient, or nothing, for each input.
        for node, gradient in zip(self.inputs, self.outputs[self.forward_outputs :], strict=False):
            if isinstance(gradient, fx.Node):
                self.storage[node].role = "parameter"
        first = next((op for op in self.ops if not op.forward), None)
        for node in self.tangents:
            if node in self.storage:
                self.storage[node].appears = first
        changed = {self.storage[node] for node in self.mutated if node in self.storage}
        for op in self.ops:
            if op.statistics:
                # A rerun makes the output and the statistics of the batch anew, and leaves the running ones alone.
                for part in op.parts:
                    storage = self.storage[part]
                    if part.args[1] in op.statistics and storage in op.writes:
                        op.writes.remove(storage)
                        storage.writer, storage.appears, storage.held = None, op, True
                unread = [part for part in op.node.args[3:5] if isinstance(part, fx.Node)]
                op.reads = [storage for storage in op.reads if storage not in {self.storage[node] for node in unread}]
            elif changed & set(op.reads):
                op.rerunnable = False


def _mutable(node: fx.Node) -> bool:
    """Whether it changes an argument; only copies into an input of the graph are known how to keep."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        if "with_effects" in str(node.target):
            raise Unsupported(f"a call with effects of its own ({node.name})")
        return False
    if not schema.is_mutable:
        return False
    if node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder":
        return True
    raise Unsupported(f"a call that changes its argument in place ({node.name}: {node.target})")

