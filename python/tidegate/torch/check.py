"""Your own model under plans: gradients against eager, memory and time against what was predicted."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .backend import forget_plans, last_plans, tidegate
from .measure import Clock, Measured, Run, Subject, bits, difference, duration, failure, many_graphs, table
from .times import now


@dataclass
class Row(Measured):
    """One budget: what was said before and what came."""

    budget: str
    off_unplanned: float | None = None


@dataclass
class Check:
    """What `check` found; as a string, its table.

    `eager` is the model as it is, `unplanned` its captured graph with everything kept: what capture itself changes, of
    time and of bits, lies between these two, and slowdowns are over the second. `noise` is how far eager is off from itself.
    `drift` is how much longer the ops of that graph took between the steps than when they were measured for plans: so much of
    an error is the machine's. `beside_s` is what a step of that graph takes beside its ops, which predictions have in them.
    Both are None on a GPU, which computes meanwhile.
    """

    title: str
    notes: list[str]
    eager: Row
    unplanned: Row
    noise: float
    rows: list[Row]
    drift: float | None = None
    beside_s: float | None = None

    def to_dict(self) -> dict:
        """Everything, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, found: dict) -> Check:
        """What `to_dict` gave."""
        rows = {"eager": Row(**found["eager"]), "unplanned": Row(**found["unplanned"]), "rows": [Row(**row) for row in found["rows"]]}
        return cls(**{**found, **rows})

    def __str__(self) -> str:
        head = ["budget", "measured", "predicted", "error", "slowdown", "predicted", "peak", "planned", "reserved", "eager's bits", "no plan's bits"]
        rows = [self.eager, self.unplanned, *self.rows]
        lines = [head, *(_cells(row, self.unplanned) for row in rows if row.step_s)]
        said = f"eager against itself: {bits(self.noise)}; the middle half of its steps spreads over {duration(self.eager.spread_s or 0)}"
        if self.beside_s is not None:
            said += f"\nbeside its ops a step takes {duration(self.beside_s)} where all is kept, which predictions have in them"
        if self.drift is not None:
            said += f"\nits ops between the steps: {self.drift - 1:+.1%} of the time that they took when plans were made"
        problems = [f"{row.budget}: {row.problem}" for row in rows if row.problem]
        return "\n".join([self.title, *self.notes, said, "", table(lines), *problems])

    __repr__ = __str__

    @property
    def applied(self) -> bool:
        """Whether every budget had a plan that was trained under."""
        return bool(self.rows) and not any(row.problem for row in self.rows)


def _cells(row: Row, base: Row) -> list[str]:
    over = lambda time, base: f"{time / base:.3f}x" if time and base else "-"  # noqa: E731
    error = f"{(row.predicted_s / row.step_s - 1) * 100:+.1f} %" if row.predicted_s and row.step_s else "-"
    return [
        row.budget, *row.cells("step_s", "predicted_s"), error, over(row.step_s, base.step_s), over(row.predicted_s, base.predicted_s),
        *row.cells("peak_bytes", "planned_peak_bytes", "reserved_bytes", "off", "off_unplanned"),
    ]  # fmt: skip


@dataclass
class Planned:
    """What the backend said of all graphs of one compiled model. Of fused kernels' times nothing is said."""

    predicted_s: float | None
    peak_bytes: int
    graphs: int

    @classmethod
    def last(cls, *, fused: bool) -> Planned:
        """Of the graphs that were compiled since plans were last forgotten.

        # Errors
        `ValueError` with the reason where one of them is trained without a plan.
        """
        graphs = last_plans()
        reasons = [graph.reason or "it has no plan" for graph in graphs if graph.plan is None]
        if reasons or not graphs:
            raise ValueError(reasons[0] if reasons else "nothing was compiled")
        # What other graphs keep is part of a plan's peak.
        predicted = None if fused else sum(graph.plan.predicted_ns for graph in graphs) / 1e9
        return cls(predicted, max(graph.peak_bytes for graph in graphs), len(graphs))


