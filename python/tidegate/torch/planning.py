"""Planning, by the command until the package has the planner inside."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import cache

COMMAND = os.environ.get("TIDEGATE", "/work/main/target/release/tidegate")


class PlanError(ValueError):
    """No plan; the message says why and what would do."""


@cache
def _known() -> set[str]:
    schema = json.loads(subprocess.run([COMMAND, "schema", "trace"], capture_output=True, text=True, check=True).stdout)
    kinds = schema["$defs"]
    return {f"{kind}.{name}" for kind in ("Op", "Tensor", "Provenance") for name in kinds[kind]["properties"]} | {
        f"Dtype.{entry['const']}" for entry in kinds["Dtype"]["oneOf"]
    }


def readable(document: dict) -> dict:
    """The document without what this command does not know yet."""
    known = _known()
    content = dict(document["content"])
    content["provenance"] = {k: v for k, v in content["provenance"].items() if f"Provenance.{k}" in known}
    content["ops"] = [{k: v for k, v in op.items() if f"Op.{k}" in known} for op in content["ops"]]
    content["tensors"] = [
        {k: v for k, v in t.items() if f"Tensor.{k}" in known and (k != "dtype" or f"Dtype.{v}" in known)}
        for t in content["tensors"]
    ]
    return {**document, "content": content}


def plan(document: dict, machine: str, budget: str, method: str, allow: str | None, evaluations: int | None) -> dict:
    """The plan document."""
    with tempfile.TemporaryDirectory() as folder:
        trace, output = os.path.join(folder, "trace.json"), os.path.join(folder, "plan.json")
        with open(trace, "w", encoding="utf-8") as file:
            json.dump(readable(document), file)
        call = [COMMAND, "plan", trace, "-m", machine, "-b", str(budget), "--method", method, "-o", output]
        call += ["--allow", allow] if allow else []
        call += ["--evaluations", str(evaluations)] if evaluations else []
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PlanError((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
        with open(output, encoding="utf-8") as file:
            return json.load(file)
