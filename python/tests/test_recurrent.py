"""Recurrent layers are captured as eager computes them: its kernel whole, and dropout between layers."""

import pytest

torch = pytest.importorskip("torch")
# Where a share cannot be had of so small a layer, what is nearest to it is planned for.
pytestmark = pytest.mark.filterwarnings("ignore:tidegate. graph .. planned for")

import tidegate.torch as tt  # noqa: E402
from tidegate.torch import recurrent  # noqa: E402
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
    subject = Subject(Reads(layer), (torch.randn(6, 4, 16),))
    run = subject.compiled(tt.tidegate, {"budget": "95%", "machine": "rtx-4090", "evaluations": 50})
    return subject.state(subject.forward), subject.state(run), tt.last_plans()[0].checked


@pytest.mark.parametrize(
    "layer",
    [lambda: nn.LSTM(16, 16, 2, dropout=0.5), lambda: nn.LSTM(16, 16, bidirectional=True, bias=False),
     lambda: nn.LSTM(16, 16, proj_size=8), lambda: nn.RNN(16, 16, 2, dropout=0.5)],
    ids=["dropout", "both ways", "projected", "rnn"],
)  # fmt: skip
def test_their_bits_are_eagers(layer):
    eager, mine, checked = planned(layer())
    assert difference(mine, eager) == (0.0, "") and checked == "bit for bit eager's"


def test_where_bits_are_others_dropout_is_eagers_all_the_same():
    """In place and side by side in memory, eager's GRU computes in vectors of another length than its captured form."""
    eager, mine, checked = planned(nn.GRU(16, 16, 2, dropout=0.5))
    assert difference(mine, eager)[0] < 1e-5 and checked.startswith("bit for bit that of the same graph")


def test_pytorchs_forms_are_there_again_afterwards():
    layers = recurrent._LAYERS
    before = [dict(layer.py_kernels) for layer in layers]
    with recurrent.as_eager([torch.empty(1)]):
        assert not any(key in layer.py_kernels for layer in layers for key in recurrent._KEYS)
    assert [dict(layer.py_kernels) for layer in layers] == before and any(before)
    with recurrent.as_eager([torch.empty(1, device="meta")]):
        assert [dict(layer.py_kernels) for layer in layers] == before


def test_what_a_layer_notes_is_as_large_as_it_really_is():
    module = Reads(nn.LSTM(16, 16))
    capture = tt.trace(module, (torch.randn(6, 4, 16),))
    (call,) = capture.graph.graph.find_nodes(op="call_function", target=torch.ops.tidegate.lstm_layer.default)
    noted = recurrent._layer(*(torch.zeros(value.shape) if isinstance(value := getattr(leaf, "meta", {}).get("val", leaf), torch.Tensor) else value
                               for leaf in call.args))[recurrent._NOTES]  # fmt: skip
    assert 0 < noted.nbytes == capture.joint.storage[next(part for part in call.users if part.args[1] == recurrent._NOTES)].bytes