def planned(subject: Subject, options: dict) -> tuple[Run, Planned]:
    """The loss under a plan, compiled and run once, with what was said of it; raises instead of falling back."""
    forget_plans()
    run = subject.compiled(tidegate, {**options, "strict": True})
    subject.step(run)
    if any(graph.place.due for graph in last_plans()):
        subject.step(run)  # Several graphs are planned once more when all are known.
    return run, Planned.last(fused=options.get("inner") == "inductor")


def beside_ops(subject: Subject, run: Run, said: Planned) -> float | None:
    """What a step of the graphs that were compiled last takes beside their ops; None where nothing is added to predictions."""
    graphs = last_plans()
    if subject.device.type != "cpu" or said.predicted_s is None:
        return None
    return subject.beside(run, lambda: sum(sum(graph.inside.values()) for graph in graphs))


def check(
    model: torch.nn.Module,
    inputs,
    budgets: Sequence[str | int] = ("80%", "60%", "45%"),
    loss: Callable | None = None,
    rounds: int = 3,
    steps: int = 5,
    seconds: float | None = None,
    **options,
) -> Check:
    """Trains a step of the model under each budget, and puts what came beside eager's and beside what was predicted.

    `inputs` are a tuple, or a dict of keywords; `loss` makes a number of the output where that is not the loss itself
    and has none as `.loss`. Further options are those of the backend, such as `machine` or `method`. Nothing of the model
    changes: gradients are dropped, buffers restored. A budget that no plan fits has its reason in its row; so have
    those that are not begun within `seconds`.

    # Errors
    `SubjectError` where no step can be trained: tensors on several devices, nothing that requires a gradient, no loss.
    """
    subject = Subject(model, inputs, loss)
    clock = Clock(seconds)
    eager, unplanned = Row("eager"), Row("no plan")
    rows = [Row(str(budget)) for budget in budgets]
    runs: dict[str, Run] = {}
    notes = list(subject.notes)

    def add(row: Row, run: Run, base: dict | None):
        state = subject.state(run)
        row.off, row.off_in = difference(state, reference)
        row.off_unplanned = None if base is None else difference(state, base)[0]
        row.peak_bytes, row.reserved_bytes = subject.memory(run)
        runs[row.budget] = run
        return state

    reference = subject.state(subject.forward)
    add(eager, subject.forward, None)
    noise, eager.off = eager.off or 0.0, None
    with many_graphs():
        base, graphs, beside = None, [], None
        for row, asked in [(unplanned, {"budget": "200%", "method": "in-core"}), *zip(rows, ({"budget": b} for b in budgets))]:
            try:
                clock.check()
                run, said = planned(subject, {**options, **asked})
                state = add(row, run, base)
            except Exception as error:  # noqa: BLE001 - each budget stands for itself, and its row says what failed.
                row.problem = failure(error)
                continue
            if row is unplanned:
                base, graphs, beside = state, last_plans(), beside_ops(subject, run, said)
            row.predicted_s, row.planned_peak_bytes = said.predicted_s and said.predicted_s + (beside or 0.0), said.peak_bytes
            if said.graphs > 1 and len(notes) == len(subject.notes):
                notes.append(f"{said.graphs} graphs: each is planned with what the others have there while it runs")
        took: list[float] = []

        def again():
            if graphs and subject.device.type == "cpu":
                took.append(sum(now(graph.joint) for graph in graphs) / sum(sum(graph.costs.times) for graph in graphs))

        times = subject.seconds(runs, rounds, steps, again)
    subject.restore()
    for row in (eager, unplanned, *rows):
        if row.budget in times:
            row.took(times[row.budget])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    title = f"{type(model).__name__}, {parameters:,} parameters, on {subject.place}, PyTorch {torch.__version__}"
    return Check(title, notes, eager, unplanned, noise, rows, statistics.median(took) if took else None, beside)
