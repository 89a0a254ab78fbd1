"""Plans for captured graphs."""

from __future__ import annotations

import json
import os

import tidegate

from . import cache, machine


def plan(trace: tidegate.Trace, place: tidegate.Machine, budget: str | int, method: str, allow: str | None,
         evaluations: int | None) -> tidegate.Plan:  # fmt: skip
    """The plan, from the cache if the same was asked for before.

    Times as measured vary from run to run, so that the cache goes by the graph instead of by the trace.
    """
    return tidegate.plan(trace, place, budget=budget, method=method, allow=allow or "keep,swap,recompute", evaluations=evaluations)


def read(document: dict) -> tidegate.Trace:
    """The trace of a document."""
    try:
        return tidegate.Trace.from_json(json.dumps(document))
    except tidegate.Error:
        content = dict(document["content"])
        content["provenance"] = {k: v for k, v in content["provenance"].items() if k != "graph"}
        new = {"key", "mutates", "rerun", "random_bytes"}
        content["ops"] = [{k: v for k, v in op.items() if k not in new} for op in content["ops"]]
        content["tensors"] = [
            {k: v for k, v in t.items() if k not in ("key", "held") and (k != "dtype" or v not in ("bool", "i16", "i8", "f8_e4m3", "f8_e5m2", "complex64"))}
            for t in content["tensors"]
        ]
        return tidegate.Trace.from_json(json.dumps({**document, "content": content}))
