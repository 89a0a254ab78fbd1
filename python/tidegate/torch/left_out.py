"""Says what Dynamo leaves out of graphs: no backend is called for it, and it is trained in eager without a plan."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from torch._dynamo import callback_handler, eval_frame
from torch._dynamo.utils import counters

_KNOWN: set[str] = set()


def listen(backend: Callable) -> None:
    """Looks at what each compilation left out, where models are compiled for the backend. `torch._dynamo.reset` ends it."""
    _reasons()
    if not any(getattr(known, "listens", False) for known in callback_handler.end_callbacks):

        def ended(_compilation: object) -> None:
            asked = any(getattr(known, "compiler_fn", known) is backend for known in eval_frame.cached_backends.values())
            for reason in _reasons():
                if asked:
                    warnings.warn(f"tidegate: a part of the model is in no graph, and is trained without a plan: {reason}", stacklevel=2)

        ended.listens = True
        callback_handler.register_end_callback(ended)


def _reasons() -> list[str]:
    """First lines of why Dynamo left something out, that were not known."""
    found = [reason for kind in ("graph_break", "unimplemented") for reason in counters[kind] if reason not in _KNOWN]
    _KNOWN.update(found)
    lines = [[line.strip() for line in reason.splitlines() if line.strip()] for reason in found]
    return [" ".join(line.removeprefix("Explanation: ") for line in each[:2]) for each in lines if each]
