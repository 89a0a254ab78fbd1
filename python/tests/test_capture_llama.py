"""The example that captures Llama on `meta`: of one layer here."""

import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import capture_llama  # noqa: E402


def test_what_fits_is_planned_and_what_does_not_is_said(monkeypatch, capsys):
    call = ["capture_llama.py", "rtx-4090", "--layers", "1", "--batch", "1", "--words", "256", "--budget", "110%", "--budget", "1%"]
    monkeypatch.setattr(sys, "argv", call)
    capture_llama.main()
    head, fits, short = capsys.readouterr().out.splitlines()
    assert " parameters in bf16, 1 times 256 words; captured in " in head and head.startswith("rtx-4090: ")
    assert fits.startswith("  110%: peak ") and "more than the budget" in short
