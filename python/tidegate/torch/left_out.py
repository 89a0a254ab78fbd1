"""Says what Dynamo leaves out of graphs: no backend is called for it, and it is trained in eager without a plan."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable

import torch
from torch._dynamo import callback_handler, eval_frame
from torch._dynamo.utils import counters

from . import settings

_KNOWN: Counter[str] = Counter()


def listen(backend: Callable) -> None:
    """Looks from now on at what each compilation left out, where models are compiled for the backend."""

    def said(reasons: list[str]) -> None:
        if any(getattr(known, "compiler_fn", known) is backend for known in eval_frame.cached_backends.values()):
            for reason in reasons:
                warnings.warn(f"tidegate: a part of the model is in no graph, and is trained without a plan: {reason}", stacklevel=3)

    # The callbacks' lock is held: Dynamo, asked for code here, as it is within a backward, would wait for it for ever.
    @torch._dynamo.disable
    def ended(_compilation: object) -> None:
        settings.restore()
        said(_reasons())

    def logged(record: logging.LogRecord) -> bool:
        """That Dynamo captures no more of a function is a line in its log, and nothing else."""
        if str(record.msg).startswith("torch._dynamo hit config."):
            said([" ".join(line.strip() for line in record.getMessage().splitlines()[:3])])
        return True

    def cleared(clear: Callable = callback_handler.clear) -> None:
        clear()
        _reasons()
        callback_handler.register_end_callback(ended)

    logging.getLogger("torch._dynamo.convert_frame").addFilter(logged)
    # `torch._dynamo.reset` clears the callbacks, and calls no backend of what is in no graph afterwards.
    callback_handler.clear = cleared
    _reasons()
    callback_handler.register_end_callback(ended)


def _reasons() -> list[str]:
    """First lines of why Dynamo left something out since it was last asked."""
    now = counters["graph_break"] + counters["unimplemented"]
    found = [reason for reason, count in now.items() if count > _KNOWN[reason]]
    _KNOWN.clear()
    _KNOWN.update(now)
    lines = [[line.strip() for line in reason.splitlines() if line.strip()] for reason in found]
    return [" ".join(line.removeprefix("Explanation: ") for line in each[:2]) for each in lines if each]
