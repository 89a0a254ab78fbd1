"""What no plan is made for is said and trained in eager, or is an error: never a wrong gradient."""

import contextlib
import copy
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import tidegate  # noqa: E402
import tidegate.torch as tt  # noqa: E402
from tidegate.torch.measure import difference  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

OPTIONS = {"budget": "90%", "machine": "rtx-4090", "evaluations": 50}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    tt.forget_plans()
    torch.manual_seed(0)


def layers():
    return nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(4)))


def compiled(module, dynamic=False, **options):
    return torch.compile(module, backend=tt.tidegate, options={**OPTIONS, **options}, dynamic=dynamic)


def trained_in_eager(module, given, words):
    """The gradients of a step are eager's, and why there is no plan is said; with `strict` it is an error."""
    with pytest.raises(Exception, match=words):
        compiled(module, strict=True)(*given)
    torch._dynamo.reset()
    tt.forget_plans()
    with pytest.warns(UserWarning, match=f"without a plan: .*{words}"):
        compiled(module)(*given).square().mean().backward()
    assert all(graph.plan is None for graph in tt.last_plans())
    mine = [parameter.grad for parameter in module.parameters()]
    module.zero_grad()
    module(*given).square().mean().backward()
    return mine, [parameter.grad for parameter in module.parameters()]


def test_devices_that_nothing_runs_on():
    mine, _ = trained_in_eager(layers().to("meta"), (torch.randn(8, 32, device="meta"),), "a graph on meta")
    assert all(gradient.is_meta for gradient in mine)


def test_inputs_that_are_several_tensors():
    from torch.testing._internal.two_tensor import TwoTensor

    given = torch.randn(8, 32)
    mine, eagers = trained_in_eager(layers(), (TwoTensor(given, given.clone()),), "several tensors .TwoTensor")
    assert all(torch.equal(a.a, b.a) and torch.equal(a.b, b.b) for a, b in zip(mine, eagers, strict=True))


def test_gradients_that_are_sparse():
    module = nn.Sequential(nn.Embedding(64, 32, sparse=True), layers())
    mine, eagers = trained_in_eager(module, (torch.randint(0, 64, (8, 8)),), "a tensor of layout sparse_coo")
    assert all(torch.equal(a.to_dense(), b.to_dense()) for a, b in zip(mine, eagers, strict=True))


def test_several_processes(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        mine, eagers = trained_in_eager(layers(), (torch.randn(8, 32),), "process group")
        assert all(map(torch.equal, mine, eagers))
    finally:
        torch.distributed.destroy_process_group()


def penalty(step, given):
    """A loss with the gradient of another one in it."""
    given = given.detach().requires_grad_()
    result = step(given).sum()
    (gradient,) = torch.autograd.grad(result, given, create_graph=True)
    return result + gradient.square().sum()


class Penalised(nn.Module):
    """Takes a gradient within its own forward."""

    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x):
        return penalty(self.layers, x)


def twice(step, given):
    """Two losses of one output, each with a backward of its own; gives the second."""
    output = step(given)
    output[:, 0].square().mean().backward(retain_graph=True)
    return output[:, 1].square().mean()


def mixed():
    return nn.Sequential(layers(), nn.BatchNorm1d(32), nn.Dropout(0.2), nn.Linear(32, 4))


LEAVES = "its backward is to leave its graph, for a second one"


@pytest.mark.parametrize(("kind", "loss"), [(layers, penalty), (mixed, twice)], ids=["a derivative of one", "two losses"])
def test_a_backward_that_is_to_leave_its_graph_is_eagers(kind, loss):
    with pytest.raises(tidegate.PlanError, match=LEAVES):
        loss(compiled(kind(), strict=True), torch.randn(512, 32))
    torch._dynamo.reset()
    tt.forget_plans()
    leaves_its_graph(kind(), loss, LEAVES)


