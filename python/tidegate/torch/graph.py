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
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch.utils import _pytree as pytree

# Bytes of a generator's state.
STATE_BYTES = {"cpu": torch.get_rng_state().numel(), "cuda": 16}
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
STATISTICS = {
    torch.ops.aten._native_batch_norm_legit_functional.default: (3, 4),
    torch.ops.aten._batch_norm_with_update_functional.default: (4, 5),
}
# Notes of a node in a written graph: bytes that are given back after its last use, and those that its call works in.
GIVEN_BACK, WORKSPACE = "tidegate_given_back_bytes", "tidegate_workspace_bytes"


class Unsupported(Exception):
    """Something in the graph that no plan is made for; the message names it."""


@dataclass(eq=False)
class Storage:
    """The memory of one value: what a trace calls a tensor."""

    name: str
    bytes: int
    dtype: torch.dtype
    device: torch.device
    # Bytes that its memory has beyond its own, as the mean of a loss lies in the memory of all that it is of.
    beyond: int = 0
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
    # Inputs of the graph that its first run changes.
    mutates: list[Storage] = field(default_factory=list)
    # What a rerun reads and writes, where that is less.
    again: tuple[list[Storage], list[Storage]] | None = None

    @property
    def state_bytes(self) -> int:
        """What a rerun needs of the generator that it draws from."""
        return STATE_BYTES.get(self.writes[0].device.type, 0) if self.random and self.rerunnable else 0

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


def is_number(node: object) -> bool:
    """Whether its value is a number that may be another one in the next call."""
    return isinstance(node, fx.Node) and isinstance(node.meta.get("val"), _NUMBERS)


def is_tangent(node: fx.Node) -> bool:
    """Whether it is a gradient that backward is given."""
    return node.op == "placeholder" and "tangents" in str(node.target)


