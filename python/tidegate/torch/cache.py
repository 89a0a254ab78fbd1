"""Plans that were made before, with the traces that they are of: in memory, and in the user's cache folder.

They are found by the graph and by all that was asked. Measured times are not part of the question, as no two measurements
are alike: who wants them anew removes the folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

try:
    VERSION = metadata.version("tidegate")
except metadata.PackageNotFoundError:
    VERSION = "unpackaged"

_KEPT: dict[str, str] = {}


def folder() -> Path:
    """Where plans are kept between runs."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "tidegate" / "plans"


def kept(asked: list[str], make: Callable[[], str]) -> str:
    """The text that was kept for this question, or else what `make` gives."""
    key = hashlib.sha256("\n".join(asked).encode()).hexdigest()
    if key in _KEPT:
        return _KEPT[key]
    path = folder() / f"{key}.json"
    try:
        _KEPT[key] = path.read_text(encoding="utf-8")
        return _KEPT[key]
    except OSError:
        pass
    _KEPT[key] = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole, so that no other process reads a part.
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(_KEPT[key], encoding="utf-8")
        part.replace(path)
    except OSError:
        # A folder that cannot be written costs the next run its planning time, nothing else.
        pass
    return _KEPT[key]
