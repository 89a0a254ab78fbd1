"""Training steps: their gradients, the memory that they take and their time, on the device at hand."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_leaves

Run = Callable[[], torch.Tensor]
_NUMBERS = itertools.count()


class SubjectError(ValueError):
    """What is given cannot be trained one step; the message says why and what would do."""


class Subject:
    """A model with what it is called with and what makes its output a loss: one step of training."""

    def __init__(self, model: torch.nn.Module, inputs, loss: Callable | None = None):
        self.model, self.inputs, self.loss = model, inputs, loss
        # A loss has labels of its own.
        given = tree_leaves((inputs, [cell.cell_contents for cell in getattr(loss, "__closure__", None) or ()]))
        tensors = [*model.parameters(), *model.buffers(), *(leaf for leaf in given if isinstance(leaf, torch.Tensor))]
        devices = sorted({str(tensor.device) for tensor in tensors})
        if len(devices) > 1:
            raise SubjectError(f"the model and its inputs lie on {' and '.join(devices)}: move all to one device")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise SubjectError("no parameter of the model requires a gradient: there is nothing to train")
        self.device = torch.device(devices[0])
        if self.device.type not in ("cpu", "cuda"):
            raise SubjectError(f"steps on {self.device} cannot be measured: move the model to cpu or cuda")
        storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
        # Parameters, buffers, inputs and labels, which are there before a step and after it.
        self.outlives = sum(storages.values())
        self._buffers = {name: buffer.to("cpu", copy=True) for name, buffer in model.named_buffers()}
        self.notes = [] if model.training else ["the model is in eval mode: dropout and batch statistics are off"]

    @property
    def place(self) -> str:
        """What it is trained on, by name."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "the processor"

    def forward(self) -> torch.Tensor:
        """The loss."""
        inputs = self.inputs
        output = self.model(**inputs) if isinstance(inputs, Mapping) else self.model(*inputs)
        if self.loss is not None:
            return self.loss(output)
        return output if isinstance(output, torch.Tensor) else output.loss

    def compiled(self, backend: str | Callable, options: dict | None = None) -> Run:
        """The loss by a compiler. Each has code of its own, so that none takes what another one compiled."""
        code = Subject.forward.__code__
        forward = types.FunctionType(code.replace(co_name=f"forward_{next(_NUMBERS)}"), globals(), "forward")
        compiled = torch.compile(forward, backend=backend, options=options, dynamic=False)
        return lambda: compiled(self)

    def step(self, run: Run) -> torch.Tensor:
        """Forward and backward, with gradients made anew."""
        self.model.zero_grad(set_to_none=True)
        loss = run()
        if loss.numel() != 1:
            raise SubjectError(f"the loss has shape {tuple(loss.shape)}: give `loss`, which makes a number of the output")
        loss.backward()
        return loss.detach()

    def restore(self):
        """Drops gradients, and gives buffers the values that they had in the beginning."""
        self.model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, buffer in self.model.named_buffers():
                buffer.copy_(self._buffers[name])

    def state(self, run: Run, seed: int = 0) -> dict[str, torch.Tensor]:
        """Loss, gradients and buffers after one step from the same seed and buffers, on the host."""
        self.restore()
        torch.manual_seed(seed)
        state = {"loss": self.step(run).cpu()}
        grads = ((name, parameter.grad) for name, parameter in self.model.named_parameters())
        state |= {name: grad.to("cpu", copy=True) for name, grad in grads if grad is not None}
        state |= {f"{name} (buffer)": buffer.to("cpu", copy=True) for name, buffer in self.model.named_buffers()}
        self.restore()
        return state

    def beside(self, run: Run, inside: Callable[[], float], steps: int = 11) -> float:
        """Seconds of a step that are not `inside` of its graphs, the median: autograd, and what compilers put around graphs."""
        times = []
        for _ in range(steps):
            begin = time.perf_counter()
            self.step(run)
            times.append(time.perf_counter() - begin - inside())
        return statistics.median(times)

    def synchronize(self):
        """Waits for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def memory(self, run: Run) -> tuple[int, int | None]:
        """The most bytes that are allocated at once in a step, with what outlives it; and on CUDA the most that are reserved.

        On CUDA the caching allocator's own counts, over two steps. On the CPU what the allocator told the profiler: unlike
        a dispatch mode it sees what ops take for themselves and what compiled kernels allocate.
        """

        def steps() -> None:
            for _ in range(2 if self.device.type == "cuda" else 1):
                self.step(run)

        self.model.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        taken = most(steps, self.device)
        reserved = torch.cuda.max_memory_reserved(self.device) if self.device.type == "cuda" else None
        self.model.zero_grad(set_to_none=True)
        return self.outlives + taken, reserved

    def peak(self, run: Run) -> int:
        """The most bytes that are allocated at once in a step, with what outlives it."""
        return self.memory(run)[0]

    def seconds(self, runs: Mapping[str, Run], rounds: int, steps: int, between: Callable = lambda: None) -> dict[str, list[float]]:
        """Times of steps in sequence. Runs take turns, so that drift meets all of them alike; `TimeoutError` ends them early.

        `between` is called after each round.
        """
        found: dict[str, list[float]] = {name: [] for name in runs}
        with contextlib.suppress(TimeoutError):
            for _ in range(rounds):
                for name, run in runs.items():
                    self.step(run)  # The first step after another run finds caches that are not its own.
                    found[name] += self._sequence(run, steps)
                between()
        return {name: times for name, times in found.items() if times}

    def _sequence(self, run: Run, steps: int) -> list[float]:
        if self.device.type == "cuda":
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
            marks[0].record()
            for mark in marks[1:]:
                self.step(run)
                mark.record()
            self.synchronize()
            return [start.elapsed_time(end) / 1e3 for start, end in zip(marks, marks[1:])]
        marks = [time.perf_counter()]
        for _ in range(steps):
            self.step(run)
            marks.append(time.perf_counter())
        return [end - start for start, end in zip(marks, marks[1:])]


def most(run: Callable[[], object], device: torch.device) -> int:
    """The most bytes that are allocated at once while it runs, beside what was there before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiled:
        run()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(itertools.accumulate((event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())), initial=0))