class Joint:
    """A joint graph, resolved.

    `storage[node]` is the storage of a value, `views[node]` that which a view lies in, `op[node]` the op that makes it; `outputs` are the forward's and then the backward's results.
    """

    def __init__(self, module: fx.GraphModule, forward_outputs: int):
        self.module = module
        self.forward_outputs = forward_outputs
        self.ops: list[Op] = []
        self.storages: list[Storage] = []
        self.storage: dict[fx.Node, Storage] = {}
        self.views: dict[fx.Node, Storage] = {}
        self.op: dict[fx.Node, Op] = {}
        self.in_forward: dict[fx.Node, bool] = {}
        self._by_memory: dict[int, Storage] = {}
        self._keep: list[object] = []
        nodes = list(module.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder" and not is_tangent(node)]
        self.tangents = [node for node in nodes if is_tangent(node)]
        self.outputs = pytree.tree_leaves(nodes[-1].args[0], is_leaf=lambda leaf: leaf is None)
        self.mutated = self._changes(nodes[-1])
        last = max((nodes.index(node) for node in self.outputs[:forward_outputs] if isinstance(node, fx.Node)), default=0)
        for position, node in enumerate(nodes):
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                tag = node.meta.get("partitioner_tag")
                self.in_forward[node] = position <= last if tag is None else tag in ("is_forward", "must_be_in_forward")
                self._call(node, self.in_forward[node])
            elif node.op != "output":
                raise Unsupported(f"a call of kind {node.op} ({node.name})")
        self._order()
        self._hold()
        devices = sorted({str(storage.device) for storage in self.storages if storage.device.type != "cpu"})
        if len(devices) > 1 or self.device.type not in ("cpu", "cuda"):
            raise Unsupported(f"a graph on {' and '.join(devices)}: plans are for one device, cpu or cuda")

    @property
    def device(self) -> torch.device:
        """The device that it computes on."""
        return next((storage.device for storage in self.storages if storage.device.type != "cpu"), torch.device("cpu"))

    def held_bytes(self, *, backward: bool) -> int:
        """What the caller has while forward runs, beside what that returns; or while backward does."""
        held = [each for each in self.storages if each.held and (each.writer is None or each.writer.forward)]
        return sum(each.bytes for each in held if backward or (each.writer is None and each.appears is None))

    def hold(self, name: str, value: torch.Tensor, role: str) -> None:
        """Adds what the caller keeps beside the graph."""
        self.storages.append(Storage(name, value.untyped_storage().nbytes(), value.dtype, value.device, held=True, role=role))

    def _changes(self, output: fx.Node) -> dict[fx.Node, fx.Node]:
        """What makes the new value of each input that forward changes: AOTAutograd copies it there after forward."""
        said = output.meta.get("desc")
        if said is None:
            raise Unsupported("a graph of which this PyTorch does not say what inputs it changes")
        inputs = {node.meta.get("desc"): node for node in self.inputs}
        said = zip(pytree.tree_leaves(said), self.outputs[: self.forward_outputs])
        return {inputs[each.mutated_input]: made for each, made in said if isinstance(each, InputMutationAOTOutput)}

    def _new(self, node: fx.Node, value: torch.Tensor, role: str) -> Storage:
        memory = _memory(node, value)
        known = self._by_memory.get(memory._cdata)
        if known is not None:
            return known
        size = memory.nbytes()
        made = Storage(node.name, size, value.dtype, value.device, role=role)
        self._by_memory[memory._cdata] = made
        self._keep.append(memory)
        self.storages.append(made)
        return made

    def _placeholder(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        if value is None:
            raise Unsupported(f"dynamic shapes ({node.name}): compile with dynamic=False")
        if not isinstance(value, torch.Tensor):
            return
        role = "gradient" if is_tangent(node) else "input"
        storage = self._new(node, value, role)
        if is_tangent(node) and storage.role != role:
            # The gradient of an output that is a view of an input: traced as lying in the input, and memory of its own.
            storage = Storage(node.name, value.numel() * value.element_size(), value.dtype, value.device, role=role)
            self.storages.append(storage)
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
        numbers = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, _NUMBERS)]
        if any(not number.node.has_hint() for number in numbers):
            raise Unsupported(f"a value that is known only at run time ({node.name})")
        if is_number(node):
            return
        if node.target is operator.getitem and node.args[0] in self.op:
            self._part(node, self.op[node.args[0]])
            return
        made = [leaf for leaf in tensors(value) if _memory(node, leaf)._cdata not in self._by_memory]
        mutable = _mutable(node)
        if not made and tensors(value) and not mutable:
            # By what it is a view of: gradients of views of inputs seem to lie in those.
            bases = [storage for argument in arguments(node) for storage in self._read(argument)]
            known = self._new(node, tensors(value)[0], "activation")
            self.views[node] = known if known in bases or len(bases) != 1 else bases[0]
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
            self.mutated[node.args[0]] = node

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
        known = self.storage.get(node) or self.views.get(node)
        if known is not None:
            return [known]
        return [self._by_memory[leaf.untyped_storage()._cdata] for leaf in tensors(node.meta.get("val"))]

    def _widen(self, op: Op) -> None:
        """Gives a batch's statistics the type that they have on the processor where the input is narrower than the parameters.

        PyTorch's fake tensors have the input's there.
        """
        values = [node.meta["val"] for node in op.node.args[1:5] if isinstance(node, fx.Node)]
        for storage in {self.storage[part] for part in op.parts if part.args[1] in (1, 2)}:
            if storage.device.type == "cpu" and values and values[0].dtype.itemsize > storage.dtype.itemsize:
                storage.bytes = storage.bytes // storage.dtype.itemsize * torch.float32.itemsize
                storage.dtype = torch.float32

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
        changed = {self.storage[node]: self.op.get(made) or self.storage[made].writer for node, made in self.mutated.items()}
        for op in self.ops:
            op.mutates = [storage for storage in op.reads if changed.get(storage) is op]
            if op.statistics:
                self._widen(op)
                # A rerun makes the output and the statistics of the batch anew, and leaves the running ones alone.
                running = {self.storage[node] for node in op.node.args[3:5] if isinstance(node, fx.Node)}
                made = {self.storage[part] for part in op.parts if part.args[1] in op.statistics}
                for storage in made:
                    storage.held = True
                op.again = ([each for each in op.reads if each not in running], [each for each in op.writes if each not in made])
            elif any(storage in changed for storage in op.reads):
                op.rerunnable = False


def _memory(node: fx.Node, value: torch.Tensor) -> torch.UntypedStorage:
    if value.layout != torch.strided:
        raise Unsupported(f"a tensor of layout {str(value.layout).removeprefix('torch.')} ({node.name})")
    memory = value.untyped_storage()
    if not all(isinstance(size, int) for size in (*value.shape, *value.stride(), value.storage_offset(), memory.nbytes())):
        raise Unsupported(f"dynamic shapes ({node.name}): compile with dynamic=False")
    return memory


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

