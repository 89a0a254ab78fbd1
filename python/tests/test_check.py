"""`check`: what it finds is what is there, a wrong gradient included, and bad use is refused in words."""

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tidegate.torch as tt  # noqa: E402
from tidegate.torch import measure  # noqa: E402
from tidegate.torch.graph import STATE_BYTES  # noqa: E402
from tidegate.torch.measure import Subject, SubjectError, difference  # noqa: E402

check_module = sys.modules["tidegate.torch.check"]
REPOSITORY = Path(__file__).resolve().parents[2]


def small(width=64, depth=6):
    """A network whose activations outweigh its parameters, with what draws numbers and what is normalised."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    layers = [
        layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.BatchNorm1d(width), nn.GELU(), nn.Dropout(0.1))
    ]
    return nn.Sequential(*layers), (torch.randn(512, width),), lambda output: output.square().mean()


def test_the_table_says_per_budget_what_was_said_and_what_came():
    model, inputs, loss = small()
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    found = tt.check(model, inputs, ["60%", "1%"], loss=loss, rounds=1, steps=2, method="dtr")
    planned, refused = found.rows
    assert planned.problem is None and planned.off == 0 and planned.off_unplanned == 0 and found.noise == 0
    # Beside the plan there is a generator's state for a moment, where what draws is run again.
    assert planned.peak_bytes <= planned.planned_peak_bytes + STATE_BYTES["cpu"]
    assert planned.planned_peak_bytes <= 0.6 * found.unplanned.planned_peak_bytes
    assert planned.step_s > 0 and planned.predicted_s > 0 and found.unplanned.predicted_s > 0
    assert found.drift > 0 and "between the steps" in str(found)
    assert "budget" in refused.problem and refused.step_s is None and not found.applied
    text = str(found)
    header = next(line for line in text.splitlines() if line.startswith("budget"))
    assert header.split("  ")[0] == "budget" and "no plan's bits" in header
    assert [line.split()[0] for line in text.splitlines()[-4:]] == ["eager", "no", "60%", "1%:"]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in model.named_buffers())


def test_random_states_are_part_of_the_peak_that_is_said():
    """Each dropout that runs again keeps one, and the graph one where a second backward would begin."""
    torch._dynamo.reset()
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.1), nn.Tanh()) for _ in range(8)))
    found = tt.check(model, (torch.randn(256, 16),), ["80%"], loss=lambda output: output.square().mean(), rounds=1, steps=1,
                     method="dtr", allow="keep,recompute")  # fmt: skip
    (graph,) = tt.last_plans()
    (row,) = found.rows
    assert row.planned_peak_bytes == graph.plan.peak_bytes + graph.states_bytes and graph.states_bytes > 2 * STATE_BYTES["cpu"]
    assert found.unplanned.peak_bytes == pytest.approx(found.unplanned.planned_peak_bytes, abs=STATE_BYTES["cpu"] / 2)
    assert row.planned_peak_bytes - STATE_BYTES["cpu"] <= row.peak_bytes <= row.planned_peak_bytes + STATE_BYTES["cpu"]
    assert row.peak_bytes <= 0.8 * graph.trace.in_core_peak_bytes


def test_a_wrong_gradient_is_found(monkeypatch):
    model, inputs, loss = small(depth=2)
    subject = Subject(model, inputs, loss)
    reference = subject.state(subject.forward)

    def wrong():
        # Dropout draws anew: what computing it again without its state would do.
        torch.manual_seed(7)
        return subject.forward()

    off, _ = difference(subject.state(wrong), reference)
    assert off > 1e-3
    said = check_module.Planned(1e-3, 1, 1)
    monkeypatch.setattr(check_module, "planned", lambda subject, options: (wrong, said))
    (row,) = tt.check(model, inputs, ["60%"], loss=loss, rounds=1, steps=1).rows
    assert row.off == off and f"off {off:.1e}" in str(tt.check(model, inputs, ["60%"], loss=loss, rounds=1, steps=1))


@pytest.mark.parametrize(
    ("one", "other", "off"),
    [([1.0, 2.0], [1.0, 2.0], 0.0), ([1.0, 3.0], [1.0, 2.0], 0.5), ([1.0, float("nan")], [1.0, 2.0], float("inf"))],
)
def test_differences_are_shares_of_the_largest_value(one, other, off):
    assert difference({"a": torch.tensor(one)}, {"a": torch.tensor(other)})[0] == off


def test_a_tensor_that_is_missing_is_as_far_off_as_can_be():
    assert difference({}, {"a": torch.ones(1)}) == (float("inf"), "a")


def test_the_peak_is_what_was_allocated_at_once():
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1 << 18))

        def forward(self):
            return (self.weight.exp() * 2).sum()

    # Beside the weight: what exp gave, and what backward makes of both functions; besides, numbers of 4 bytes.
    subject = Subject(Doubled(), ())
    assert subject.outlives == 1 << 20
    assert 4 << 20 <= subject.peak(subject.forward) <= (4 << 20) + 64


def test_what_a_loss_closes_over_is_part_of_the_peak():
    model, inputs, _ = small(depth=2)
    labels = torch.zeros(512, 64)
    with_labels, without = Subject(model, inputs, lambda output: (output - labels).square().mean()), Subject(model, inputs)
    assert with_labels.outlives == without.outlives + labels.nbytes


def test_bad_use_is_refused_in_words():
    model, inputs, loss = small(depth=1)
    with pytest.raises(SubjectError, match="lie on cpu and meta: move all to one device"):
        tt.check(model, (inputs[0].to("meta"),), loss=loss)
    with pytest.raises(SubjectError, match="cannot be measured: move the model to cpu or cuda"):
        tt.check(model.to("meta"), (inputs[0].to("meta"),), loss=loss)
    model, inputs, _ = small(depth=1)
    with pytest.raises(SubjectError, match="give `loss`"):
        tt.check(model, inputs)
    with pytest.raises(SubjectError, match="no parameter of the model requires a gradient"):
        tt.check(model.requires_grad_(False), inputs, loss=loss)


def test_eval_mode_is_said_and_trained_as_it_is():
    model, inputs, loss = small(depth=3)
    found = tt.check(model.eval(), inputs, ["70%"], loss=loss, rounds=1, steps=1, method="dtr")
    assert "eval mode" in str(found) and found.rows[0].off == 0


def test_figures_are_written_for_people():
    assert [measure.size(n) for n in (512, 2_500, 12_345_678, 5_686_000_000)] == ["512 B", "2.500 KB", "12.346 MB", "5.686 GB"]
    assert [measure.duration(s) for s in (0.0123456, 1.5)] == ["12.346 ms", "1.500 s"]
    assert measure.table([["a", "b"], ["long", "1"]]) == "a     b\nlong  1"


def test_the_page_shows_what_its_example_prints(capsys):
    torch._dynamo.reset()
    tt.forget_plans()
    example, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", (REPOSITORY / "docs/pytorch.md").read_text(), re.DOTALL).groups()
    exec(example, {})
    assert capsys.readouterr().out == shown


def test_the_example_trains_two_networks_under_plans():
    call = [sys.executable, "python/examples/train_under_a_plan.py", "resnet50", "gpt2", "--budget", "75%", "--steps", "4", "--evaluations", "100"]
    done = subprocess.run(call, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("after 4 steps") == done.stdout.count("are eager's bits") == 2


@pytest.mark.parametrize(("fused", "predicted"), [(False, 5e-9), (True, None)])
def test_times_of_fused_kernels_are_not_predicted(fused, predicted, monkeypatch):
    plan = types.SimpleNamespace(predicted_ns=5)
    monkeypatch.setattr(check_module, "last_plans", lambda: [types.SimpleNamespace(plan=plan, peak_bytes=9, reason=None)])
    assert check_module.Planned.last(fused=fused) == check_module.Planned(predicted, 9, 1)
