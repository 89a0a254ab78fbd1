"""A model under plans beside what PyTorch itself offers to train it in less memory.

    python -m tidegate.torch.rivals MODEL [--budgets 80%,60%,45%] [--inner eager|inductor] [--json FILE]

MODEL is `FILE.py:FUNCTION` or `MODULE:FUNCTION`, with arguments in brackets: `examples/models.py:resnet50('full','cuda')`.
The function gives `(module, inputs, loss)` as `check` takes them. All rows are measured in one run on one device and
take turns. Each rival that saves memory has a row of ours beside it whose budget is the peak that it was measured to have.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import importlib
import importlib.util
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from .check import beside_ops, planned
from .measure import Clock, Measured, Run, Subject, bits, difference, duration, failure, many_graphs, table

SHARES = (0.75, 0.5, 0.25, 0.0)


@dataclass
class Row(Measured):
    """One way to train. `beside` is the rival whose peak ours was given."""

    name: str
    beside: str | None = None


@dataclass
class Rivals:
    """The rows in the order in which they were measured; as a string, their table. `beside_s` is as `Check` has it."""

    title: str
    noise: float
    rows: list[Row]
    beside_s: float | None = None

    def to_dict(self) -> dict:
        """Everything, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, found: dict) -> Rivals:
        """What `to_dict` gave."""
        return cls(**{**found, "rows": [Row(**row) for row in found["rows"]]})

    def __str__(self) -> str:
        first = self.rows[0]
        share = lambda value, base: f"{100 * value / base:.1f} %" if value and base else "-"  # noqa: E731
        lines = [["way", "peak", "of eager", "reserved", "time", "spread", "over eager", "predicted", "gradients"]]
        for row in self.rows:
            if row.step_s:
                over = f"{row.step_s / first.step_s:.3f}x" if first.step_s else "-"
                peak, *more = row.cells("peak_bytes", "reserved_bytes", "step_s", "spread_s")
                lines.append([row.name, peak, share(row.peak_bytes, first.peak_bytes), *more, over, *row.cells("predicted_s", "off")])
        problems = [f"{row.name}: {row.problem}" for row in self.rows if row.problem]
        head = f"{self.title}\neager against itself: {bits(self.noise)}"
        if self.beside_s is not None:
            head += f"\nbeside its ops a step of a plan takes {duration(self.beside_s)}, which predictions have in them"
        return "\n".join([head, "", table(lines), *problems, *self.verdicts()])

    def verdicts(self) -> Iterator[str]:
        """One line for each rival: how ours at its peak compares; and one for what was predicted."""
        by_name = {row.name: row for row in self.rows}
        for row in self.rows:
            rival = by_name.get(row.beside or "")
            if rival and row.step_s and rival.step_s:
                noise = (row.spread_s or 0) + (rival.spread_s or 0)
                gap = row.step_s - rival.step_s
                word = "as fast, within noise" if abs(gap) <= noise else "slower" if gap > 0 else "faster"
                yield f"at the peak of {rival.name}: {gap / rival.step_s * 100:+.1f} % of its time, {word}"
        off = [abs(row.predicted_s / row.step_s - 1) for row in self.rows if row.predicted_s and row.step_s]
        if off:
            yield f"predicted times of {len(off)} rows of ours: off by {statistics.median(off):.1%} in the median, {max(off):.1%} at most"


def blocks(model: torch.nn.Module) -> list[torch.nn.Module]:
    """What is checkpointed one by one: members of the outermost lists of modules of one class."""
    found: list[torch.nn.Module] = []

    def search(module: torch.nn.Module):
        children = list(module.children())
        same = len({type(child) for child in children}) == 1 and len(children) > 1 and any(children[0].children())
        if same and isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            found.extend(children)
            return
        for child in children:
            search(child)

    search(model)
    return found


def checkpointed(subject: Subject) -> Run:
    """Eager, with `torch.utils.checkpoint` around each block."""
    from torch.utils.checkpoint import checkpoint

    chosen = blocks(subject.model)
    if not chosen:
        raise ValueError("the model has no list of like blocks to checkpoint")

    def run() -> torch.Tensor:
        with contextlib.ExitStack() as undo:
            for block in chosen:
                forward = block.forward
                block.forward = lambda *args, forward=forward, **kwargs: checkpoint(forward, *args, use_reentrant=False, **kwargs)
                undo.callback(block.__dict__.pop, "forward")
            return subject.forward()

    return run


def saved_on_cpu(subject: Subject) -> Run:
    """Eager, with every tensor that autograd saves copied to pinned host memory and back."""
    if subject.device.type != "cuda":
        raise ValueError("on the processor, memory of the host is the device's")

    def run() -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return subject.forward()

    return run


def partitioned(subject: Subject, compiler: str, share: float) -> Run:
    """Compiled, with the partitioner's `activation_memory_budget`; 1 is its default."""
    import torch._functorch.config
    from torch._dynamo import lookup_backend

    def backend(module, inputs, **options):
        with torch._functorch.config.patch(activation_memory_budget=share):
            return lookup_backend(compiler)(module, inputs, **options)

    return subject.compiled(backend)


