"""What a model's iteration is as a trace."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: capture is not tested")

import tidegate  # noqa: E402
import tidegate.torch as tt  # noqa: E402
from tidegate.torch import times  # noqa: E402
from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402


def classifier():
    """Convolution, batch norm, dropout and a view, and what they are trained on."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 64, 4)
    )
    return module, (torch.randn(5, 3, 8, 8),)


def loss(output):
    """A number."""
    return output.float().square().mean()


def captured(**changes):
    """The classifier's trace, modelled, so that nothing is timed."""
    module, inputs = classifier()
    return tt.trace(module, inputs, loss=loss, **{"machine": "rtx-4090", **changes})


def test_ops_are_calls_and_views_are_none():
    capture = captured()
    names = [op["name"].rsplit(".", 1)[-1] for op in capture.trace.ops]
    assert any(name.startswith("convolution") for name in names)
    assert not any(name.startswith(("view", "t_", "detach", "getitem")) for name in names)
    phases = [op["phase"] for op in capture.trace.ops]
    assert phases == sorted(phases, key=["forward", "backward"].index)


def test_what_changes_and_what_a_rerun_has_to_do_with_is_said():
    trace = captured().trace
    name = lambda numbers: {trace.tensors[number]["name"] for number in numbers}  # noqa: E731
    (norm,) = (op for op in trace.ops if "rerun" in op)
    assert norm.get("rerunnable", True) and len(norm["mutates"]) == 2
    assert set(norm["reads"]) - set(norm["rerun"]["reads"]) == set(norm["mutates"])
    running = [trace.tensors[number] for number in set(norm["writes"]) - set(norm["rerun"]["writes"])]
    assert [(tensor["bytes"], tensor["held"]) for tensor in running] == [(32, True)] * 2
    (counter,) = (op for op in trace.ops if not op.get("rerunnable", True))
    assert counter["mutates"] == counter["reads"] and name(counter["reads"]) <= {f"primals_{number}" for number in range(12)}
    assert [bool(op.get("random_bytes")) for op in trace.ops] == ["dropout" in op["key"] and "backward" not in op["key"] for op in trace.ops]
    again = tidegate.Trace.from_json(trace.to_json())
    tidegate.verify(tidegate.plan(again, tidegate.Machine.load("rtx-4090"), budget="95%", method="dtr"), again)


def test_keys_are_nodes_of_the_graph():
    capture = captured()
    nodes = {node.name for node in capture.graph.graph.nodes}
    assert {op["key"] for op in capture.trace.ops} <= nodes
    assert {tensor["key"] for tensor in capture.trace.tensors} <= nodes


def test_the_caller_holds_inputs_parameters_and_gradients():
    module, _ = classifier()
    held = [tensor for tensor in captured().trace.tensors if tensor.get("held")]
    parameters = [tensor["bytes"] for tensor in held if tensor["role"] == "parameter"]
    assert sorted(parameters) == sorted(parameter.nbytes for parameter in module.parameters())
    gradients = [tensor["bytes"] for tensor in held if tensor["role"] == "gradient"]
    assert sum(gradients) >= sum(parameters)


def test_what_is_on_meta_is_captured_as_what_is_not():
    module, inputs = classifier()
    meta = tt.trace(module.to("meta"), tuple(tensor.to("meta") for tensor in inputs), loss=loss, machine="rtx-4090")
    assert meta.trace.digest == captured().trace.digest


def test_meta_without_a_machine_has_no_times():
    module, inputs = classifier()
    with pytest.raises(ValueError, match="state the `machine`"):
        tt.trace(module.to("meta"), tuple(tensor.to("meta") for tensor in inputs), loss=loss)


def test_optimizer_state_is_held():
    module, inputs = classifier()
    optimizer = torch.optim.Adam(module.parameters())
    loss(module(*inputs)).backward()
    optimizer.step()
    roles = [tensor["role"] for tensor in tt.trace(module, inputs, loss, optimizer, "rtx-4090").trace.tensors]
    assert roles.count("optimizer_state") == 2 * len(list(module.parameters()))


def test_a_graph_that_breaks_is_refused_by_name():
    class Printing(nn.Linear):
        def forward(self, x):
            print("broken")
            return super().forward(x)

    with pytest.raises(ValueError, match="not one graph"):
        tt.trace(Printing(4, 4), (torch.randn(2, 4),), loss=loss, machine="rtx-4090")


def test_no_gradients_no_trace():
    module, inputs = classifier()
    with pytest.raises(ValueError, match="no backward"):
        tt.trace(module.requires_grad_(False), inputs, loss=loss, machine="rtx-4090")


def test_measured_times_are_of_this_device():
    module, inputs = classifier()
    capture = tt.trace(module, inputs, loss=loss)
    assert capture.trace.total_time_ns > 0
    assert all(op["duration_ns"] > 0 for op in capture.trace.ops)


def test_an_op_that_is_timed_alone_is_given_numbers_that_another_op_has_really_made():
    def index(given):
        _, place = torch.max(given, 0)
        return torch.ops.aten.add(place, given), torch.ops.aten.relu(given)

    with torch._subclasses.FakeTensorMode():
        module = make_fx(index)(torch.randn(9))
    calls = {str(node.target): node for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)}
    (place, given), _ = times.operands(calls["aten.add.Tensor"])
    assert place.shape == () and given.shape == (9,)
    drawn = {int(times.operands(calls["aten.add.Tensor"])[0][0]) for _ in range(40)}
    assert len(drawn) > 1 and drawn <= set(range(9))
