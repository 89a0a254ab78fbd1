"""Settings of Dynamo that are others until the compilation has ended within which they are set."""

from __future__ import annotations

from torch._dynamo import config
from torch._guards import CompileContext

_BEFORE: dict[str, object] = {}


def until_compiled(name: str, value: object) -> None:
    """Sets one, where something is compiled."""
    if CompileContext.try_get() is not None:
        _BEFORE.setdefault(name, getattr(config, name))
        setattr(config, name, value)


def restore() -> None:
    """Gives all the values that they had."""
    for name, value in _BEFORE.items():
        setattr(config, name, value)
    _BEFORE.clear()
