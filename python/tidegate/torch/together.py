"""Graphs of one iteration: what a graph keeps for its backward is there while the graphs after it run.

A graph is *open* from its forward until its backward has run. One that is planned while others are open counts what they
keep as memory that is taken. After the first iteration all are known, and each is planned once more: with the parameters and
gradients of those after it, and with room at the end of its forward for what those take there, as much less than in core
as the budget is less. So each plan's peak is that of all graphs while this one runs, and its proof holds for all of them.

A graph that is called several times before its backward, as that of a block is, is one of the others for itself: all its calls
have one plan, which counts what the other calls keep, and leaves as much room that no call keeps more.
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

# How often a graph that is called several times is planned with others anew.
MOST = 3


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
    # What each call of this one is taken to keep, where there are several, and the budget of all, where it is known.
    each: int | None = None
    limit: int = 0

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


@dataclass
class Tried:
    """How far the plan of a graph that is called several times has come."""

    # The budget of the next one, what one call needs of it and keeps, as far as that is known.
    limit: int | None = None
    need: int = 0
    each: int | None = None
    # What each call keeps and the budget of a plan to come back to.
    fallback: tuple[int, int] | None = None
    times: int = 0
    # Why that budget is not what was asked for.
    note: str | None = None


@dataclass(eq=False)
class Place:
    """A graph among those of its iteration: its own sizes, and who is there while it runs."""

    in_core: int = 0
    kept: int = 0
    kept_in_core: int = 0
    gradients: int = 0
    # How often it is called before its backward, and what its calls but the last were given and gave.
    times: int = 1
    beside: int = 0
    # What its last forward was given and gave, by address; and the same of all calls that were open then.
    given: dict[int, int] = field(default_factory=dict)
    tensors: dict[int, int] = field(default_factory=dict)
    all_given: dict[int, int] = field(default_factory=dict)
    all_tensors: dict[int, int] = field(default_factory=dict)
    before: list[Place] = field(default_factory=list)
    after: list[Place] = field(default_factory=list)
    # Whether its backward has run, and whether it was planned with all others known.
    closed: bool = False
    settled: bool = False
    # The most that all took at once while this one ran in core, as it was last reckoned.
    seen: int = 0
    # Of a plan that fits it.
    budget: int = 0
    # What counts at forward's last op beside what is kept, and room for addresses, which plans have in steps.
    passing: int = 0
    steps: int = 0
    # Where it is called several times.
    tried: Tried = field(default_factory=Tried)
    # Calls whose backward has not run, and of these the ones that keep what backward reads.
    nodes: list[weakref.ref] = field(default_factory=list)
    keeping: list[weakref.ref] = field(default_factory=list)

    @property
    def open(self) -> bool:
        """Whether a backward of it is still to run."""
        return any(node() is not None for node in self.nodes)

    @property
    def due(self) -> bool:
        """Whether it is to be planned once more."""
        return self.closed and not self.settled and not self.open and bool(self.before or self.after or self.times > 1)

    def opened(self, inputs: tuple, outputs: object, nodes: list) -> None:
        """Its forward has run, and made these nodes of autograd."""
        for other in _open():
            if other is not self and other not in self.after:
                self.before += [other] if other not in self.before else []
                other.after += [self] if self not in other.after else []
        if not self.open:
            self.nodes, self.keeping, self.all_given, self.all_tensors = [], [], {}, {}
        self.given = memory(inputs)
        self.tensors = self.given | memory(outputs)
        self.all_given |= self.given
        self.all_tensors |= self.tensors
        self.nodes += [weakref.ref(node) for node in nodes[:1]]
        # A checkpoint around it, or `save_on_cpu`, takes what is saved for backward elsewhere.
        if torch._C._autograd._top_saved_tensors_default_hooks(False) is None:
            self.keeping += [weakref.ref(node) for node in nodes[:1]]
        count = sum(node() is not None for node in self.keeping)
        if count > self.times:
            self.times = count
            for place in self._all():
                place.settled, place.tried = False, Tried()
        _PLACES.add(self)

    def close(self) -> None:
        """A backward of it has run."""
        if not self.nodes:
            return  # What is compared with eager is no call of an iteration.
        if not self.settled:
            known = self.tensors.keys() | _merged(other.all_tensors for other in self.before).keys()
            self.beside = sum(size for address, size in self.all_tensors.items() if address not in known)
        self.nodes.pop()
        self.closed = True

    def sizes(self, joint: Joint) -> None:
        """Reads what it keeps in core and the gradients that it leaves off the graph."""
        read = {storage for op in joint.ops if not op.forward for storage in op.reads}
        self.kept_in_core = sum(each.bytes for each in read if not each.held and each.writer is not None and each.writer.forward)
        last = next((op for op in reversed(joint.ops) if op.forward), None)
        self.passing = sum(each.bytes for each in last.reads if not each.held and each not in read) if last else 0
        self.passing += sum(joint.storage[node].bytes for node in joint.tangents if node in joint.storage)
        self.steps = 256 * len(joint.storages)
        results = {joint.storage[node] for node in joint.outputs[joint.forward_outputs :] if node in joint.storage}
        self.gradients = sum(storage.bytes for storage in results if storage.writer is not None)

    def others(self, given: dict[int, int], share: float | None, least: int) -> Others:
        """What the others take, for a budget that is a share of what all take in core, or bytes, which plans have had.

        `least` is what no plan for the graph alone can do below.
        """
        if not self.settled:
            self.before = [other for other in _open() if other is not self] or self.before
        again = self.times - 1
        own = self.tensors if again else given | self.tensors
        earlier = _merged(other.all_tensors for other in self.before)
        later = _merged(other.all_given for other in self.after)
        before = sum(earlier[address] for address in earlier.keys() - own.keys()) + (self.beside if again else 0)
        after = sum(later[address] for address in later.keys() - own.keys() - self.all_tensors.keys() - earlier.keys())
        gradients = sum(other.times * other.gradients for other in self.after)
        in_core = before + sum(other.times * other.kept_in_core for other in self.before) + again * self.kept_in_core
        self.seen = self.in_core + in_core + after + gradients + again * max(0, self.gradients - self.kept_in_core)
        everything = max(place.seen for place in self._all())
        if share is None:
            share = max(place.budget for place in self._all()) / max(1, everything) or None
        here = after + sum(self.tensors.values())
        room = 0
        if self.after and share is not None:
            # Parameters and the like do not shrink with the budget: the rest has to by more.
            fixed = sum(_merged(place.all_given for place in self._all()).values())
            smaller = max(0.0, (share * everything - fixed) / max(1, everything - fixed))
            room = int(smaller * max(0, *(other.seen - here - in_core - self.kept_in_core for other in self.after)))
        before += sum(other.times * other.kept for other in self.before)
        if not again:
            return Others(before, after, gradients, room, everything)
        # One call takes what it needs, and what is left is for all to keep.
        tried = self.tried
        limit = int((share or 0.0) * everything) if tried.limit is None else tried.limit
        left = limit - before - after - gradients
        left = (left - tried.need) // again if tried.need else (left - least - self.steps) // self.times
        each = max(0, min(left, self.kept_in_core)) if tried.each is None else tried.each
        before += again * max(each, self.gradients)
        room = max(room, limit - before - gradients - here - each - self.passing)
        return Others(before, after, gradients, room, everything, each, limit)

    def fits(self, others: Others, budget: int, note: str | None) -> bool:
        """Whether a plan for a budget is to be had with what was counted of others; if not, one is to be made anew.

        That a call keeps less than was counted is tried with what it keeps, which says a nearer peak; that it keeps more,
        as where a budget was refused, of which there is a note, and a larger one found, takes a budget in which it may.
        """
        tried = self.tried
        if others.each is None or self.kept == others.each or tried.times > MOST:
            return True
        more = self.kept > others.each
        if tried.fallback is not None and (more or note is not None):
            (tried.each, tried.limit), tried.times = tried.fallback, MOST + 1
            return False
        if tried.times == MOST:
            return True
        tried.times += 1
        tried.note = tried.note or note
        if more:
            tried.limit, tried.need = budget, budget - others.before - others.after - others.gradients
            tried.each = max(self.kept, self.kept_in_core) if tried.times == MOST else None
        else:
            tried.fallback = (others.each, others.limit or budget)
            fewer = max(others.each, self.gradients) - max(self.kept, self.gradients)
            tried.each, tried.limit = self.kept, budget - (self.times - 1) * fewer
        return False

    def _all(self) -> list[Place]:
        found = [self]
        for place in found:
            found += [other for other in (*place.before, *place.after) if other not in found]
        return found


_PLACES: weakref.WeakSet[Place] = weakref.WeakSet()


def _open() -> list[Place]:
    return [place for place in _PLACES if place.open]


def memory(values: object) -> dict[int, int]:
    """Bytes of the memory of all tensors, by its address."""
    leaves = (leaf for leaf in pytree.tree_leaves(values) if type(leaf) in (torch.Tensor, torch.nn.Parameter) and leaf.layout == torch.strided)
    return {leaf.untyped_storage().data_ptr(): leaf.untyped_storage().nbytes() for leaf in leaves}


def _merged(maps: Iterable[dict[int, int]]) -> dict[int, int]:
    return {address: size for each in maps for address, size in each.items()}
