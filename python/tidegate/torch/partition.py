"""Forward and backward graphs from a plan's actions."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch import fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from . import offload, schedule
from .graph import GIVEN_BACK, WORKSPACE, Joint, Op, Storage, Unsupported, is_number, tensors

_OPS = torch.ops.tidegate
_FUNCTIONAL = torch.ops.aten._native_batch_norm_legit_functional.default
_NO_STATISTICS = torch.ops.aten._native_batch_norm_legit.no_stats


class _Side:
    """One of the two graphs while it is written."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        # What the other side made and this one was given.
        self.given: dict[fx.Node, fx.Node] = {}
        self.constants: dict[fx.Node, fx.Node] = {}
        self.views: dict[Storage, dict[fx.Node, fx.Node]] = {}
        self.anchor = self.graph.placeholder("anchor")


class Partition:
    """Writes both graphs: forward up to the last forward op, and backward from there."""

    def __init__(self, joint: Joint, plan: dict, workspaces: list[int]):
        self.joint, self.workspaces = joint, workspaces
        self.buffers = plan["content"]["buffers"]
        self.host = plan["content"]["host_buffers"]
        self.actions = schedule.actions(plan)
        self.by_number = {action.number: action for action in self.actions}
        self.tensor = {storage: number for number, storage in enumerate(joint.storages)}
        self.values: dict[fx.Node, fx.Node] = {}
        self.states: dict[Op, fx.Node] = {}
        self.again = {action.target for action in self.actions if action.task == "recompute"}
        self.fakes = next(leaf.fake_mode for leaf in _fakes(joint))
        self.forward, self.backward = _Side(), _Side()
        self.side = self.forward
        # What a copy out that has not surely ended still reads, and copies in that nothing waited for.
        self.leaving: dict[int, fx.Node] = {}
        self.arriving: set[int] = set()
        # The copy out that filled each host buffer.
        self.filled: dict[int, int] = {}
        self.pool: fx.Node | None = None
        host_bytes = plan["content"]["predicted"]["host_arena_bytes"]
        self.swaps = any(action.task == "d2h" and not self._held(action.target) for action in self.actions)
        self.number = offload.register(joint.device, host_bytes) if self.swaps else -1

    def _held(self, tensor: int) -> bool:
        return self.joint.storages[tensor].held

    def modules(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The forward and the backward module, as AOTAutograd takes them."""
        for node in self.joint.inputs:
            self.values[node] = self._placeholder(self.forward, node.name, node.meta)
        if self.swaps:
            with self.fakes:
                value = _OPS.pool.default(self.number)
            self.pool = self._call(_OPS.pool.default, (self.number,), value)
        last = max((index for index, action in enumerate(self.actions)
                    if action.task == "run" and self.joint.ops[action.target].forward), default=-1)  # fmt: skip
        for index, action in enumerate(self.actions):
            if index > last and self.side is self.forward and (action.task in schedule.COMPUTE or action.task == "h2d"):
                self._cut()
            self._emit(action)
        if self.side is self.forward:
            self._cut()
        return self._finish()

    def _call(self, target: object, given: tuple, value: object = None) -> fx.Node:
        node = self.side.graph.call_function(target, given)
        if value is not None:
            node.meta["val"] = value
        return node

    def _cut(self) -> None:
        # What forward returns may be dropped unused, which must not give memory back that a copy still fills.
        self._wait(sorted(self.arriving), [])
        outputs = self.joint.outputs[: self.joint.forward_outputs]
        self.results = [self._find(node) if isinstance(node, fx.Node) else node for node in outputs]
        self.side = self.backward
        for node in self.joint.tangents:
            self.values[node] = self._placeholder(self.backward, node.name, node.meta)
        self.tangents = [self.values[node] for node in self.joint.tangents]

    def _placeholder(self, side: _Side, name: str, meta: dict) -> fx.Node:
        with side.graph.inserting_before(side.anchor):
            node = side.graph.placeholder(name)
        node.meta = dict(meta)
        return node

    def _here(self, node: fx.Node) -> fx.Node:
        """A node of either graph in the one that is written."""
        if node.graph is self.side.graph:
            return node
        if node not in self.side.given:
            # Numbers come first, and tangents last.
            first = next(each for each in self.side.graph.find_nodes(op="placeholder") if not is_number(each) and (is_number(node) or each in (*self.tangents, self.side.anchor)))
            # The name is of its own: code that is generated gives arguments their nodes' names one after the other,
            # and would write over an argument that is called as an earlier one's node.
            with self.side.graph.inserting_before(first):
                given = self.side.graph.placeholder(f"saved_{len(self.side.given)}")
            given.meta = dict(node.meta)
            self.side.given[node] = given
        return self.side.given[node]

    def _find(self, node: fx.Node) -> fx.Node:
        """What holds this value of the joint graph now; views are made from their bases."""
        if node.op == "get_attr":
            if node not in self.side.constants:
                self.side.constants[node] = self.side.graph.node_copy(node)
            return self.side.constants[node]
        if node in self.joint.views:
            views = self.side.views.setdefault(self.joint.views[node], {})
            if node not in views:
                views[node] = self.side.graph.node_copy(node, self._find)
            return views[node]
        if node not in self.values and is_number(node):
            if node not in self.side.constants:
                self.side.constants[node] = self.side.graph.node_copy(node, self._find)
            return self.side.constants[node]
        if node not in self.values:
            raise Unsupported(f"a plan that uses {node.name} where it is not on the device")
        return self._here(self.values[node])

    def _set(self, node: fx.Node, made: fx.Node) -> None:
        """This value is there anew, so that views of it are made anew, too."""
        self.values[node] = made
        self.side.views.pop(self.joint.storage.get(node), None)

    def _emit(self, action: schedule.Action) -> None:
        if action.task == "d2h":
            if not self._held(action.target):
                self._offload(action)
            return
        if action.task == "h2d":
            if not self._held(action.target):
                self._release(action, [])
                self._reload(action)
            return
        self._release(action, [other for other in action.after if self._copied(other)])
        op = self.joint.ops[action.target]
        if action.task == "run":
            self._run(op)
        else:
            self._rerun(op, {self.buffers[buffer].get("tensor") for buffer in action.writes})

    def _copied(self, number: int) -> bool:
        action = self.by_number[number]
        return action.task in ("d2h", "h2d") and not self._held(action.target)

    def _release(self, action: schedule.Action, waited: list[int]) -> None:
        ended = [number for number in action.ended if number in self.leaving]
        # One stream's copies end in order, so that the last one is waited for.
        self._wait(sorted({*waited, *ended[-1:]}), ended)

    def _wait(self, waited: list[int], ended: list[int]) -> None:
        if waited or ended:
            held = [self._here(self.leaving.pop(number)) for number in ended]
            self._call(_OPS.wait.default, (held, self.number, waited))
            self.arriving.difference_update(waited)

    def _after(self, action: schedule.Action) -> list[int]:
        """The copies of the other direction that a copy is to follow."""
        return [other for other in action.after if self._copied(other) and self.by_number[other].task != action.task]

    def _nodes(self, storage: Storage) -> list[fx.Node]:
        return [node for node in storage.writer.values if self.joint.storage.get(node) is storage]

    def _offload(self, action: schedule.Action) -> None:
        storage = self.joint.storages[action.target]
        nodes = self._nodes(storage)
        source, address = self._find(nodes[0]), self.host[action.host]["address"]
        stride = [] if _whole(nodes) else list(nodes[0].meta["val"].stride())
        given = (source, self._here(self.pool), address, storage.bytes, stride, self.number, action.number, self._after(action))
        self._call(_OPS.offload.default, given)
        self.filled[action.host] = action.number
        self.leaving[action.number] = source

    def _reload(self, action: schedule.Action) -> None:
        storage = self.joint.storages[action.target]
        nodes = self._nodes(storage)
        value = nodes[0].meta["val"]
        whole = _whole(nodes)
        size, stride = (value.size(), value.stride()) if whole else ((storage.bytes // value.element_size(),), (1,))
        dtype = storage.dtype if whole else value.dtype
        given = (
            self._here(self.pool), self.host[action.host]["address"], list(size), list(stride), dtype, value.device,
            self.number, action.number, self._after(action), self.filled[action.host] if whole else None,
        )  # fmt: skip
        with self.fakes:
            fake = torch.empty_strided(size, stride, dtype=dtype, device=value.device)
        made = self._call(_OPS.reload.default, given, fake)
        self.arriving.add(action.number)
        for node in nodes:
            value = node.meta["val"]
            shape = (made, value.size(), value.stride(), value.storage_offset())
            self._set(node, made if whole else self._call(torch.ops.aten.as_strided.default, shape, value))

    def _run(self, op: Op) -> None:
        if op.random and op.index in self.again:
            called = self._call(run_and_save_rng_state, (op.node.target, *self._arguments(op)))
            called.kwargs = {key: self._map(value) for key, value in op.node.kwargs.items()}
            with self.fakes:
                state = torch.empty(op.state_bytes, dtype=torch.uint8)
            self.states[op] = self._call(operator.getitem, (called, 0), state)
            self._results(op, self._call(operator.getitem, (called, 1), op.node.meta["val"]), None)
            return
        made = self.side.graph.node_copy(op.node, self._find)
        self._results(op, made, None)

    def _rerun(self, op: Op, wanted: set[int | None]) -> None:
        if not op.rerunnable:
            raise Unsupported(f"a plan that runs {op.node.name} again, which cannot")
        kept = {node for node in op.values if self.tensor.get(self.joint.storage.get(node), -1) in wanted}
        if op.node.target is _FUNCTIONAL:
            given = op.node.args
            made = self._call(_NO_STATISTICS, self._map((*given[:3], *given[5:])), op.node.meta["val"][:3])
        elif op.statistics:
            # Running statistics have changed since, and what is made of them is not used: any tensors of their shape do.
            given = op.node.args
            made = self._call(op.node.target, self._map((*given[:3], given[1], given[1], *given[5:])), op.node.meta["val"])
        elif op.random:
            state = self._here(self.states[op])
            made = self._call(run_with_rng_state, (state, op.node.target, *self._arguments(op)), op.node.meta["val"])
            made.kwargs = {key: self._map(value) for key, value in op.node.kwargs.items()}
        else:
            made = self.side.graph.node_copy(op.node, self._find)
        self._results(op, made, kept)

    def _map(self, value: object) -> object:
        return fx.map_arg(value, self._find)

    def _arguments(self, op: Op) -> tuple:
        return self._map(op.node.args)

    def _results(self, op: Op, made: fx.Node, kept: set[fx.Node] | None) -> None:
        call = made.args[0] if made.target is operator.getitem else made
        # Where it draws as it did, the generator's own state waits.
        state = op.state_bytes if call.target is run_with_rng_state else 0
        call.meta[WORKSPACE] = self.workspaces[op.index] + state
        if not op.parts:
            if isinstance(op.node.meta.get("val"), torch.Tensor):
                self._set(op.node, made)
            return
        nested = {op.node: made}
        for part in op.parts:
            if kept is None or part in kept or not isinstance(part.meta.get("val"), torch.Tensor):
                nested[part] = self._call(operator.getitem, (nested[part.args[0]], part.args[1]), part.meta.get("val"))
                nested[part].meta = dict(part.meta)
                self._set(part, nested[part])

    def _finish(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        results = self.joint.outputs[self.joint.forward_outputs :]
        results = [self._find(node) if isinstance(node, fx.Node) else node for node in results]
        if self.leaving:
            last = max(self.leaving)
            self._wait([last], sorted(self.leaving))
        if self.swaps:
            self._call(_OPS.release.default, (self._here(self.pool), self.number))
        saved = sorted(self.backward.given, key=is_number)
        self.kept_bytes = self._kept(saved)
        self._close(self.backward, results)
        self._close(self.forward, [*self.results, *saved])
        made = [fx.GraphModule(self.joint.module, side.graph) for side in (self.forward, self.backward)]
        return made[0], made[1]

    def _kept(self, saved: list[fx.Node]) -> int:
        """Bytes that are saved for backward and that nobody else has."""
        known = [node for node in (*self.forward.graph.find_nodes(op="placeholder"), *self.results, self.pool) if isinstance(node, fx.Node)]
        memory = lambda nodes: {  # noqa: E731
            leaf.untyped_storage()._cdata: leaf.untyped_storage().nbytes() for node in nodes for leaf in tensors(node.meta.get("val"))
        }
        counted, kept = memory(known), 0
        for node in saved:
            own = {key: size for key, size in memory([node]).items() if key not in counted}
            self.backward.given[node].meta[GIVEN_BACK] = sum(own.values())
            counted |= own
            kept += sum(own.values())
        return kept

    def _close(self, side: _Side, results: list) -> None:
        side.graph.erase_node(side.anchor)
        side.graph.output(tuple(results))
        side.graph.lint()


def _whole(nodes: list[fx.Node]) -> bool:
    """Whether a storage is one value from its first byte on."""
    return len(nodes) == 1 and nodes[0].meta["val"].storage_offset() == 0


def _fakes(joint: Joint) -> Iterable[torch.Tensor]:
    for node in (*joint.inputs, *joint.tangents):
        if hasattr(node.meta.get("val"), "fake_mode"):
            yield node.meta["val"]
