"""Trains a model under a plan and prints what was predicted beside what was measured.

    python python/examples/train_under_a_plan.py resnet50 gpt2 --budget 60% --budget 45%

For each model: a step in eager, one of the graph that PyTorch's compiler makes of it (`no plan`), and one by the plan for
each budget: the plan's peak beside the device's, predicted beside measured time, and whether parameters after some
steps are the same to the bit. Ends with 1 if any graph was trained without a plan.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import statistics
import sys
import time
import warnings

# Read when cuBLAS begins; without it, products may differ from run to run.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import models
import torch

import tidegate.torch as tt
from tidegate.torch.backend import unplanned as without_plan
from tidegate.torch.machine import named


class Device:
    """Clock and memory of the device that models are trained on."""

    def __init__(self, kind: str):
        self.cuda = kind == "cuda"

    def now(self) -> float:
        """Seconds, all work done."""
        if self.cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    def base(self) -> int:
        """Bytes that are allocated, with the peak forgotten."""
        if not self.cuda:
            return 0
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()

    def peak(self) -> tuple[int, int]:
        """Most bytes that were allocated, and set aside."""
        if not self.cuda:
            return 0, 0
        return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def train(device: Device, module, step, inputs, loss, steps: int) -> dict:
    """Some steps of SGD; times and peaks of all but the first three."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    torch.manual_seed(1)
    times, began = [], device.base()
    for index in range(steps):
        if index == 3:
            began = device.base()
        optimizer.zero_grad(set_to_none=True)
        begin = device.now()
        value = loss(models.call(step, inputs))
        value.backward()
        times.append(device.now() - begin)
        last = value.item()
        del value
        optimizer.step()
    allocated, reserved = device.peak()
    return {"s": statistics.median(times[3:]), "peak": allocated, "reserved": reserved, "base": began, "loss": last}


def bits(module) -> dict:
    """Everything that training changes, in host memory."""
    return {key: value.cpu() for key, value in module.state_dict().items()}


def same(mine: dict, theirs: dict) -> str:
    """Whether they are equal to the bit, or how far apart."""
    if all(torch.equal(mine[key], theirs[key]) for key in mine):
        return "same bits"
    apart = max(
        ((mine[key] - theirs[key]).double().norm() / theirs[key].double().norm().clamp(min=1e-30)).item()
        for key in mine if mine[key].is_floating_point()
    )  # fmt: skip
    return f"NOT THE SAME (up to {apart:.1e})"