def difference(state: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor]) -> tuple[float, str]:
    """The largest difference of two states, as a share of the largest value of its tensor, and where; 0 is the same bits.

    A tensor that only one of them has is as far off as can be.
    """
    worst = (0.0, "")
    for name in sorted(state.keys() | reference.keys()):
        a, b = state.get(name), reference.get(name)
        if a is None or b is None or a.shape != b.shape:
            return float("inf"), name
        if torch.equal(a, b):
            continue
        a, b = a.double(), b.double()
        off = ((a - b).abs().max() / b.abs().max().clamp_min(torch.finfo(torch.float64).tiny)).item()
        worst = max(worst, (off if off == off else float("inf"), name))
    return worst


@dataclass(kw_only=True)
class Measured:
    """What a row says of one way to train: `None` where it has a `problem` instead."""

    problem: str | None = None
    step_s: float | None = None
    # How far the middle half of its steps spreads.
    spread_s: float | None = None
    predicted_s: float | None = None
    peak_bytes: int | None = None
    reserved_bytes: int | None = None
    planned_peak_bytes: int | None = None
    # How far it is off, and which tensor is farthest.
    off: float | None = None
    off_in: str | None = None

    def took(self, seconds: list[float]) -> None:
        """Keeps what steps took."""
        quarters = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [seconds[0]] * 3
        self.step_s, self.spread_s = statistics.median(seconds), quarters[2] - quarters[0]

    def cells(self, *fields: str) -> list[str]:
        """These fields as a table has them."""
        kinds = {"s": duration, "bytes": size}
        values = [(getattr(self, field), kinds.get(field.rsplit("_", 1)[-1], bits)) for field in fields]
        return ["-" if value is None else said(value) for value, said in values]


class Clock:
    """Says when no further row is to be begun."""

    def __init__(self, seconds: float | None):
        self.end = None if seconds is None else time.monotonic() + seconds

    def check(self):
        """Raises where the time is over."""
        if self.end is not None and time.monotonic() > self.end:
            raise TimeoutError("no time was left")


@contextlib.contextmanager
def many_graphs():
    """Room for as many compiled forms of one function as a comparison has rows."""
    import torch._dynamo

    with torch._dynamo.config.patch(recompile_limit=64, accumulated_recompile_limit=1024):
        yield


def failure(error: BaseException) -> str:
    """What went wrong, without the words of the compiler around it."""
    error = getattr(error, "inner_exception", None) or error
    if isinstance(error, torch.OutOfMemoryError):
        return "out of memory"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def table(rows: list[list[str]], left: int = 1) -> str:
    """Columns, the first `left` of them flush left; the first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    cells = lambda row: (  # noqa: E731
        text.ljust(width) if column < left else text.rjust(width) for column, (text, width) in enumerate(zip(row, widths))
    )
    return "\n".join("  ".join(cells(row)).rstrip() for row in rows)


def size(bytes_: float) -> str:
    """Bytes for people, decimal as everywhere in tidegate."""
    for unit, power in (("GB", 9), ("MB", 6), ("KB", 3)):
        if bytes_ >= 10**power:
            return f"{bytes_ / 10**power:.3f} {unit}"
    return f"{bytes_:.0f} B"


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1e3:.3f} ms"


def bits(off: float) -> str:
    """What is said of a difference from eager."""
    return "same" if off == 0 else f"off {off:.1e}"