def ways(subject: Subject, inner: str, shares: Iterable[float]) -> dict[str, Callable[[], Run]]:
    """What is built for each rival, by its name; eager is the first. Only with Inductor inside are ops fused."""
    compiler = "aot_eager" if inner == "eager" else inner
    compiled = {compiler: lambda: partitioned(subject, compiler, 1.0)} | {
        f"activation_memory_budget {share:g}": lambda share=share: partitioned(subject, compiler, share) for share in shares
    }
    if inner != "eager":
        return {"eager": lambda: subject.forward, **compiled}
    return {
        "eager": lambda: subject.forward,
        "checkpoint per block": lambda: checkpointed(subject),
        "save_on_cpu": lambda: saved_on_cpu(subject),
        **compiled,
        "aot_eager, all saved": lambda: subject.compiled("aot_eager_default_partitioner"),
    }


def rivals(
    model: torch.nn.Module,
    inputs,
    loss: Callable | None = None,
    budgets: Iterable[str | int] = ("80%", "60%", "45%"),
    inner: str = "eager",
    shares: Iterable[float] = SHARES,
    rounds: int = 3,
    steps: int = 5,
    seconds: float | None = None,
    **options,
) -> Rivals:
    """Measures all rivals, ours at each rival's peak right after it, and ours under the budgets.

    # Errors
    `SubjectError` where no step can be trained. What fails of one row is said in that row, and what is not begun within `seconds`.
    """
    subject = Subject(model, inputs, loss)
    reference = subject.state(subject.forward)
    noise, _ = difference(subject.state(subject.forward), reference)
    clock = Clock(seconds)
    rows: list[Row] = []
    runs: dict[str, Run] = {}
    beside: list[float | None] = []

    def add(row: Row, build: Callable[[], Run]):
        rows.append(row)
        try:
            clock.check()
            run = build()
            row.off, row.off_in = difference(subject.state(run), reference)
            subject.step(run)
            row.peak_bytes, row.reserved_bytes = subject.memory(run)
            runs[row.name] = run
        except Exception as error:  # noqa: BLE001 - each row stands for itself, and says what failed.
            row.problem = failure(error)

    def ours(row: Row, budget: str | int):
        def build() -> Run:
            run, said = planned(subject, {**options, "inner": inner, "budget": budget})
            row.planned_peak_bytes = said.peak_bytes
            if not beside:
                beside.append(beside_ops(subject, run, said))
            row.predicted_s = said.predicted_s and said.predicted_s + (beside[0] or 0.0)
            return run

        add(row, build)

    with many_graphs():
        for name, build in ways(subject, inner, shares).items():
            rival = Row(name)
            add(rival, build)
            eager = rows[0].peak_bytes
            if rival is not rows[0] and rival.peak_bytes and (eager is None or rival.peak_bytes < eager):
                ours(Row(f"tidegate at {name}", name), rival.peak_bytes)
        for budget in budgets:
            ours(Row(f"tidegate {budget}"), budget)
        for name, seconds in subject.seconds(runs, rounds, steps).items():
            row = next(row for row in rows if row.name == name)
            row.took(seconds)
    subject.restore()
    title = f"{type(model).__name__} on {subject.place}, PyTorch {torch.__version__}, inner {inner}, {rounds} rounds of {steps} steps"
    return Rivals(title, noise, rows, beside[0] if beside else None)


def made(text: str):
    """What a text such as `FILE.py:FUNCTION('full')` names gives.

    # Errors
    `ValueError` that says what is not there.
    """
    place, _, call = text.rpartition(":")
    name, _, arguments = call.partition("(")
    if not place or not name:
        raise ValueError(f"'{text}' names no function: write FILE.py:FUNCTION or MODULE:FUNCTION")
    if place.endswith(".py"):
        path = Path(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise ValueError(f"there is no file '{place}'")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    if not hasattr(module, name):
        raise ValueError(f"'{place}' has no '{name}'")
    given = ast.literal_eval(f"({arguments.rstrip(')')},)") if arguments.rstrip(")") else ()
    return getattr(module, name)(*given)


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tidegate.torch.rivals", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="FILE.py:FUNCTION or MODULE:FUNCTION, perhaps with (arguments)")
    parser.add_argument("--budgets", default="80%,60%,45%", help="shares or sizes, with commas between [80%%,60%%,45%%]")
    parser.add_argument("--inner", choices=("eager", "inductor"), default="eager", help="what runs the graphs, of ours and of rivals [eager]")
    parser.add_argument("--machine", help="the machine that is planned for [the one at hand]")
    parser.add_argument("--rounds", type=int, default=3, help="how often the rows take turns [3]")
    parser.add_argument("--steps", type=int, default=5, help="steps of each turn [5]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    given = parser.parse_args(arguments)
    out = given.json.open("w") if given.json else None
    options = {"machine": given.machine} if given.machine else {}
    try:
        module, inputs, loss = made(given.model)
        budgets = [budget for budget in given.budgets.split(",") if budget]
        found = rivals(module, inputs, loss, budgets, given.inner, rounds=given.rounds, steps=given.steps, **options)
    except (ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if out:
        with out:
            json.dump(found.to_dict(), out, indent=1)
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
