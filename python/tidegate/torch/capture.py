"""A model's training iteration as a trace, without training it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from tidegate import Machine, Trace

from . import document, planning, times, whole
from .graph import Joint, Unsupported
from .rewrite import rewrite


@dataclass
class Capture:
    """A traced iteration: the document, and the graph whose nodes its keys name."""

    trace: Trace
    graph: fx.GraphModule = field(repr=False)
    joint: Joint = field(repr=False)
    # What was measured; none where times are modelled.
    costs: times.Costs | None = field(repr=False)


class _Enough(Exception):
    """Ends compilation: the graph is there."""


def trace(
    model: nn.Module,
    example_inputs: tuple | dict,
    loss: Callable | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    machine: Machine | str | None = None,
) -> Capture:
    """The trace of one iteration: the model, the loss of its output if it gives none itself, and backward.

    With parameters on `meta` nothing is allocated and nothing runs, so that a model that fits no device here is captured.
    Times are those that the `machine` is modelled to take; without one they are measured on the model's device. What
    the optimizer keeps for each parameter is in the trace, where it has stepped before.

    # Errors
    `ValueError` where the iteration is not one graph that plans can be made for; the message names what it lacks.
    """
    if machine is None and any(parameter.is_meta for parameter in model.parameters()):
        raise ValueError("a model on `meta` cannot be timed: state the `machine` that its times are modelled for")
    mode: contextlib.AbstractContextManager = contextlib.nullcontext()
    if any(parameter.is_meta for parameter in model.parameters()):
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        model, example_inputs = _faked(mode, model, example_inputs)
    place = Machine.load(machine) if isinstance(machine, str) else machine
    try:
        # Where times are another machine's, the kernels of this one's processor are not what they are modelled for.
        with mode, whole.as_eager([*model.parameters()], recurrent=place is None):
            joint = _joint(model, example_inputs, loss)
    except Unsupported as error:
        raise ValueError(f"this iteration cannot be planned: {error}") from error
    for number, state in enumerate(_states(optimizer)):
        joint.hold(f"optimizer_state_{number}", state, "optimizer_state")
    costs = times.measure(joint).fit(joint) if place is None else None
    provenance = {"origin": "modelled", "device": place.device} if place else {"origin": "measured", "device": costs.device}
    provenance["source"] = "tidegate.torch"
    made = planning.read(document.document(joint, type(model).__name__, costs, provenance), place)
    return Capture(made, joint.module, joint, costs)


def _joint(model: nn.Module, example_inputs: tuple | dict, loss: Callable | None) -> Joint:
    found: list[Joint | Unsupported] = []

    def partition(module: fx.GraphModule, _inputs: object, **given: int) -> tuple:
        try:
            rewrite(module)
            found.append(Joint(module, given["num_fwd_outputs"]))
        except Unsupported as error:
            found.append(error)
        raise _Enough

    def step(*positional: object, **keywords: object) -> object:
        output = model(*positional, **keywords)
        return output if loss is None else loss(output)

    compiled = torch.compile(step, backend=aot_autograd(fw_compiler=lambda module, _: module, partition_fn=partition),
                             fullgraph=True, dynamic=False)  # fmt: skip
    torch._dynamo.reset()
    try:
        compiled(**example_inputs) if isinstance(example_inputs, dict) else compiled(*example_inputs)
    except Exception as error:
        if not found:
            raise ValueError(f"this iteration is not one graph: {error}") from error
    finally:
        torch._dynamo.reset()
    if not found:
        raise ValueError("this iteration has no backward: is the model in training, and does anything need a gradient?")
    if isinstance(found[0], Unsupported):
        raise found[0]
    return found[0]


def _faked(mode: FakeTensorMode, model: nn.Module, example_inputs: tuple | dict) -> tuple[nn.Module, tuple | dict]:
    """The model and its inputs with tensors that have a shape and a device, and no memory."""
    made: dict[int, torch.Tensor] = {}

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            with mode:
                value = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
            made[id(tensor)] = nn.Parameter(value, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else value
        return made[id(tensor)]

    model = copy.deepcopy(model)
    for module in model.modules():
        for kept in (module._parameters, module._buffers):
            kept.update({name: fake(tensor) for name, tensor in kept.items() if tensor is not None})
    return model, pytree.tree_map_only(torch.Tensor, fake, example_inputs)


def _states(optimizer: torch.optim.Optimizer | None) -> list[torch.Tensor]:
    if optimizer is None:
        return []
    leaves = pytree.tree_leaves([optimizer.state[parameter] for parameter in optimizer.state])
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.numel() > 1]
