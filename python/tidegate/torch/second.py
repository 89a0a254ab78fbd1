"""A backward that is to leave its graph, for a second backward over it or a second derivative, or that runs under autocast.

A plan's backward gives memory back while it runs, and its calls have no derivative, nor autocast's types. So a graph of which that
is asked is run once more, by eager, from the inputs, the random state and under the autocast that it had; what is asked is taken of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import fx
from torch.utils import _pytree as pytree

from tidegate import PlanError

from . import unasked
from .graph import STATE_BYTES, Joint, Storage


@dataclass
class Given:
    """What a graph is run once more from."""

    module: fx.GraphModule
    joint: Joint
    inputs: tuple
    state: torch.Tensor | None
    # Called with the reason when that is asked for, before anything is run.
    asked: Callable[[str], None]
    # Whether backward is the same under autocast.
    either_way: bool
    autocast: tuple[bool, torch.dtype] = field(init=False)
    versions: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.versions = self.now()
        kind = self.joint.device.type
        self.autocast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

    def now(self) -> list[int]:
        """How often each input has been changed, of those that the graph leaves as they are."""
        kept = [leaf for leaf, node in zip(self.inputs, self.joint.inputs) if node not in self.joint.mutated]
        return [leaf._version for leaf in kept if isinstance(leaf, torch.Tensor) and not leaf.is_inference()]


def random_state(joint: Joint) -> torch.Tensor | None:
    """The state of the generator that the graph draws from, if it draws."""
    if not any(op.random for op in joint.ops):
        return None
    return torch.cuda.get_rng_state(joint.device) if joint.device.type == "cuda" else torch.get_rng_state()


def kept_state(joint: Joint) -> list[Storage]:
    """What that state takes where the graph computes until backward has run, if anything."""
    draws = joint.device.type == "cpu" and any(op.random for op in joint.ops)
    return [Storage("random_state", STATE_BYTES["cpu"], torch.uint8, joint.device, held=True, role="input")] if draws else []


def compiled_nodes(outputs: object) -> list:
    """The compiled graph's own nodes of autograd, of which these outputs are."""
    nodes = [leaf.grad_fn for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None]
    found = []
    for node in nodes:
        if hasattr(getattr(node, "_forward_cls", None), "compiled_bw"):
            found.append(node)
        elif len(nodes) < 32:  # Outputs that are views of one another are taken apart outside of that node.
            nodes += [below for below, _ in node.next_functions if below is not None]
    return found


def watch(nodes: list, given: Given) -> None:
    """Lets backward from a compiled graph be taken of eager's where its graph is to stay, and give what eager gives."""
    for node in nodes:
        node.metadata["tidegate"] = given
        node.set_materialize_grads(False)
        _replace(node._forward_cls)


def _replace(function: type) -> None:
    """Has the compiled function's backward look whether its graph is to stay, and what it is given no gradient for."""
    planned = function.backward
    if getattr(planned, "tidegate", False):
        return

    def backward(node, *gradients):  # noqa: ANN001, ANN202
        given = node.metadata["tidegate"]
        boxed = bool(gradients) and isinstance(gradients[0], list)  # As PyTorch 2.15 gives them.
        each = gradients[0] if boxed else list(gradients)
        del gradients
        reason = _reason(given)
        if reason is not None:
            given.asked(reason)
            return _eager(given, node, function.metadata, tuple(each))
        missing = unasked.fill(node, each)
        results = planned(node, each) if boxed else planned(node, *each)
        return unasked.leave_out(given.joint, function.metadata.num_mutated_inp_runtime_indices, missing, results) if missing else results

    backward = torch._dynamo.disable(backward)  # Where a model takes gradients itself, its compiler looks at what they call.
    backward.tidegate = True
    function.backward = staticmethod(backward)


def _reason(given: Given) -> str | None:
    """Why a backward that runs now is eager's."""
    if torch._C._autograd._get_current_graph_task_keep_graph():
        return "its backward is to leave its graph, for a second one (`retain_graph`) or a second derivative (`create_graph`)"
    if torch.is_autocast_enabled(given.joint.device.type) and not given.either_way:
        return "its backward runs under autocast, which changes what it gives: call `backward` outside of it"
    return None


def _eager(given: Given, node: object, said: object, gradients: tuple) -> tuple:
    joint, first = given.joint, said.num_mutated_inp_runtime_indices
    for storage, op in ((storage, op) for op in joint.ops for storage in op.mutates):
        beside = [reader for reader in joint.ops if storage in reader.reads and reader is not op]
        if beside or not (op.statistics or all(written.held for written in op.writes)):
            raise PlanError(f"a second backward of a graph that changes what it reads ({storage.name})")
    for leaf, placeholder in zip(given.inputs, joint.inputs):
        if placeholder in joint.mutated and isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            raise PlanError(f"a second backward of a graph that changes its parameters ({placeholder.name})")
    if len(node.needs_input_grad) != len(given.inputs) or said.num_outputs_aliased:
        raise PlanError("a second backward of a graph whose outputs share memory with others or with inputs")
    if given.now() != given.versions:
        raise PlanError("a second backward of a graph whose inputs or parameters have changed since its forward")
    differentiable = torch.is_grad_enabled()
    # What forward changes is changed already.
    inputs = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) and not leaf.requires_grad else leaf for leaf in given.inputs]
    with torch.enable_grad(), torch.random.fork_rng([joint.device] if joint.device.type == "cuda" else [], device_type="cuda"):
        if given.state is not None:
            torch.cuda.set_rng_state(given.state, joint.device) if joint.device.type == "cuda" else torch.set_rng_state(given.state)
        enabled, dtype = given.autocast
        with torch.autocast(joint.device.type, dtype, enabled):
            outputs = pytree.tree_leaves(given.module(*inputs))
        asked = gradients[first : first + said.num_outputs]
        roots = [(output, gradient) for output, gradient in zip(outputs, asked) if gradient is not None and getattr(output, "requires_grad", False)]
        leaves = [leaf for leaf in inputs if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        outputs, asked = zip(*roots)
        found = iter(torch.autograd.grad(outputs, leaves, asked, create_graph=differentiable, allow_unused=True))
    return tuple(next(found) if isinstance(leaf, torch.Tensor) and leaf.requires_grad else None for leaf in inputs)
