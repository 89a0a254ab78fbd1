"""The backend `tidegate` of `torch.compile`: training by a proven plan."""

from __future__ import annotations

import contextlib
import functools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._inductor import config as inductor_config
from torch._functorch.partitioners import default_partition

from tidegate import Error, Plan, PlanError, Trace

from . import cache, document, firststep, machine, planning
from .graph import Joint, Unsupported
from .measure import failure
from .partition import Partition
from .rewrite import rewrite
from .times import Costs, measure


@dataclass
class Options:
    """What `options` of `torch.compile` may hold."""

    budget: str | int = "60%"
    machine: str = "here"
    method: str = "tide"
    inner: str = "eager"
    strict: bool = False
    check_first_step: bool = True
    allow: str | None = None
    evaluations: int | None = None


@dataclass
class Planned:
    """What the backend did with one graph: its capture and plan, or why it has none."""

    name: str
    trace: Trace | None = None
    plan: Plan | None = None
    reason: str | None = None
    checked: str | None = None
    # What is not as it was asked for.
    note: str | None = None
    # Seconds that measuring, planning and the comparison with eager took.
    seconds: dict[str, float] = field(default_factory=dict)
    costs: Costs | None = None
    modules: tuple[fx.GraphModule, fx.GraphModule] | None = field(default=None, repr=False)


_LAST: list[Planned] = []


def last_plans() -> list[Planned]:
    """What the backend did with each graph since `torch.compile` was last reset, oldest first."""
    return list(_LAST)


def forget_plans() -> None:
    """Empties what `last_plans` gives."""
    _LAST.clear()


def boxed(module: fx.GraphModule, _inputs: object = None) -> Callable[[list], Any]:
    """The module's own code, which takes its inputs as a list that it empties, so that each is freed after its last use."""
    module.graph.set_codegen(fx.graph._BoxedCodeGen())
    module.recompile()

    def call(given: list) -> Any:  # noqa: ANN401
        return module(given)

    call._boxed_call = True
    return call


def tidegate(module: fx.GraphModule, inputs: list, options: dict | None = None, **_mode: object) -> Callable:
    """What `torch.compile(model, backend="tidegate", options={...})` calls for each graph.

    # Errors
    `tidegate.PlanError` where no plan fits or something is not supported, with `strict=True`; else such a graph is
    trained without a plan, with a warning that names the reason.
    """
    chosen = Options(**(options or {}))
    if chosen.inner == "inductor":
        # Inductor orders calls by what they read and write, and what a copy waits for is neither.
        chosen.allow = chosen.allow or "keep,recompute"
        if "swap" in chosen.allow:
            raise ValueError("allow: nothing can be swapped with `inner` inductor; leave `swap` out, or take `inner` eager")
    planned = Planned(name=f"graph {len(_LAST)}")
    _LAST.append(planned)

    def partition(joint_module: fx.GraphModule, joint_inputs: object, **given: Any) -> tuple:  # noqa: ANN401
        try:
            planned.modules = _plan(joint_module, given["num_fwd_outputs"], chosen, planned)
            return planned.modules
        except TorchDynamoException:
            raise  # Dynamo's own way to begin anew.
        except Exception as error:  # noqa: BLE001 - whatever fails, the model can be trained without a plan.
            _without(planned, chosen, _words(error), error)
            return _everything_saved(joint_module, joint_inputs, **given)

    def without_backward(alone: fx.GraphModule, given: object) -> Callable:
        planned.reason = "there is no backward"
        return boxed(alone, given)

    compilers = _compilers(chosen)
    try:
        compiled = aot_autograd(partition_fn=partition, inference_compiler=without_backward, **compilers)(module, inputs)
    except TorchDynamoException:
        raise
    except Exception as error:  # noqa: BLE001
        if chosen.strict:
            raise
        if planned.reason is None:
            _without(planned, chosen, _words(error), error)
        return module
    if planned.plan is None:
        # A captured graph need not be eager's, and nothing has compared them; who wants ops fused has asked for it.
        return compiled if chosen.inner == "inductor" else module
    return torch._dynamo.disable(_Checked(module, compiled, chosen, planned)) if chosen.check_first_step else compiled


def unplanned(module: fx.GraphModule, inputs: list) -> Callable:
    """A backend that runs the graphs that are planned, without a plan: what planning is measured against."""

    def partition(joint_module: fx.GraphModule, joint_inputs: object, **given: object) -> tuple:
        rewrite(joint_module)
        return _everything_saved(joint_module, joint_inputs, **given)

    return aot_autograd(fw_compiler=boxed, partition_fn=partition)(module, inputs)


