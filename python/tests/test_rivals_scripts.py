"""The scripts for a GPU: what they do is for a GPU to show; how they fail is shown here."""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

import gpu  # noqa: E402

RECORD = Path(__file__).resolve().parents[2] / "recordings" / "record.py"


def test_a_step_that_fails_costs_no_other(tmp_path, monkeypatch, capsys):
    row = {"budget": "60%", "step_s": 0.002, "peak_bytes": 5_000_000}
    found = {"title": "a network", "notes": [], "eager": row, "unplanned": row, "noise": 0.0, "rows": [row]}
    steps = [("raises", 60, lambda: os.write(1, b"begun") / 0), ("unplanned", 60, lambda: (found, False)), ("works", 60, lambda: (found, True))]
    monkeypatch.setattr(gpu, "STEPS", steps)
    monkeypatch.setattr(sys, "argv", ["gpu.py", str(tmp_path)])
    assert gpu.main() == 1
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [step["how"] for step in summary] == ["failed", "trained under no plan", "ok"]
    assert "begun" in (tmp_path / "raises.log").read_text() and "ZeroDivisionError" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--show", str(tmp_path / "works.json")])
    gpu.main()
    shown = capsys.readouterr().out
    assert shown == (tmp_path / "works.txt").read_text() and "5.000 MB" in shown


def test_recordings_say_what_they_would_record_and_what_they_need(tmp_path, monkeypatch, capsys):
    def ended(*given):
        monkeypatch.setattr(sys, "argv", [str(RECORD), str(tmp_path), *given])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(RECORD), run_name="__main__")
        return str(end.value.code)

    ended("--list")
    assert "resnet50-b32-f32" in capsys.readouterr().out.splitlines()
    assert "none of ['resnet51'] is there" in ended("--only", "resnet51")
    if not torch.cuda.is_available():
        assert "no CUDA device is at hand" in ended()