def leaves_its_graph(module, loss, words):
    """Two steps of eager and of a plan, whose first says why eager goes on."""
    start, found, given = copy.deepcopy(module.state_dict()), [], torch.randn(512, 32)
    step = compiled(module)
    for call in (module, step):
        module.load_state_dict(start)
        for number in range(2):
            module.zero_grad()
            torch.manual_seed(number)
            with pytest.warns(UserWarning, match=f"without a plan: {words}") if (call, number) == (step, 0) else contextlib.nullcontext():
                loss(call, given).backward()
            left = [*(parameter.grad for parameter in module.parameters()), *module.buffers()]
            found.append({str(number): leaf.clone() for number, leaf in enumerate(left)})
    # In the step that finds it, gradients of two graphs are added up; from then on all is eager's.
    assert difference(found[2], found[0])[0] < 1e-6 and difference(found[3], found[1]) == (0.0, "")


def test_a_model_that_takes_a_gradient_itself_is_eagers():
    """PyTorch 2.11 breaks the graph there; 2.15 captures nothing of such a model, and calls no backend."""
    leaves_its_graph(Penalised(), lambda step, given: step(given), "using `torch.autograd.grad`")
    graphs = tt.last_plans()
    assert not graphs or any(LEAVES in (graph.reason or "") for graph in graphs)


@torch._dynamo.config.patch(trace_autograd_ops=True)
def test_a_gradient_within_a_model_is_planned_where_it_is_captured():
    module, given = Penalised(), torch.randn(512, 32)
    step = compiled(module, budget="200%")
    for _ in range(2):
        assert all(map(torch.equal, gradients(module, step, given), gradients(module, module, given)))
    assert tt.last_plans()[-1].checked == "bit for bit eager's"


def test_a_graph_that_changes_what_it_reads_has_no_second_backward():
    class Shifted(nn.Linear):
        def __init__(self):
            super().__init__(32, 32)
            self.register_buffer("shift", torch.ones(32))

        def forward(self, x):
            y = (super().forward(x) + self.shift).sin()
            self.shift.mul_(0.5)
            return y.sin()

    step, given = compiled(Shifted(), budget="200%"), torch.randn(64, 32)
    with pytest.warns(UserWarning, match="leave its graph"), pytest.raises(tidegate.PlanError, match="a second backward of a graph that changes what it reads"):
        step(given).sum().backward(retain_graph=True)
    step(given).sum().backward(retain_graph=True)


def test_a_graph_that_changes_its_parameters_has_no_second_backward():
    module, given = nn.Sequential(nn.Embedding(8, 32, max_norm=1.0), layers()), torch.randint(0, 8, (64,))
    step = compiled(module, budget="200%")
    with pytest.warns(UserWarning, match="leave its graph"), pytest.raises(tidegate.PlanError, match="a second backward of a graph that changes its parameters"):
        step(given).sum().backward(retain_graph=True)


def test_a_graph_whose_parameters_changed_has_no_second_backward():
    module, given = nn.Sequential(nn.Embedding(8, 32), nn.Tanhshrink()), torch.randint(0, 8, (64,))
    output = compiled(module, budget="200%")(given)
    with torch.no_grad():
        module[0].weight.add_(1)
    with pytest.warns(UserWarning, match="leave its graph"), pytest.raises(tidegate.PlanError, match="parameters have changed since its forward"):
        output.sum().backward(retain_graph=True)


def gradients(module, step, given):
    module.zero_grad()
    step(given).square().mean().backward()
    return [parameter.grad for parameter in module.parameters()]


def test_another_shape_later_has_a_plan_until_dynamo_captures_no_more():
    module = layers()
    step = compiled(module, dynamic=None, budget="200%")
    limit = torch._dynamo.config.recompile_limit
    for number in range(limit + 2):
        given = torch.randn(8 + number, 32)
        said = pytest.warns(UserWarning, match=f"without a plan: .*recompile_limit .{limit}. .*size mismatch")
        with said if number == limit else contextlib.nullcontext():
            mine = gradients(module, step, given)
        assert all(map(torch.equal, mine, gradients(module, module, given)))
    assert [graph.checked for graph in tt.last_plans()] == ["bit for bit eager's"] * limit


def test_inputs_that_lie_otherwise_in_memory_have_plans():
    module, given = layers(), torch.randn(32, 64)
    step = compiled(module, dynamic=None, budget="200%")
    for view in (given.T, torch.randn(64, 64)[:, ::2], torch.randn(1, 32).expand(64, 32), given.view(64, 32)[:, :1].expand(64, 32)):
        assert all(map(torch.equal, gradients(module, step, view), gradients(module, module, view)))
    assert [graph.checked for graph in tt.last_plans()] == ["bit for bit eager's"] * 4


