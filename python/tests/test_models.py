"""Networks of several kinds, small: under plans they end up with eager's parameters, in no more memory than was said."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

import models  # noqa: E402

from tidegate.torch import forget_plans, last_plans, tidegate  # noqa: E402
from tidegate.torch.measure import Subject  # noqa: E402

# These have so many parameters beside their activations that not every budget can be had.
HEAVY = ("resnet18", "resnet50", "lstm")


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
@pytest.mark.filterwarnings("ignore:tidegate. graph 0. planned for")
def test_steps_under_a_plan_leave_eagers_bits(name):
    torch.manual_seed(0)
    module, inputs, loss = models.MODELS[name]()
    start = copy.deepcopy(module.state_dict())
    subject = Subject(module, inputs, loss)
    eager, eager_peak = trained(subject, subject.forward), subject.peak(subject.forward)
    # A recurrent layer of several steps in one kernel is many ops in a graph.
    same = torch.allclose if name == "lstm" else torch.equal
    for share in (0.8, 0.6, 0.45):
        torch._dynamo.reset()
        forget_plans()
        module.load_state_dict(start)
        run = subject.compiled(tidegate, {"budget": f"{share:.0%}", "evaluations": 100})
        assert all(same(a, b) for a, b in zip(trained(subject, run), eager))
        (said,) = last_plans()
        plan = said.plan
        assert said.checked.startswith("bit for bit that" if name == "lstm" else "bit for bit eager's")
        # Where a budget cannot be had, the least that was found is.
        assert name in HEAVY if said.note else plan.budget_bytes == round(share * said.trace.in_core_peak_bytes)
        # Beside the tensors of the plan there are single numbers, such as the loss that is looked at, and random states.
        taken, states = subject.peak(run), sum(op.get("random_bytes", 0) for op in said.trace.ops)
        assert 0.97 * plan.peak_bytes <= taken <= min(plan.peak_bytes + 1024, plan.budget_bytes) + states
        assert taken < eager_peak
