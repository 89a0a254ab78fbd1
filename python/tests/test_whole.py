"""What PyTorch captures in a form of its own is captured as eager computes it: recurrent layers with their dropout, interpolation."""

import pytest

torch = pytest.importorskip("torch")
# Where a share cannot be had of so small a layer, what is nearest to it is planned for.
pytestmark = pytest.mark.filterwarnings("ignore:tidegate. graph .. planned for")

import tidegate.torch as tt  # noqa: E402
from tidegate.torch import whole  # noqa: E402
from tidegate.torch.measure import Subject, difference  # noqa: E402
from torch import nn  # noqa: E402


class Reads(nn.Module):
    """All that a recurrent layer gives, as a loss."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        output, last = self.layer(x)
        return output.square().mean() + sum(each.sum() for each in (last if isinstance(last, tuple) else [last]))


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    tt.forget_plans()
    torch.manual_seed(0)
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def planned(layer):
    """States after a step in eager and under a plan, and what was said of it."""
    subject = Subject(Reads(layer), (torch.randn(3, 4, 16),))
    run = subject.compiled(tt.tidegate, {"budget": "95%", "machine": "rtx-4090", "evaluations": 50})
    return subject.state(subject.forward), subject.state(run), tt.last_plans()[0].checked


@pytest.mark.parametrize(
    "layer",
    [lambda: nn.LSTM(16, 16, 2, dropout=0.5), lambda: nn.LSTM(16, 16, bidirectional=True, bias=False),
     lambda: nn.LSTM(16, 16, proj_size=8), lambda: nn.RNN(16, 16, 2, dropout=0.5), lambda: nn.GRU(16, 21, 2, dropout=0.5)],
    ids=["dropout", "both ways", "projected", "rnn", "gru"],
)  # fmt: skip
def test_their_bits_are_eagers(layer):
    eager, mine, checked = planned(layer())
    assert difference(mine, eager) == (0.0, "") and checked == "bit for bit eager's"


class Across(nn.Dropout):
    """Of what lies transposed in memory, as attention's result in a layer of `nn.TransformerEncoder` does."""

    def forward(self, x):
        return super().forward(x.T).T


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [0.15, 0.2, 1.0])
@pytest.mark.parametrize("kind", [nn.Dropout, Across])
def test_dropout_has_eagers_bits(kind, p, dtype):
    """In each type and for each share, whether or not 1 / (1 - p) is rounded alike, and in a mask's memory."""
    module = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh(), kind(p)) for _ in range(4))).to(dtype)
    subject = Subject(module, (torch.randn(256, 32, dtype=dtype),), lambda output: output.float().square().mean())
    run = subject.compiled(tt.tidegate, {"budget": "80%", "machine": "rtx-4090", "evaluations": 200})
    assert difference(subject.state(run), subject.state(subject.forward)) == (0.0, "")
    assert tt.last_plans()[0].checked == "bit for bit eager's"


@pytest.mark.parametrize(
    "call",
    [lambda x: nn.functional.interpolate(x, scale_factor=0.7, mode="bilinear"), lambda x: nn.functional.interpolate(x, (9, 13), mode="bicubic"),
     lambda x: nn.functional.interpolate(x, scale_factor=2.0), lambda x: nn.functional.softshrink(x, 0.2)],
    ids=["bilinear", "bicubic", "nearest", "softshrink"],
)  # fmt: skip
def test_other_calls_have_eagers_bits(call):
    class Calls(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = call(layer(x).sin())
            return x.square().mean()

    subject = Subject(Calls(), (torch.randn(4, 4, 24, 24),))
    run = subject.compiled(tt.tidegate, {"budget": "95%", "machine": "rtx-4090", "evaluations": 50})
    assert difference(subject.state(run), subject.state(subject.forward)) == (0.0, "")
    assert tt.last_plans()[0].checked == "bit for bit eager's"


@pytest.mark.parametrize(
    "draw",
    [lambda x: x * torch.empty_like(x.T).bernoulli_(0.7).T, lambda x: nn.functional.alpha_dropout(x.T, 0.3, True).T,
     lambda x: x + (x * 1.0).T.bernoulli_(0.5).T, lambda x: x * torch.empty_like(x).bernoulli_(0.5)],
    ids=["transposed", "alpha dropout", "in place of what has a gradient", "as it lies"],
)  # fmt: skip
def test_numbers_are_drawn_in_the_order_of_memory(draw):
    class Draws(nn.Linear):
        def forward(self, x):
            return draw(super().forward(x).sin())

    subject = Subject(nn.Sequential(*(Draws(32, 32) for _ in range(4))), (torch.randn(256, 32),), lambda output: output.square().mean())
    run = subject.compiled(tt.tidegate, {"budget": "80%", "machine": "rtx-4090", "evaluations": 50})
    assert difference(subject.state(run), subject.state(subject.forward)) == (0.0, "")
    assert tt.last_plans()[0].checked == "bit for bit eager's"


def test_pytorchs_forms_are_there_again_afterwards():
    recurrent, others = whole._forms(True), whole._forms(False)
    kernels = lambda calls: [dict(call.py_kernels) for call in calls]  # noqa: E731
    before, drawn = (kernels(recurrent), kernels(others)), dict(whole._BERNOULLI.py_kernels)
    with whole.as_eager([torch.empty(1)]):
        assert not any(key in call.py_kernels for call in (*recurrent, *others) for key in whole._KEYS)
    assert (kernels(recurrent), kernels(others)) == before and any(before[0]) and any(before[1])
    assert dict(whole._BERNOULLI.py_kernels) == drawn
    with whole.as_eager([torch.empty(1, device="meta")]):
        assert kernels(recurrent) == before[0] and kernels(others) != before[1]


def test_what_a_layer_notes_is_as_large_as_it_really_is():
    module = Reads(nn.LSTM(16, 16))
    capture = tt.trace(module, (torch.randn(3, 4, 16),))
    (call,) = capture.graph.graph.find_nodes(op="call_function", target=torch.ops.tidegate.lstm_layer.default)
    noted = whole._layer(*(torch.zeros(value.shape) if isinstance(value := getattr(leaf, "meta", {}).get("val", leaf), torch.Tensor) else value
                               for leaf in call.args))[whole._NOTES]  # fmt: skip
    assert 0 < noted.nbytes == capture.joint.storage[next(part for part in call.users if part.args[1] == whole._NOTES)].bytes
