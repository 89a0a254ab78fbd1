"""Networks of several kinds, small: under plans they end up with eager's parameters, in no more memory than was said."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

import models  # noqa: E402

from tidegate.torch import forget_plans, last_plans, tidegate  # noqa: E402
from tidegate.torch.measure import Subject  # noqa: E402

# Of methods that plan at once: one that swaps and computes again; the others only compute again.
METHODS = {"resnet18": "capuchin", "gpt2": "capuchin", "llama": "capuchin", "unet": "capuchin"}
# Where less than 70 % of what eager takes holds no plan.
BUDGETS = {"resnet18": "85%", "lstm": "90%"}


def trained(subject, run, steps=10):
    """Losses, and everything that the optimizer has left of the model."""
    optimizer = torch.optim.SGD(subject.model.parameters(), lr=1e-3, momentum=0.9)
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        losses.append(subject.step(run))
        optimizer.step()
    return [*losses, *subject.model.state_dict().values()]


@pytest.mark.parametrize("name", models.MODELS)
@torch._dynamo.config.patch(allow_rnn=True)  # By itself Dynamo leaves recurrent layers out of graphs.
def test_steps_under_a_plan_leave_eagers_bits(name):
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, inputs, loss = models.MODELS[name]()
    eager, planned = Subject(module, inputs, loss), Subject(copy.deepcopy(module), inputs, loss)
    forget_plans()
    options = {"budget": BUDGETS.get(name, "70%"), "method": METHODS.get(name, "dtr"), "strict": True}
    run = planned.compiled(tidegate, options)
    left = trained(planned, run)
    # A recurrent layer of several steps in one kernel is many ops in a graph.
    same = torch.allclose if name == "lstm" else torch.equal
    assert all(same(a, b) for a, b in zip(left, trained(eager, eager.forward)))
    (said,) = last_plans()
    assert said.plan.peak_bytes < 0.95 * said.trace.in_core_peak_bytes
    assert said.checked.startswith("bit for bit" if name == "lstm" else "bit for bit eager's")
    # Beside the tensors of the plan there are single numbers, such as the loss that is looked at.
    taken = planned.peak(run)
    assert 0.97 * said.plan.peak_bytes <= taken <= min(said.plan.peak_bytes + 1024, said.plan.budget_bytes)
    assert taken < eager.peak(eager.forward)
