"""What tests share: the examples' models are found, no plan of one run is kept for the next, one trace and its machine."""

import sys
from pathlib import Path

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
