"""PyTorch models under plans: capture as a trace, and a `torch.compile` backend that trains by a plan."""

from .backend import Options, Planned, backend, forget_plans, last_plans

__all__ = ["Options", "Planned", "backend", "forget_plans", "last_plans"]
