"""PyTorch models under plans: capture as a trace, and a `torch.compile` backend that trains by a plan."""

from .backend import Options, Planned, forget_plans, last_plans, tidegate
from .capture import Capture, trace

__all__ = ["Capture", "Options", "Planned", "forget_plans", "last_plans", "tidegate", "trace"]
