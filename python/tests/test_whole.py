"""What PyTorch captures in a form of its own is captured as eager computes it: recurrent layers with their dropout, interpolation."""

import pytest

torch = pytest.importorskip("torch")
# Where a share cannot be had of so small a layer, what is nearest to it is planned for.
pytestmark = pytest.mark.filterwarnings("ignore:tidegate. graph .. planned for")

import tidegate.torch as tt  # noqa: E402
from tidegate.torch import times, whole  # noqa: E402
from tidegate.torch.measure import Subject, difference  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402


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
     lambda x: nn.functional.interpolate(x, scale_factor=2.0), lambda x: nn.functional.softshrink(x, 0.2),
     lambda x: (x * 0.1 + 1).cumprod(2), lambda x: x.relu().cumprod(3)],
    ids=["bilinear", "bicubic", "nearest", "softshrink", "cumprod", "cumprod of zeros"],
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


class Lies(nn.Module):
    """Calls, one after the other, of what lies otherwise in memory than row by row."""

    def __init__(self, call):
        super().__init__()
        self.layers, self.call = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3)), call

    def forward(self, x):
        for layer in self.layers:
            x = self.call(layer(x).sin())
        return x.square().mean()


def across(call):
    """It of values that lie transposed."""
    return lambda x: call(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)


@pytest.mark.parametrize(
    ("call", "memory"),
    [(across(nn.functional.logsigmoid), torch.contiguous_format), (across(lambda x: x.roll(1, 1)), torch.contiguous_format),
     (across(lambda x: nn.functional.batch_norm(x, None, None, training=True)), torch.contiguous_format),
     (lambda x: x.roll(1, 1), torch.channels_last), (lambda x: nn.functional.channel_shuffle(x, 2), torch.channels_last),
     (lambda x: nn.functional.glu(torch.cat([x, x], 1), 1), torch.channels_last),
     (lambda x: nn.functional.softplus(x.unflatten(1, (2, 2)).transpose(2, 3)).contiguous().view(x.shape), torch.contiguous_format),
     (lambda x: nn.functional.pad(x, [1] * 4, "reflect")[..., 1:-1, 1:-1] * x, torch.channels_last),
     (lambda x: nn.functional.batch_norm(x, torch.zeros(4), torch.ones(4), training=False), torch.channels_last)],
    ids=["log sigmoid", "roll", "batch norm", "roll of images", "shuffle", "glu", "softplus", "reflection", "batch norm as it is"],
)  # fmt: skip
def test_results_lie_as_eagers_do(call, memory):
    lies_as_eagers(Lies(call).to(memory_format=memory), torch.randn(4, 4, 8, 8).to(memory_format=memory))


@pytest.mark.parametrize("loss", [nn.functional.mse_loss, nn.functional.smooth_l1_loss, nn.functional.huber_loss])
def test_gradients_of_losses_lie_as_eagers_do(loss):
    """And a mean lies in memory as large as what it is of, which is part of the peak."""

    class Across(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x).tanh()
            return loss(x.transpose(1, 2), torch.ones(8, 16, 12))

    lies_as_eagers(Across(), torch.randn(8, 12, 16))


def lies_as_eagers(module, given):
    subject = Subject(module, (given,))
    run = subject.compiled(tt.tidegate, {"budget": "80%", "machine": "rtx-4090", "evaluations": 20})
    assert difference(subject.state(run), subject.state(subject.forward)) == (0.0, "")
    (graph,) = tt.last_plans()
    assert graph.checked == "bit for bit eager's" and 0.97 * graph.plan.peak_bytes <= subject.peak(run) <= graph.plan.peak_bytes + 64
    # Real values lie as the graph that was captured says.
    values = times.materials(graph.joint)
    times.interpret(graph.joint, values, lambda op, call: _same(op.node, call()))


def _same(node, made):
    for real, said in zip(pytree.tree_leaves(made), pytree.tree_leaves(node.meta["val"]), strict=True):
        both = zip(real.shape, real.stride(), said.stride(), strict=True) if isinstance(real, torch.Tensor) and isinstance(said, torch.Tensor) else ()
        assert all(a == b for size, a, b in both if size > 1), node
    return made


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


@pytest.mark.parametrize("inner", ["eager", "inductor"])
def test_what_cannot_be_factored_is_an_error_under_a_plan_too(inner):
    def factored(values, sign):
        return torch.linalg.cholesky(sign * values.mm(values.T) + torch.eye(40)).square().sum()

    compiled = torch.compile(factored, backend=tt.tidegate, options={"budget": "150%", "inner": inner, "evaluations": 50})
    values, one = torch.randn(40, 40, requires_grad=True), torch.ones(())
    compiled(values, one).backward()
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(values, -one)
    # PyTorch's own, as others compile with it, is as it was.
    assert tt.last_plans()[0].plan is not None and whole._CHECK not in torch.fx.node._side_effectful_functions
