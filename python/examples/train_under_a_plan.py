"""Trains a model under a plan and prints what was predicted beside what was measured.

    python python/examples/train_under_a_plan.py resnet50 gpt2 --budget 60% --budget 45%

For each model and budget: the plan's peak beside the device's, the predicted time of a step beside the measured one,
what an unplanned step takes of both, and whether parameters after some steps are the same to the bit.
"""

from __future__ import annotations

import argparse
import copy
import gc
import statistics
import time
import warnings

import models
import torch

import tidegate.torch as tt


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


def main() -> None:
    """Reads arguments, trains, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=sorted(models.MODELS), metavar="MODEL", help=", ".join(sorted(models.MODELS)))
    parser.add_argument("--budget", action="append", help="of the in-core peak, or bytes (60%%; may be repeated)")
    parser.add_argument("--size", default=None, choices=["tiny", "full"], help="tiny on a CPU, full on a GPU unless said")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--inner", default="eager", choices=["eager", "inductor"])
    parser.add_argument("--allow", default=None)
    parser.add_argument("--machine", default="here")
    given = parser.parse_args()
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    device = Device(kind)
    torch.backends.cudnn.benchmark = False
    warnings.simplefilter("ignore", FutureWarning)
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name() if device.cuda else 'the CPU'}")
    for name in given.models:
        torch.manual_seed(0)
        module, inputs, loss = models.MODELS[name](given.size or ("full" if device.cuda else "tiny"), kind, given.batch)
        start = copy.deepcopy(module.state_dict())
        plain = train(device, module, module, inputs, loss, given.steps)
        after = {key: value.cpu() for key, value in module.state_dict().items()}
        print(f"\n{name}: eager {plain['s'] * 1e3:.1f} ms a step, peak {plain['peak'] / 1e6:,.0f} MB (reserved {plain['reserved'] / 1e6:,.0f})")
        for budget in given.budget or ["60%"]:
            torch._dynamo.reset()
            tt.forget_plans()
            module.load_state_dict(start)
            options = {"budget": budget, "machine": given.machine, "inner": given.inner, "allow": given.allow}
            step = torch.compile(module, backend=tt.tidegate, options=options, dynamic=False)
            begin = device.now()
            measured = train(device, module, step, inputs, loss, given.steps)
            print_row(budget, measured, device.now() - begin, plain)
            theirs = module.state_dict()
            same = all(torch.equal(theirs[key].cpu(), value) for key, value in after.items())
            print(f"  parameters after {given.steps} steps: {'the same bits as eager' if same else 'NOT the same bits as eager'}; "
                  f"loss {measured['loss']!r}, eager {plain['loss']!r}")  # fmt: skip
        del module, inputs, step
        gc.collect()


def print_row(budget: str, measured: dict, seconds: float, plain: dict) -> None:
    """What one budget came to."""
    for planned in tt.last_plans():
        if planned.plan is None:
            print(f"  {budget} {planned.name}: no plan: {planned.reason}")
            continue
        plan, trace = planned.plan, planned.trace
        kinds = [decision["choice"] for decision in plan.decisions]
        print(
            f"  {budget} {planned.name}: in core {trace.in_core_peak_bytes / 1e6:,.0f} MB {trace.total_time_ns / 1e6:.1f} ms; "
            f"plan peak {plan.peak_bytes / 1e6:,.0f} MB, budget {plan.budget_bytes / 1e6:,.0f}, host {plan.host_arena_bytes / 1e6:,.0f}, "
            f"predicted {plan.predicted_ns / 1e6:.1f} ms; {kinds.count('swap')} swapped {kinds.count('recompute')} recomputed; "
            f"first step: {planned.checked}"
        )
        if planned.costs is not None and planned.costs.note:
            print(f"    {planned.costs.note}")
    print(
        f"    measured {measured['s'] * 1e3:.1f} ms ({measured['s'] / plain['s']:.3f} of eager), peak "
        f"{measured['peak'] / 1e6:,.0f} MB (reserved {measured['reserved'] / 1e6:,.0f}); {seconds:.0f} s with planning",
        flush=True,
    )


if __name__ == "__main__":
    main()