def test_sizes_of_other_backends_stay_as_they_are():
    seen = []

    def other(module, _inputs):
        given = [node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")]
        seen.append(any(isinstance(value, torch.SymInt) for value in given))
        return module

    module = layers()
    mine, others = compiled(module, dynamic=None, budget="200%"), torch.compile(lambda x: x.sin(), backend=other)
    for number in range(2, 5):
        gradients(module, mine, torch.randn(number, 32))
        others(torch.randn(number, 32))
    assert seen == [False, True] and len(tt.last_plans()) == 3


@pytest.mark.parametrize("again", [True, False])
def test_a_checkpoint_may_be_around_what_is_compiled(again):
    module, given, found = mixed(), torch.randn(64, 32), []
    for step in (module, compiled(module)):
        torch.manual_seed(2)
        kept = given.clone().requires_grad_()
        found.append(gradients(module, lambda x: checkpoint(step, x, use_reentrant=again), kept))
    assert all(map(torch.equal, *found)) and tt.last_plans()[-1].checked == "bit for bit eager's"


def test_checkpoints_may_be_around_blocks_that_are_planned_once_more():
    """The second graph is called for two blocks: the backward of one ends before the other's checkpoint runs it again."""
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 32)) for _ in range(3))
    given, found = torch.randn(64, 32), []
    for step in (list(blocks), [compiled(block, budget="55%", evaluations=800) for block in blocks]):
        torch.manual_seed(2)

        def through(x, step=step):
            with torch.autocast("cpu", torch.bfloat16):
                for block in step:
                    x = checkpoint(block, x, use_reentrant=False)
            return x.float()

        found.append([gradients(blocks, through, given.clone().requires_grad_()) for _ in range(3)])
    assert all(map(torch.equal, sum(found[0], []), sum(found[1], []))) and all(graph.plan is not None for graph in tt.last_plans())


def test_sizes_that_are_asked_to_vary_are_trained_without_a_plan():
    module, given = layers(), torch.randn(8, 32)
    torch._dynamo.mark_dynamic(given, 0)
    with pytest.warns(UserWarning, match="without a plan: dynamic shapes"):
        mine = gradients(module, compiled(module, dynamic=None), given)
    assert all(map(torch.equal, mine, gradients(module, module, given)))


def test_a_model_that_goes_to_eval_and_back_has_eagers_gradients():
    module = nn.Sequential(layers(), nn.BatchNorm1d(32), nn.Dropout(0.2), nn.Linear(32, 4))
    start, given, found = copy.deepcopy(module.state_dict()), torch.randn(16, 32), []
    for step in (module, compiled(module)):
        module.load_state_dict(start)
        torch.manual_seed(1)
        for training in (True, False, True):
            module.train(training).zero_grad()
            step(given).square().mean().backward()
            found.append([parameter.grad.clone() for parameter in module.parameters()] + [v.clone() for v in module.state_dict().values()])
    assert all(torch.equal(a, b) for eager, mine in zip(found[:3], found[3:], strict=True) for a, b in zip(eager, mine, strict=True))
    assert [graph.checked for graph in tt.last_plans()] == ["bit for bit eager's"] * 2


def test_what_is_in_no_graph_is_said():
    for _ in range(2):  # Each time, and after a reset, too.
        torch._dynamo.reset()
        with pytest.warns(UserWarning, match="a part of the model is in no graph, and is trained without a plan: .*RNN, GRU, or LSTM"):
            compiled(nn.GRU(8, 8))(torch.randn(3, 2, 8))
        assert not tt.last_plans()


# Dynamo of PyTorch 2.11 looks at what is called while the model takes its gradient, and the backward compiles there.
ASKING = """
import torch
import tidegate.torch

class Asking(torch.nn.Linear):
    def forward(self, x):
        y = super().forward(x).sin()
        (gradient,) = torch.autograd.grad(y.sum(), x)
        return y + gradient

torch.compile(Asking(4, 4), backend="aot_eager")(torch.randn(3, 4, requires_grad=True))
"""


def test_what_listens_to_compilations_holds_up_none():
    # A process of its own: what waits for a lock that it holds never ends, and cannot be interrupted.
    subprocess.run([sys.executable, "-c", ASKING], check=True, timeout=60)
