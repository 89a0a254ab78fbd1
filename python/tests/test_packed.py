"""Masks and positions that forward keeps are packed: nothing is lost, and what a plan says of memory holds."""

import pytest

torch = pytest.importorskip("torch")

import tidegate.torch as tt  # noqa: E402
from test_apply_torch import fresh  # noqa: E402, F401
from tidegate.torch import packed  # noqa: E402
from tidegate.torch.measure import Subject, difference  # noqa: E402
from torch import nn  # noqa: E402


class Pools(nn.Module):
    """Keeps little but masks and positions."""

    def forward(self, x):
        for _ in range(6):
            x = nn.functional.dropout(x, 0.3)
        x = nn.functional.max_pool2d(x, 2)
        return nn.functional.dropout(x, 0.3).sum()


@pytest.mark.parametrize("shape", [(5,), (8,), (3, 7, 11), (3 * packed.CHUNK["cpu"] + 5, 8)])
def test_masks_come_back(shape):
    mask = torch.rand(shape) > 0.4
    for each in (mask, mask.movedim(0, -1)):
        small = torch.ops.tidegate.pack(each, stride=each.stride())
        again = torch.ops.tidegate.unpack(small, each.shape, each.stride())
        assert torch.equal(again, each) and again.stride() == each.stride() and small.nbytes == -(-each.numel() // 8)


def test_a_mask_that_lies_otherwise_than_was_said_is_refused():
    with pytest.raises(RuntimeError, match="otherwise, .1, 3., than PyTorch says of it, .4, 1."):
        torch.ops.tidegate.pack((torch.rand(4, 3) > 0.4).t(), stride=(4, 1))


def test_what_cannot_be_kept_is_packed():
    given = torch.randn(8, 8, 64, 64)
    subject = Subject(nn.Sequential(nn.Conv2d(8, 8, 1), Pools()), (given,))
    options = {"budget": "90%", "machine": "rtx-4090", "strict": True, "method": "tide", "evaluations": 100}
    with pytest.raises(Exception, match="PlanError"):
        subject.step(subject.compiled(tt.tidegate, {**options, "allow": "keep"}))
    tt.forget_plans()
    run = subject.compiled(tt.tidegate, {**options, "allow": "keep,compress"})
    assert difference(subject.state(run), subject.state(subject.forward)) == (0.0, "")
    (graph,) = tt.last_plans()
    assert graph.checked == "bit for bit eager's" and graph.plan.peak_bytes <= graph.plan.budget_bytes
    assert not any(decision["choice"] in ("swap", "recompute") for decision in graph.plan.decisions)
    sizes = {tensor["dtype"] for op in graph.trace.ops if "pack" in op["key"] or "_to_copy" in op["key"] for tensor in [graph.trace.tensors[op["writes"][0]]]}
    assert sizes == {"u8", "bool", "i16", "i64"}
    assert subject.peak(run) <= graph.plan.budget_bytes
    assert subject.peak(run) == pytest.approx(graph.plan.peak_bytes, rel=0.01)


@pytest.mark.parametrize(("side", "dtype"), [(16, torch.uint8), (64, torch.int16), (256, torch.int32)])
def test_positions_take_what_the_largest_takes(side, dtype):
    model = nn.Sequential(nn.Conv2d(2, 8, 1), nn.MaxPool2d(2))
    images = torch.randn(16, 2, side, side)
    joint = tt.trace(model, (images,), loss=lambda output: output.square().mean(), machine="rtx-4090").joint
    small = packed.form(joint)
    (narrow,) = [node for node in small.module.graph.nodes if node.kwargs.get("dtype") == dtype]
    (wide,) = narrow.users
    assert wide.meta["val"].dtype == torch.int64 and not small.op[wide].forward and small.op[narrow].forward


def test_where_nothing_can_be_packed_there_is_no_other_form():
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    joint = tt.trace(model, (torch.randn(512, 64),), loss=lambda output: output.square().mean(), machine="rtx-4090").joint
    assert packed.form(joint) is None


def test_codecs_are_refused():
    step = torch.compile(nn.Linear(8, 8), backend=tt.tidegate, options={"codecs": "zvc"})
    with pytest.raises(Exception, match="codecs: PyTorch has none to run; what `compress` in `allow` packs"):
        step(torch.randn(4, 8))
