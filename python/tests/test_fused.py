"""Inductor inside: kernels keep to the plan's order, and to its budget where they are measured not to by themselves."""

import re

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tidegate  # noqa: E402
from tidegate.torch import forget_plans, last_plans, taken, tidegate as backend  # noqa: E402
from tidegate.torch.measure import Subject  # noqa: E402


class Blocks(nn.Module):
    """Blocks of which a small budget computes most again, mask by mask."""

    def __init__(self):
        super().__init__()
        block = lambda: nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 32))  # noqa: E731
        self.blocks = nn.ModuleList(block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def fused(**options):
    torch.manual_seed(0)
    torch._dynamo.reset()
    forget_plans()
    subject = Subject(Blocks(), (torch.randn(512, 32),), lambda output: output.square().mean())
    run = subject.compiled(backend, {"budget": "60%", "inner": "inductor", "evaluations": 400, **options})
    torch.manual_seed(1)
    losses = [subject.step(run).item() for _ in range(2)]
    (graph,) = last_plans()
    torch.manual_seed(1)
    return subject, run, graph, [(a, subject.step(subject.forward).item()) for a in losses]


def as_eager(graph):
    """Whether fused kernels' first step was eager's, or within rounding of it."""
    return graph.kernels and graph.checked.startswith(("fused, and within rounding", "bit for bit"))


def test_what_is_computed_again_is_so_at_its_place():
    subject, run, graph, losses = fused(strict=True)
    assert as_eager(graph) and graph.note is None
    assert graph.plan.peak_bytes <= 0.6 * graph.trace.in_core_peak_bytes
    budget = graph.plan.budget_bytes + sum(op.state_bytes for op in graph.joint.ops)
    assert graph.taken_bytes <= budget + 1024
    # What the kernels take is said before they run.
    assert graph.kernels.keys() == {"forward", "backward"} and subject.peak(run) == pytest.approx(graph.peak_bytes, abs=1024)
    assert all(abs(mine / theirs - 1) < 1e-6 for mine, theirs in losses)


class Wide(nn.Module):
    """Elementwise ops that are one kernel where there is room, each of which needs another mask of the input's size."""

    def forward(self, x):
        for _ in range(6):
            x = torch.tanh(x) * torch.sigmoid(x)
        return x.sum(), x


def stepped(subject, budget):
    torch.manual_seed(0)
    torch._dynamo.reset()
    forget_plans()
    run = subject.compiled(backend, {"budget": budget, "inner": "inductor", "evaluations": 400})
    subject.step(run)
    return last_plans(), subject.peak(run)


def test_kernels_hold_no_more_than_calls_one_by_one():
    subject = Subject(nn.Sequential(nn.Linear(64, 64), Wide()), (torch.randn(512, 64),), lambda output: output[0])
    for budget in ("90%", "70%", "50%"):
        (graph,), peak = stepped(subject, budget)
        assert graph.note is None or "fused kernels" not in graph.note
        assert graph.peak_bytes <= graph.plan.peak_bytes + graph.states_bytes + 1024
        assert peak == pytest.approx(graph.peak_bytes, abs=1024)


class Parts(nn.Module):
    """One layer part by part, put together again."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        whole = torch.cat([self.layer(torch.tanh(part)) for part in x.chunk(8)])
        return torch.sin(whole) * whole


def test_what_is_put_together_is_there_no_sooner_than_its_last_part():
    subject = Subject(Parts(), (torch.randn(512, 64),), torch.mean)
    (graph,), peak = stepped(subject, "90%")
    assert graph.note is None and peak == pytest.approx(graph.peak_bytes, abs=1024)


def test_what_adds_up_many_numbers_does_so_as_eager_does():
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.LayerNorm(64), nn.Flatten(0))
    subject = Subject(model, (torch.randn(16384, 64),), lambda output: nn.functional.smooth_l1_loss(output, torch.ones_like(output)))
    (graph,), _ = stepped(subject, "90%")
    off = re.search("rounding of eager's: (.*) times", graph.checked)
    assert as_eager(graph) and float(off[1] if off else 0) < 1


class Transposed(nn.Module):
    """A batch norm over the last dimension."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Linear(32, 32)

    def forward(self, x):
        return self.last(self.norm(self.first(x).transpose(1, 2)).transpose(1, 2).relu()).log_softmax(-1)


def test_what_stays_pytorchs_own_call_lies_as_it_does_in_eager():
    (graph,), _ = stepped(Subject(Transposed(), (torch.randn(16, 64, 32),), torch.mean), "90%")
    assert as_eager(graph)


def test_where_fused_kernels_take_more_they_are_planned_for_less(monkeypatch):
    real, taking = taken.taken, []

    def more(*given):
        taking.append(real(*given) + (0 if taking else 100_000))
        return taking[-1]

    monkeypatch.setattr(taken, "taken", more)
    # Room enough for a plan that is smaller.
    *_, graph, _ = fused(strict=True, budget="70%")
    assert len(taking) == 2 and graph.taken_bytes == taking[1]
    assert graph.plan.budget_bytes < 0.7 * graph.trace.in_core_peak_bytes - 50_000
    assert "with which fused kernels keep to" in graph.note and as_eager(graph)


def test_where_no_smaller_budget_helps_ops_run_one_by_one(monkeypatch):
    monkeypatch.setattr(taken, "taken", lambda *_: 100_000_000)
    with pytest.warns(UserWarning, match="ops run one by one: fused kernels take 100.000 MB where there are"):
        *_, graph, losses = fused()
    assert graph.checked == "bit for bit eager's" and "ops run one by one" in graph.note and not graph.kernels
    assert all(mine == theirs for mine, theirs in losses)
    with pytest.raises(tidegate.PlanError, match="fused kernels take 100.000 MB"):
        fused(strict=True)


def test_where_a_budget_cannot_be_had_kernels_may_take_more_than_the_plan_for_the_nearest(monkeypatch):
    monkeypatch.setattr(taken, "taken", lambda *_: 100_000_000)
    with pytest.warns(UserWarning, match="1% cannot be had"):
        *_, graph, _ = fused(budget="1%")
    assert graph.note.endswith(", and fused kernels take 100.000 MB") and as_eager(graph)


def test_a_step_that_someone_else_profiles_is_not_measured():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert taken.taken(lambda given: given, None, torch.device("cpu")) is None
