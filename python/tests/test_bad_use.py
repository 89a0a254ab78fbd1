"""What no plan is made for is said and trained in eager, or is an error: never a wrong gradient."""

import copy

import pytest

torch = pytest.importorskip("torch")

import tidegate.torch as tt  # noqa: E402
from torch import nn  # noqa: E402

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


def test_several_processes(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        mine, eagers = trained_in_eager(layers(), (torch.randn(8, 32),), "process group")
        assert all(map(torch.equal, mine, eagers))
    finally:
        torch.distributed.destroy_process_group()


def test_a_second_derivative_is_refused():
    step, given = compiled(layers()), torch.randn(8, 32, requires_grad=True)
    with pytest.raises(RuntimeError, match="double backward|donated buffers which requires create_graph=False"):
        (gradient,) = torch.autograd.grad(step(given).sum(), given, create_graph=True)
        gradient.square().sum().backward()


def test_another_shape_later_is_trained_without_a_plan_where_shapes_become_dynamic():
    module = layers()
    step = compiled(module, dynamic=None)
    step(torch.randn(8, 32)).square().mean().backward()
    module.zero_grad()
    given = torch.randn(6, 32)
    with pytest.warns(UserWarning, match="without a plan: dynamic shapes .*dynamic=False"):
        step(given).square().mean().backward()
    mine = [parameter.grad for parameter in module.parameters()]
    module.zero_grad()
    module(given).square().mean().backward()
    assert all(map(torch.equal, mine, [parameter.grad for parameter in module.parameters()]))


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
    from tidegate.torch import left_out

    left_out._KNOWN.clear()
    left_out.listen(tt.tidegate)
    with pytest.warns(UserWarning, match="a part of the model is in no graph, and is trained without a plan: .*RNN, GRU, or LSTM"):
        compiled(nn.GRU(8, 8))(torch.randn(3, 2, 8))
    assert not tt.last_plans()
