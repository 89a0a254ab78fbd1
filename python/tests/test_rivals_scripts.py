"""The scripts for a GPU: what they do is for a GPU to show; how they fail is shown here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "python" / "examples"


def ran(*call):
    return subprocess.run([sys.executable, *map(str, call)], cwd=EXAMPLES, capture_output=True, text=True)


def test_a_step_that_fails_costs_no_other(tmp_path):
    row = {"budget": "60%", "step_s": 0.002, "peak_bytes": 5_000_000}
    found = {"title": "a network", "notes": [], "eager": row, "unplanned": row, "noise": 0.0, "rows": [row]}
    steps = f"[('raises', 60, lambda: 1 / 0), ('unplanned', 60, lambda: ({found}, False)), ('works', 60, lambda: ({found}, True))]"
    done = ran("-c", f"import sys, gpu; gpu.STEPS = {steps}; sys.argv[1:] = [{str(tmp_path)!r}]; sys.exit(gpu.main())")
    assert done.returncode == 1, done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [step["how"] for step in summary] == ["failed", "trained under no plan", "ok"]
    assert "ZeroDivisionError" in (tmp_path / "raises.log").read_text() and "ZeroDivisionError" in done.stdout
    shown = ran("gpu.py", "--show", tmp_path / "works.json").stdout
    assert shown == (tmp_path / "works.txt").read_text() and "5.000 MB" in shown


def test_recordings_say_what_they_would_record_and_what_they_need(tmp_path):
    script = REPOSITORY / "recordings" / "record.py"
    assert "resnet50-b32-f32" in ran(script, tmp_path, "--list").stdout.splitlines()
    assert "none of ['resnet51'] is there" in ran(script, tmp_path, "--only", "resnet51").stderr
    if not torch.cuda.is_available():
        assert "no CUDA device is at hand" in ran(script, tmp_path).stderr
