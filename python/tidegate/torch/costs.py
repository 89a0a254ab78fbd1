"""How many operations an op makes and how many bytes it moves."""

from __future__ import annotations

from torch import fx
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

from .graph import Op, tensors


def _value(argument: object) -> object:
    return argument.meta.get("val") if isinstance(argument, fx.Node) else argument


def flops(op: Op) -> int | None:
    """Floating-point operations, where PyTorch knows a formula."""
    formula = flop_registry.get(getattr(op.node.target, "overloadpacket", None))
    if formula is None:
        return None
    arguments = pytree.tree_map(_value, op.node.args)
    keywords = pytree.tree_map(_value, dict(op.node.kwargs))
    try:
        return int(formula(*arguments, **keywords, out_val=op.node.meta.get("val")))
    except (TypeError, ValueError, AssertionError, AttributeError, IndexError):
        return None


def bytes_moved(op: Op) -> int:
    """Bytes of its arguments and results, each as often as it has elements of it."""
    total = 0
    for argument in op.node.all_input_nodes:
        total += sum(_bytes(leaf) for leaf in tensors(argument.meta.get("val")))
    return total + sum(_bytes(leaf) for leaf in tensors(op.node.meta.get("val")))


def _bytes(value: object) -> int:
    return int(value.numel()) * value.element_size()
