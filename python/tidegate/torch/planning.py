"""Plans for captured graphs."""

from __future__ import annotations

import json

import tidegate


def plan(trace: tidegate.Trace, place: tidegate.Machine, budget: str | int, method: str, allow: str | None,
         evaluations: int | None) -> tidegate.Plan:  # fmt: skip
    """The plan; what PyTorch has no codecs for is not offered."""
    return tidegate.plan(trace, place, budget=budget, method=method, allow=allow or "keep,swap,recompute", evaluations=evaluations)


def read(document: dict) -> tidegate.Trace:
    """The trace of a document."""
    return tidegate.Trace.from_json(json.dumps(document))
