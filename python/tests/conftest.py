"""What tests share: the examples' models are found, no plan of one run is kept for the next, one trace and its machine."""

import os
import sys
from pathlib import Path

# One thread a process: what is trained here is so small that more threads wait for each other, and as many processes as
# there are cores run these tests. Read when PyTorch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import pytest

import tidegate

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))


@pytest.fixture(autouse=True)
def _plans_are_made_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def trace():
    return tidegate.Trace.load("unet-h100")


@pytest.fixture(scope="module")
def machine():
    return tidegate.Machine.load("h100-sxm")
