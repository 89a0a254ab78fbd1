"""`rivals`: PyTorch's own ways and ours in one table, and what is not there is said."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

import models  # noqa: E402

from tidegate.torch import rivals  # noqa: E402
from tidegate.torch.measure import Subject, difference, many_graphs  # noqa: E402

MODELS = Path(models.__file__)


@pytest.mark.parametrize(("name", "count"), [("resnet50", 16), ("gpt2", 4), ("vit", 3), ("llama", 3), ("lstm", 0)])
def test_blocks_are_what_is_repeated(name, count):
    assert len(rivals.blocks(models.MODELS[name]()[0])) == count


def test_checkpointed_blocks_give_eagers_gradients_and_are_put_back():
    module, inputs, loss = models.gpt2()
    subject = Subject(module, inputs, loss)
    run = rivals.checkpointed(subject)
    state, reference = subject.state(run), subject.state(subject.forward)
    assert difference(state, reference) == (0.0, "")
    assert subject.peak(run) < subject.peak(subject.forward)
    assert not any("forward" in block.__dict__ for block in rivals.blocks(module))


def blocks():
    """A network that is compiled in no time, with blocks to checkpoint."""
    torch.manual_seed(0)
    layers = (torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Dropout(0.1)) for _ in range(4))
    return torch.nn.Sequential(*layers), (torch.randn(512, 32),), lambda output: output.square().mean()


def test_each_rival_has_ours_at_its_peak_beside_it():
    torch._dynamo.reset()
    found = rivals.rivals(*blocks(), ["80%"], shares=[0.5], rounds=1, steps=1, method="dtr")
    rows = {row.name: row for row in found.rows}
    assert list(rows)[:5] == ["eager", "checkpoint per block", "tidegate at checkpoint per block", "save_on_cpu", "aot_eager"]
    ours = rows["tidegate at checkpoint per block"]
    assert ours.peak_bytes <= rows["checkpoint per block"].peak_bytes and ours.off == 0
    assert rows["tidegate 80%"].off == 0 and ours.predicted_s > found.beside_s > 0 and "beside its ops" in str(found)
    assert "host is the device's" in rows["save_on_cpu"].problem
    assert sum(line.startswith("at the peak of") for line in str(found).splitlines()) == sum(bool(row.beside and row.step_s) for row in found.rows)


@pytest.mark.parametrize("dropout", [0.1, 0.0])
def test_pytorchs_smaller_budgets_draw_other_numbers_for_dropout(dropout):
    """What the documentation says of them: with nothing to draw, their gradients are eager's."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch._dynamo.reset()
    torch.manual_seed(0)
    drops = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
    config = GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=4, n_head=4, use_cache=False, **drops)
    subject = Subject(*models.language(config, GPT2LMHeadModel, 16, 64))
    eager = subject.state(subject.forward)
    with many_graphs():
        off = [difference(subject.state(rivals.partitioned(subject, "aot_eager", share)), eager)[0] for share in (0.5, 0.25, 0.0)]
    assert all(each > 0.5 for each in off) if dropout else off == [0.0] * 3


def test_the_command_writes_what_it_found(tmp_path, capsys):
    torch._dynamo.reset()
    out = tmp_path / "out.json"
    assert rivals.main([f"{Path(__file__)}:blocks", "--budgets", "90%", "--rounds", "1", "--steps", "1", "--json", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    printed = capsys.readouterr().out
    assert rows[0]["name"] == "eager" and all(row["name"] in printed for row in rows)


@pytest.mark.parametrize(
    ("model", "words"),
    [("models", "names no function"), ("absent.py:gpt2", "no file 'absent.py'"), (f"{MODELS}:gpt9", "has no 'gpt9'"),
     ("absent_module:gpt2", "absent_module")],
)  # fmt: skip
def test_models_that_are_not_there_are_said(model, words, capsys):
    assert rivals.main([model]) == 2
    assert words in capsys.readouterr().err
