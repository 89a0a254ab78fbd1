"""The order in which a plan's actions are given to the device.

Compute keeps the plan's order. A copy is given right after the last action that it must follow, because its stream then
waits for just that; but what frees memory to PyTorch's allocator frees it for compute. So one that brings a tensor in over
memory that another copy reads is given where compute waits for that copy: right before the action that does, or, where none
has, at its own place in the plan's list, at which that copy is expected to have ended.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

COMPUTE = ("run", "recompute")
_BEFORE, _AT, _AFTER = range(3)


@dataclass
class Action:
    """An action of the plan, with what it must wait for."""

    number: int
    task: str
    target: int
    host: int | None
    reads: list[int]
    writes: list[int]
    after: list[int]
    # Copies out that have certainly ended when it starts, so that what they read may be freed.
    ended: list[int]


def actions(plan: dict) -> list[Action]:
    """The plan's actions in the order in which they are given."""
    content = plan["content"]
    listed = [_action(number, action) for number, action in enumerate(content["actions"])]
    unknown = {action.task for action in listed} - {*COMPUTE, "d2h", "h2d"}
    if unknown:
        raise ValueError(f"a plan with actions that PyTorch is not given: {', '.join(sorted(unknown))}")
    lanes: dict[str, int] = {}
    clocks: list[dict[str, int]] = []
    position: list[tuple] = []
    # Copies out that compute has waited for, and the action that did.
    known, waited_at = [-1], [-1]
    for action in listed:
        lane = "compute" if action.task in COMPUTE else action.task
        before = action.after + ([lanes[lane]] if lane in lanes else [])
        clock: dict[str, int] = {}
        for other in before:
            for key, value in clocks[other].items():
                clock[key] = max(clock.get(key, -1), value)
        clocks.append({**clock, lane: action.number})
        lanes[lane] = action.number
        out = clock.get("d2h", -1)
        place, side, *_ = max((position[other] for other in before), default=(-1, _AT))
        if lane == "compute" or (lane == "h2d" and out > known[-1]):
            action.ended = _copies_out(listed, known[-1], out)
            if out > known[-1]:
                known.append(out)
                waited_at.append(action.number)
            position.append((action.number, _AT))
            continue
        freed = waited_at[bisect_left(known, out)] if lane == "h2d" else -1
        if place < freed:
            action.ended, listed[freed].ended = listed[freed].ended, []
            position.append((freed, _BEFORE, action.number))
        else:
            position.append((place, _AFTER if side == _AT else side, action.number))
    return sorted(listed, key=lambda action: position[action.number])


def _copies_out(listed: list[Action], after: int, until: int) -> list[int]:
    return [action.number for action in listed[after + 1 : until + 1] if action.task == "d2h"]


def _action(number: int, action: dict) -> Action:
    task, target = next(iter(action["task"].items()))
    waits = sorted({*action.get("after", []), *action.get("not_before", [])})
    return Action(number, task, target, action.get("host"), action.get("reads", []), action.get("writes", []), waits, [])
