"""Training within a GPU memory budget: what to keep, swap, recompute and compress, proven safe before it runs.

A trace is one training iteration, a machine is what it runs on, and a plan says what moves when::

    import tidegate

    trace = tidegate.Trace.load("resnet18-host")
    machine = tidegate.Machine.load("rtx-4090")
    plan = tidegate.plan(trace, machine, budget="60%")
    print(plan.slowdown, plan.peak_bytes)

``import tidegate.torch`` adds the way from a PyTorch model to a trace and from a plan to its training.
"""

from tidegate._native import (
    Comparison,
    Error,
    InputError,
    Machine,
    Plan,
    PlanError,
    ProofError,
    Timeline,
    Trace,
    compare,
    plan,
    simulate,
    verify,
)

__all__ = [
    "Comparison",
    "Error",
    "InputError",
    "Machine",
    "Plan",
    "PlanError",
    "ProofError",
    "Timeline",
    "Trace",
    "compare",
    "plan",
    "simulate",
    "verify",
]
