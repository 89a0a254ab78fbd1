"""Your own model under plans: gradients against eager, memory and time against what was predicted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from .measure import Run, Subject, Times, bits, difference, duration, failure, many_graphs, size, table


@dataclass
class Row:
    """One budget: what was said before and what came. `None` where the row has a `problem` instead."""

    budget: str
    problem: str | None = None
    step_s: float | None = None
    spread_s: float | None = None
    predicted_s: float | None = None
    peak_bytes: int | None = None
    planned_peak_bytes: int | None = None
    off: float | None = None
    off_in: str | None = None


@dataclass
class Check:
    """What `check` found; as a string, its table."""

    title: str
    notes: list[str]
    eager: Row
    noise: float
    rows: list[Row]

    def to_dict(self) -> dict:
        """Everything, for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        head = ["budget", "measured", "predicted", "error", "over eager", "predicted", "peak", "planned", "gradients"]
        lines = [head, *(_cells(row, self.eager) for row in (self.eager, *self.rows) if not row.problem)]
        said = [self.title, *self.notes, f"eager against itself: {bits(self.noise)}; a step's middle half spreads over {duration(self.eager.spread_s or 0)}"]
        problems = [f"{row.budget}: {row.problem}" for row in (self.eager, *self.rows) if row.problem]
        return "\n".join([*said, "", table(lines), *problems])

    __repr__ = __str__


def _cells(row: Row, eager: Row) -> list[str]:
    over = lambda time, base: f"{time / base:.3f}x" if time and base else "-"  # noqa: E731
    error = f"{(row.predicted_s / row.step_s - 1) * 100:+.1f} %" if row.predicted_s and row.step_s else "-"
    return [
        row.budget, duration(row.step_s), duration(row.predicted_s) if row.predicted_s else "-", error,
        over(row.step_s, eager.step_s), over(row.predicted_s, eager.predicted_s),
        size(row.peak_bytes), size(row.planned_peak_bytes) if row.planned_peak_bytes else "-", bits(row.off or 0.0),
    ]  # fmt: skip


class _Said:
    """What is read of one graph's plan and trace, be they objects or documents."""

    def __init__(self, graph):
        if not isinstance(graph.plan, dict):
            self.predicted_ns, self.peak_bytes = graph.plan.predicted_ns, graph.plan.peak_bytes
            self.total_time_ns, self.in_core_peak_bytes = graph.trace.total_time_ns, graph.trace.in_core_peak_bytes
            return
        predicted, trace = graph.plan["content"]["predicted"], graph.trace["content"]
        self.predicted_ns, self.peak_bytes = predicted["iteration_ns"], predicted["peak_bytes"]
        self.total_time_ns = sum(op["duration_ns"] for op in trace["ops"])
        written = {tensor for op in trace["ops"] for tensor in op["writes"]}
        sizes = [tensor["bytes"] for tensor in trace["tensors"]]
        live = peak = sum(size for index, size in enumerate(sizes) if index not in written)
        for op in trace["ops"]:
            live += sum(sizes[tensor] for tensor in op["writes"])
            peak = max(peak, live + op["workspace_bytes"])
            live -= sum(sizes[tensor] for tensor in op["frees"])
        self.in_core_peak_bytes = peak


@dataclass
class Planned:
    """What the backend said of all graphs of one compiled model."""

    predicted_s: float
    peak_bytes: int
    in_core_s: float
    in_core_peak_bytes: int
    graphs: int

    @classmethod
    def last(cls) -> Planned:
        """Of the graphs that were compiled since plans were last forgotten.

        # Errors
        `ValueError` with the reason where one of them is trained without a plan.
        """
        from . import last_plans

        graphs = last_plans()
        reasons = [graph.reason or "it has no plan" for graph in graphs if graph.plan is None]
        if reasons or not graphs:
            raise ValueError(reasons[0] if reasons else "nothing was compiled")
        plans = [_Said(graph) for graph in graphs]
        total = lambda name: sum(getattr(plan, name) for plan in plans)  # noqa: E731
        return cls(
            total("predicted_ns") / 1e9, total("peak_bytes"), total("total_time_ns") / 1e9, total("in_core_peak_bytes"),
            len(graphs),
        )  # fmt: skip


def planned(subject: Subject, options: dict) -> tuple[Run, Planned]:
    """The loss under a plan, compiled and run once, with what was said of it; raises instead of falling back."""
    from . import forget_plans

    forget_plans()
    run = subject.compiled("tidegate", {**options, "strict": True})
    subject.step(run)
    return run, Planned.last()


def check(
    model: torch.nn.Module,
    inputs,
    budgets: Iterable[str | int] = ("80%", "60%", "45%"),
    loss: Callable | None = None,
    rounds: int = 3,
    steps: int = 5,
    **options,
) -> Check:
    """Trains a step of the model under each budget, and puts what came beside eager's and beside what was predicted.

    `inputs` are a tuple, or a dict of keywords; `loss` makes a number of the output where that is not the loss itself
    and has none as `.loss`. Further options are those of the backend, such as `machine` or `inner`. Nothing of the model
    changes: gradients are dropped, buffers restored. A budget that no plan fits has its reason in its row.

    # Errors
    `SubjectError` where no step can be trained: tensors on several devices, nothing that requires a gradient, no loss.
    """
    subject = Subject(model, inputs, loss)
    reference = subject.state(subject.forward)
    noise, _ = difference(subject.state(subject.forward), reference)
    eager = Row("eager", peak_bytes=subject.peak(subject.forward))
    rows, runs = [], {"eager": subject.forward}
    notes = list(subject.notes)
    with many_graphs():
        for budget in budgets:
            row = Row(str(budget))
            rows.append(row)
            try:
                run, said = planned(subject, {**options, "budget": budget})
                row.off, row.off_in = difference(subject.state(run), reference)
                row.peak_bytes = subject.peak(run)
            except Exception as error:  # noqa: BLE001 - each budget stands for itself, and its row says what failed.
                row.problem = failure(error)
                continue
            row.predicted_s, row.planned_peak_bytes = said.predicted_s, said.peak_bytes
            eager.predicted_s, eager.planned_peak_bytes = said.in_core_s, said.in_core_peak_bytes
            runs[row.budget] = run
            if said.graphs > 1 and len(notes) == len(subject.notes):
                notes.append(f"{said.graphs} graphs: the planned peak is the sum of theirs, though they need not meet")
        times = subject.seconds(runs, rounds, steps)
    for row in (eager, *rows):
        if row.budget in times:
            found = Times.of(times[row.budget])
            row.step_s, row.spread_s = found.median_s, found.spread_s
    return Check(_title(subject), notes, eager, noise, rows)


def _title(subject: Subject) -> str:
    device = torch.cuda.get_device_name(subject.device) if subject.device.type == "cuda" else "the processor"
    parameters = sum(parameter.numel() for parameter in subject.model.parameters())
    return f"{type(subject.model).__name__}, {parameters:,} parameters, on {device}, PyTorch {torch.__version__}"


def failed(rows: Sequence[Row], eager: Row, tolerance: float = 0.0) -> list[str]:
    """What a test would refuse: gradients that are off by more, or memory above the plan's."""
    wrong = [f"{row.budget}: gradients off by {row.off:.1e} in {row.off_in}" for row in rows if (row.off or 0.0) > tolerance]
    over = [
        f"{row.budget}: {row.peak_bytes} bytes where {row.planned_peak_bytes} were planned"
        for row in (eager, *rows)
        if row.planned_peak_bytes and row is not eager and row.peak_bytes > row.planned_peak_bytes
    ]
    return wrong + over
