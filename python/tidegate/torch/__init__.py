"""PyTorch models under plans: capture as a trace, and a `torch.compile` backend that trains by a plan."""

from .backend import Options, Planned, forget_plans, last_plans, tidegate
from .capture import Capture, trace
from .check import Check, check

__all__ = ["Capture", "Check", "Options", "Planned", "check", "forget_plans", "last_plans", "tidegate", "trace"]