def main() -> int:
    """Reads arguments, trains, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=sorted(models.MODELS), metavar="MODEL", help=", ".join(sorted(models.MODELS)))
    parser.add_argument("--budget", action="append", help="of the in-core peak, or bytes (60%%; may be repeated)")
    parser.add_argument("--size", default=None, choices=["tiny", "full"], help="tiny on a CPU, full on a GPU unless said")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--inner", default="eager", choices=["eager", "inductor"])
    parser.add_argument("--allow", default=None)
    parser.add_argument("--evaluations", type=int, help="of plans, in a search")
    parser.add_argument("--machine", default="here")
    parser.add_argument("--profile", help="where to write a Chrome trace of the last budget's step, and of one without a plan")
    given = parser.parse_args()
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    device = Device(kind)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling new memory is for who debugs, and would be timed.
    torch.utils.deterministic.fill_uninitialized_memory = False
    warnings.simplefilter("ignore")
    # Without it the compiler passes over recurrent layers.
    torch._dynamo.config.allow_rnn = True
    unplanned = 0
    if given.machine == "here":
        link = json.loads(named("here", torch.device(kind, 0) if device.cuda else torch.device(kind)).to_json())["content"]["link"]
        print({key: value[-1] if isinstance(value, list) else value for key, value in
               {**link, "d2h": link["d2h"]["pinned"], "h2d": link["h2d"]["pinned"]}.items()})  # fmt: skip
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name() if device.cuda else 'the CPU'}")
    for name in given.models:
        torch.manual_seed(0)
        module, inputs, loss = models.MODELS[name](given.size or ("full" if device.cuda else "tiny"), kind, given.batch)
        start = copy.deepcopy(bits(module))
        eager = train(device, module, module, inputs, loss, given.steps)
        after = bits(module)
        print_measured(f"{name} eager", eager, eager)
        module.load_state_dict(start)
        torch._dynamo.reset()
        graph = torch.compile(module, backend=without_plan, dynamic=False)
        plain = train(device, module, graph, inputs, loss, given.steps)
        after_plain = bits(module)
        print_measured(f"{name} no plan", plain, plain)
        print(f"    parameters against eager: {same(after_plain, after)}")
        if given.profile:
            profile(device, module, graph, inputs, loss, f"{given.profile}-plain.json")
        for budget in given.budget or ["60%"]:
            torch._dynamo.reset()
            tt.forget_plans()
            module.load_state_dict(start)
            options = {"budget": budget, "machine": given.machine, "inner": given.inner, "allow": given.allow, "evaluations": given.evaluations}
            step = torch.compile(module, backend=tt.tidegate, options=options, dynamic=False)
            begin = device.now()
            measured = train(device, module, step, inputs, loss, given.steps)
            unplanned += print_plans(budget)
            print_measured(f"{name} {budget}", measured, plain)
            mine = bits(module)
            print(f"    parameters against eager: {same(mine, after)}; against no plan: {same(mine, after_plain)}; "
                  f"{device.now() - begin:.0f} s with planning", flush=True)  # fmt: skip
            if given.profile:
                profile(device, module, step, inputs, loss, f"{given.profile}-planned.json")
        del module, inputs, step, graph
        gc.collect()
    return 1 if unplanned else 0


def profile(device: Device, module, step, inputs, loss, path: str) -> None:
    """Writes a Chrome trace of one step, and prints what the device's engines did in it."""
    from torch.profiler import ProfilerActivity

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.cuda else [])]
    for _ in range(2):
        device.now()
        with torch.profiler.profile(activities=activities) as found:
            module.zero_grad(set_to_none=True)
            loss(models.call(step, inputs)).backward()
            device.now()
    found.export_chrome_trace(path)
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    spans = {}
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and event.get("ph") == "X":
            name = event["name"] if event["cat"] == "gpu_memcpy" else event["cat"]
            spans.setdefault(name, []).append((event["ts"], event["dur"], event.get("args", {}).get("bytes", 0)))
    for name, found in sorted(spans.items()):
        busy, size = sum(entry[1] for entry in found), sum(entry[2] for entry in found)
        begin, end = min(entry[0] for entry in found), max(entry[0] + entry[1] for entry in found)
        rate = f", {size / 1e6:,.0f} MB at {size / busy / 1e3:.1f} GB/s" if size else ""
        print(f"      {name}: {len(found)}, busy {busy / 1e3:.1f} ms within {(end - begin) / 1e3:.1f} ms{rate}")
    calls = {}
    for event in events:
        if event.get("cat") == "cuda_runtime" and event.get("dur", 0) > 500:
            count, total = calls.get(event["name"], (0, 0.0))
            calls[event["name"]] = (count + 1, total + event["dur"] / 1e3)
    print(f"      calls of the driver above 0.5 ms: {calls}", flush=True)


def print_measured(what: str, measured: dict, plain: dict) -> None:
    """One row of what was measured."""
    print(
        f"{what}: {measured['s'] * 1e3:.1f} ms a step ({measured['s'] / plain['s']:.3f} of no plan), peak "
        f"{measured['peak'] / 1e6:,.1f} MB ({measured['base'] / 1e6:,.1f} before the step; reserved {measured['reserved'] / 1e6:,.1f}), "
        f"loss {measured['loss']!r}",
        flush=True,
    )


def print_plans(budget: str) -> int:
    """What the backend did with each graph; how many have no plan."""
    unplanned = 0
    if not tt.last_plans():
        print(f"  {budget}: NO GRAPH: PyTorch's compiler gave the backend none (LSTMs need torch._dynamo.config.allow_rnn)")
        unplanned = 1
    for planned in tt.last_plans():
        plan, trace = planned.plan, planned.trace
        if plan is None:
            unplanned += 1
            print(f"  {budget} {planned.name}: WITHOUT A PLAN: {planned.reason}")
            continue
        kinds = [decision["choice"] for decision in plan.decisions]
        print(
            f"  {budget} {planned.name}: in core {trace.in_core_peak_bytes / 1e6:,.1f} MB {trace.total_time_ns / 1e6:.1f} ms; "
            f"plan's peak {plan.peak_bytes / 1e6:,.1f} MB, budget {plan.budget_bytes / 1e6:,.1f}, host {plan.host_arena_bytes / 1e6:,.1f}, "
            f"predicted {plan.predicted_ns / 1e6:.1f} ms; {kinds.count('swap')} swapped, {kinds.count('recompute')} recomputed; "
            f"first step: {planned.checked}"
        )
        outside = f"cuBLAS keeps {planned.costs.outside / 1e6:,.1f} MB beside" if planned.costs else "kept from before"
        spent = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in planned.seconds.items())
        print("    " + "; ".join(filter(None, (planned.note, planned.costs and planned.costs.note, outside, spent))))
    return unplanned


if __name__ == "__main__":
    sys.exit(main())
