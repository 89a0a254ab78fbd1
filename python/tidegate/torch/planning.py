"""Plans for captured graphs."""

from __future__ import annotations

import json

import tidegate

from . import measure


# Evaluations of one search unless said otherwise, times ops: what an evaluation takes grows with these, so that planning
# takes some seconds for any network.
WORK = 5_000_000
# What is tried where a budget cannot be met: the least that any plan needs is a bound, not what a method finds.
ROOM = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5)


def plan(
    trace: tidegate.Trace, place: tidegate.Machine, budget: str | int, method: str, allow: str | None, evaluations: int | None,
    *, strict: bool, of: str = "",
) -> tuple[tidegate.Plan, str | None]:  # fmt: skip
    """The plan, and what is not as it was asked for. `of` is what the budget is a share of, where it is more than the trace."""

    def within(size: str | int) -> tidegate.Plan:
        return tidegate.plan(trace, place, budget=size, method=method, allow=allow or "keep,swap,recompute",
                             evaluations=evaluations or min(20_000, max(1_000, WORK // max(1, len(trace.ops)))))  # fmt: skip

    try:
        return within(budget), None
    except tidegate.PlanError as error:
        least = getattr(error, "least_budget_bytes", None)
        if strict or least is None:
            raise
        refused = error
    asked = budget if isinstance(budget, str) else measure.size(budget)
    sizes = [int(least * room) for room in ROOM]
    for size in sizes:
        try:
            return within(size), f"planned for {measure.size(size)}, as {asked}{of} cannot be had: {refused}"
        except tidegate.PlanError as error:
            # Tensors of some bytes lie as far apart as larger ones: in a tiny graph that is more than all that they hold.
            short = getattr(error, "short_by_bytes", None)
            if size == sizes[-1] and short:
                sizes.append(int(max(size + short, ROOM[-1] * size)))
    raise refused


def least(trace: tidegate.Trace) -> int:
    """What no plan can do below, on any machine."""
    try:
        return tidegate.plan(trace, tidegate.Machine.load("h100-sxm"), budget=1).peak_bytes
    except tidegate.PlanError as error:
        return getattr(error, "least_budget_bytes", None) or 0


def read(document: dict, machine: tidegate.Machine | None = None) -> tidegate.Trace:
    """The trace of a document; times that it leaves out are modelled for a machine."""
    return tidegate.Trace.from_json(json.dumps(document), machine)
