"""Several graphs of one iteration: the budget is that of all, and each plan's peak is what is there while its graph runs."""

import pytest

torch = pytest.importorskip("torch")

import tidegate.torch as tt  # noqa: E402
from tidegate.torch.check import planned  # noqa: E402
from tidegate.torch.measure import Subject  # noqa: E402
from torch import nn  # noqa: E402


class Broken(nn.Module):
    """Three graphs, as nothing is compiled across a break."""

    def __init__(self):
        super().__init__()
        blocks = lambda: nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)) for _ in range(6)))  # noqa: E731
        self.first, self.second, self.third = blocks(), blocks(), blocks()

    def forward(self, x):
        x = x + self.first(x)
        torch._dynamo.graph_break()
        x = x + self.second(x)
        torch._dynamo.graph_break()
        return (x + self.third(x)).square().mean()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.mark.parametrize("budget", ["60%", 3_600_000])
def test_the_budget_is_that_of_all_graphs(budget):
    subject = Subject(Broken(), (torch.randn(512, 64),))
    eager = subject.state(subject.forward)
    run, said = planned(subject, {"budget": budget, "machine": "rtx-4090", "evaluations": 300})
    found = subject.state(run)
    assert said.graphs == 3 and all(torch.equal(found[name], eager[name]) for name in eager | found)
    first, second, third = tt.last_plans()
    whole = third.others.in_core
    limit = budget if isinstance(budget, int) else 0.6 * whole
    assert all(graph.checked == "bit for bit eager's" and graph.plan.budget_bytes <= limit for graph in (first, second, third))
    # What is kept in the middle of all is the first two graphs', and no more than the second's and third's plans count.
    assert second.others.before >= first.place.kept and third.others.before >= first.place.kept + second.place.kept
    assert first.others.room > second.others.room > third.others.room == 0
    assert subject.peak(run) == pytest.approx(said.peak_bytes, rel=0.01)
    assert subject.peak(run) <= limit


def test_a_forward_that_is_dropped_is_open_no_longer():
    step = torch.compile(Broken(), backend=tt.tidegate, options={"budget": "80%", "machine": "rtx-4090", "evaluations": 50}, dynamic=False)
    given = torch.randn(64, 64)
    result = step(given)
    graphs = tt.last_plans()[-3:]
    assert all(graph.place.open for graph in graphs[:2])
    del result
    assert not any(graph.place.open for graph in graphs)
    step(given).backward()
    assert all(graph.place.closed and not graph.place.open for graph in graphs)


class Block(nn.Module):
    """One of several of its kind, which are one graph where each is compiled by itself."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.Dropout(0.1))

    def forward(self, x):
        return x + self.inner(x)


@pytest.mark.parametrize("share", [0.8, 0.6, 1_800_000])
@pytest.mark.filterwarnings("ignore:tidegate. graph .. planned for")  # Before it is known that there are other calls.
def test_a_graph_that_is_called_several_times_counts_what_its_other_calls_keep(share):
    # What is before them has them all take a gradient of what they are given.
    model = nn.Sequential(nn.Linear(32, 32), *(Block() for _ in range(6)))
    subject = Subject(model, (torch.randn(512, 32),), lambda output: output.square().mean())
    eager = subject.state(subject.forward)
    tt.forget_plans()
    for block in model[1:]:
        block.compile(backend=tt.tidegate, options={"budget": share if share > 1 else f"{share:.0%}", "machine": "rtx-4090", "evaluations": 100}, dynamic=False)
    for _ in range(2):
        subject.step(subject.forward)
    found = subject.state(subject.forward)
    assert all(torch.equal(found[name], eager[name]) for name in eager | found)
    (graph,) = tt.last_plans()
    place, others = graph.place, graph.others
    assert place.times == 6 and place.settled and place.kept <= others.each and others.before >= 5 * others.each
    # The first layer with its gradients, what it is given, and the loss are in no graph.
    outside = 3 * sum(each.nbytes for each in model[0].parameters()) + subject.inputs[0].nbytes + 1024
    assert subject.peak(subject.forward) <= graph.plan.peak_bytes + graph.states_bytes + outside
    limit = share if share > 1 else share * others.in_core
    assert graph.note is None and graph.plan.peak_bytes <= limit
