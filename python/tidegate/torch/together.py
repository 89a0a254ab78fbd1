"""Graphs of one iteration: what a graph keeps for its backward is there while the graphs after it run.

A graph is *open* from its forward until its backward has run. One that is planned while others are open counts what they
keep as memory that is taken. After the first iteration all are known, and each is planned once more: with the parameters and
gradients of those after it, and with room at the end of its forward for what those take there, as much less than in core
as the budget is less. So each plan's peak is that of all graphs while this one runs, and its proof holds for all of them.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree

from .graph import Joint, Storage
from .times import Costs


@dataclass(frozen=True)
class Others:
    """Bytes of other graphs, beside one."""

    # What graphs before it keep under their plans.
    before: int = 0
    # What graphs after it are given that this one is not, and the gradients that they leave.
    after: int = 0
    gradients: int = 0
    # What those after it take for themselves at the end of its forward, at most.
    room: int = 0
    # What all take in core, at most.
    in_core: int = 0

    def count(self, joint: Joint, costs: Costs) -> Costs:
        """Adds them to a graph; where there is room to be left, its last forward op needs it to work in."""
        first = next((op for op in joint.ops if not op.forward), None)
        for name, size, appears in (("before", self.before, None), ("after", self.after, None), ("gradients", self.gradients, first)):
            if size:
                joint.storages.append(Storage(f"other_graphs_{name}", size, torch.uint8, joint.device, held=True, role="input", appears=appears))
        last = max((op.index for op in joint.ops if op.forward), default=None)
        if not self.room or last is None:
            return costs
        spaces = [max(size, self.room) if index == last else size for index, size in enumerate(costs.workspaces)]
        return dataclasses.replace(costs, workspaces=spaces)


@dataclass(eq=False)
class Place:
    """A graph among those of its iteration: its own sizes, and who is there while it runs."""

    in_core: int = 0
    kept: int = 0
    kept_in_core: int = 0
    gradients: int = 0
    # What its last forward was given and gave, by address.
    given: dict[int, int] = field(default_factory=dict)
    tensors: dict[int, int] = field(default_factory=dict)
    before: list[Place] = field(default_factory=list)
    after: list[Place] = field(default_factory=list)
    # Whether its backward has run, and whether it was planned with all others known.
    closed: bool = False
    settled: bool = False
    # The most that all took at once while this one ran in core, as it was last reckoned.
    seen: int = 0
    # Of a plan that fits it.
    budget: int = 0
    node: weakref.ref | None = None

    @property
    def due(self) -> bool:
        """Whether it is to be planned once more."""
        return self.closed and not self.settled and bool(self.before or self.after)

    def opened(self, inputs: tuple, outputs: object, nodes: list) -> None:
        """Its forward has run, and made these nodes of autograd."""
        for other in _open():
            if other is not self and other not in self.after:
                self.before += [other] if other not in self.before else []
                other.after += [self] if self not in other.after else []
        self.given = memory(inputs)
        self.tensors = self.given | memory(outputs)
        self.node = weakref.ref(nodes[0]) if nodes else None
        _PLACES.add(self)

    def close(self) -> None:
        """Its backward has run."""
        self.node, self.closed = None, True

    def sizes(self, joint: Joint) -> None:
        """Reads what it keeps in core and the gradients that it leaves off the graph."""
        read = {storage for op in joint.ops if not op.forward for storage in op.reads}
        self.kept_in_core = sum(each.bytes for each in read if not each.held and each.writer is not None and each.writer.forward)
        results = {joint.storage[node] for node in joint.outputs[joint.forward_outputs :] if node in joint.storage}
        self.gradients = sum(storage.bytes for storage in results if storage.writer is not None)

    def others(self, given: dict[int, int], share: float | None) -> Others:
        """What the others take, for a budget that is a share of what all take in core, or bytes, which plans have had."""
        if not self.settled:
            self.before = [other for other in _open() if other is not self] or self.before
        own = given | self.tensors
        earlier = _merged(other.tensors for other in self.before)
        later = _merged(other.given for other in self.after)
        before = sum(earlier[address] for address in earlier.keys() - own.keys())
        after = sum(later[address] for address in later.keys() - own.keys() - earlier.keys())
        gradients = sum(other.gradients for other in self.after)
        in_core = before + sum(other.kept_in_core for other in self.before)
        self.seen = self.in_core + in_core + after + gradients
        everything = max(place.seen for place in self._all())
        if share is None:
            share = max(place.budget for place in self._all()) / max(1, everything) or None
        room = 0
        if self.after and share is not None:
            # Parameters and the like do not shrink with the budget: the rest has to by more.
            fixed = sum(_merged(place.given for place in self._all()).values())
            smaller = max(0.0, (share * everything - fixed) / max(1, everything - fixed))
            here = in_core + after + self.kept_in_core + sum(self.tensors.values())
            room = int(smaller * max(0, *(other.seen - here for other in self.after)))
        return Others(before + sum(other.kept for other in self.before), after, gradients, room, everything)

    def _all(self) -> list[Place]:
        found = [self]
        for place in found:
            found += [other for other in (*place.before, *place.after) if other not in found]
        return found


_PLACES: weakref.WeakSet[Place] = weakref.WeakSet()


def _open() -> list[Place]:
    return [place for place in _PLACES if place.node is not None and place.node() is not None]


def memory(values: object) -> dict[int, int]:
    """Bytes of the memory of all tensors, by its address."""
    leaves = (leaf for leaf in pytree.tree_leaves(values) if type(leaf) in (torch.Tensor, torch.nn.Parameter) and leaf.layout == torch.strided)
    return {leaf.untyped_storage().data_ptr(): leaf.untyped_storage().nbytes() for leaf in leaves}


def _merged(maps: Iterable[dict[int, int]]) -> dict[int, int]:
    return {address: size for each in maps for address, size in each.items()}