def _everything_saved(module: fx.GraphModule, inputs: object, **given: object) -> tuple:
    """PyTorch's default partition, without the forward's random calls that it leaves in backward: they would draw once more."""
    forward, backward = default_partition(module, inputs, **given)
    for node in reversed(backward.graph.nodes):
        if not node.users and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            backward.graph.erase_node(node)
    backward.recompile()
    return forward, backward


# Inductor's own layouts would change strides that a plan was made for, its own order that of calls; and a random op that
# is run again must draw as eager does.
_INDUCTOR = {"layout_optimization": False, "reorder_for_peak_memory": False, "fallback_random": True}


def _compilers(chosen: Options) -> dict:
    if chosen.inner == "eager":
        return {"fw_compiler": boxed}
    if chosen.inner != "inductor":
        raise ValueError(f"inner: there is no compiler `{chosen.inner}`: eager or inductor")
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    def fused(module: fx.GraphModule, inputs: list, **given: object) -> Callable:
        with inductor_config.patch(_INDUCTOR):
            return compile_fx_inner(module, inputs, **given)

    with inductor_config.patch(_INDUCTOR):
        table = select_decomp_table()
    backward = functools.partial(fused, is_backward=True)
    return {"fw_compiler": fused, "bw_compiler": backward, "decompositions": table}


class _Checked:
    """A compiled graph whose first step with gradients is compared with eager."""

    def __init__(self, module: fx.GraphModule, compiled: Callable, chosen: Options, planned: Planned):
        self.module, self.compiled, self.chosen, self.planned = module, compiled, chosen, planned

    def __call__(self, *inputs: object) -> object:
        if self.planned.checked is None and torch.is_grad_enabled():
            try:
                with _clock(self.planned, "checking"):
                    self.planned.checked = firststep.compare(
                        self.module, self.compiled, lambda: unplanned(self.module, list(inputs)), inputs,
                        fused=self.chosen.inner == "inductor",
                    )  # fmt: skip
                if self.planned.checked.startswith("not"):
                    warnings.warn(f"tidegate: {self.planned.name}: its first step was {self.planned.checked}", stacklevel=2)
            except Exception as error:  # noqa: BLE001 - what cannot be compared is not used either.
                self.planned.checked = _words(error)
                self.compiled = self.module
                _without(self.planned, self.chosen, self.planned.checked, error)
        return self.compiled(*inputs)


def _words(error: Exception) -> str:
    known = isinstance(error, (Unsupported, Error, firststep.WrongGradients))
    return str(error) if known else f"{type(error).__name__}: {failure(error)}"


def _without(planned: Planned, chosen: Options, reason: str, error: Exception) -> None:
    """Notes and says that a graph is trained without a plan, or raises."""
    planned.reason, planned.plan = reason, None
    if chosen.strict:
        raise PlanError(reason) from error
    warnings.warn(f"tidegate: {planned.name} is trained without a plan: {reason}", stacklevel=3)


def _plan(module: fx.GraphModule, forward_outputs: int, chosen: Options, planned: Planned) -> tuple:
    rewrite(module)
    joint = Joint(module, forward_outputs)

    def make() -> str:
        with _clock(planned, "measuring"):
            planned.costs = measure(joint)
            place = machine.named(chosen.machine, joint.device)
        provenance = {"origin": "measured", "device": planned.costs.device, "source": "tidegate.torch"}
        trace = planning.read(document.document(joint, planned.name, planned.costs, provenance))
        with _clock(planned, "planning"):
            plan, planned.note = planning.plan(
                trace, place, chosen.budget, chosen.method, chosen.allow, chosen.evaluations, strict=chosen.strict
            )
        return json.dumps({"trace": trace.to_json(), "plan": plan.to_json(), "note": planned.note})

    asked = [document.graph_digest(joint), machine.conditions(joint.device), cache.VERSION]
    asked += [str(value) for value in (chosen.machine, chosen.budget, chosen.method, chosen.allow, chosen.evaluations, chosen.strict)]
    made = json.loads(cache.kept(asked, make))
    modules = Partition(joint, json.loads(made["plan"])).modules()
    planned.trace, planned.note = Trace.from_json(made["trace"]), made["note"]
    planned.plan = Plan.from_json(made["plan"], planned.trace)
    if planned.note:
        warnings.warn(f"tidegate: {planned.name}: {planned.note}", stacklevel=2)
    return modules


@contextlib.contextmanager
def _clock(planned: Planned, what: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    planned.seconds[what] = time.perf_counter() - begin
