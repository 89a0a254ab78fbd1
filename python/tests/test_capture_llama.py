"""The example that captures Llama on `meta`: of one layer here."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "capture_llama.py"


def test_what_fits_is_planned_and_what_does_not_is_said():
    call = [sys.executable, EXAMPLE, "rtx-4090", "--layers", "1", "--batch", "1", "--words", "256", "--budget", "110%", "--budget", "1%"]
    done = subprocess.run(list(map(str, call)), capture_output=True, text=True)
    head, fits, short = done.stdout.splitlines()
    assert " parameters in bf16, 1 times 256 words; captured in " in head and head.startswith("rtx-4090: ")
    assert fits.startswith("  110%: peak ") and "more than the budget" in short and done.returncode == 0
