"""The backend `tidegate` of `torch.compile`: training by a proven plan."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._functorch.partitioners import default_partition
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tidegate import Error, Plan, PlanError, Trace

from . import cache, checkpointed, document, firststep, layouts, left_out, machine, packed, planning, second, settings, shapes, taken, together, whole
from .graph import Joint, Unsupported
from .measure import failure, size
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
    # What it takes in fused kernels, as measured, and the budget that it is planned for so that they keep to what was asked.
    taken_bytes: int | None = None
    # What forward and backward take in fused kernels, as their code says before they run.
    kernels: dict[str, int] = field(default_factory=dict, repr=False)
    within: int | None = None
    # Seconds that measuring, planning and the comparison with eager took.
    seconds: dict[str, float] = field(default_factory=dict)
    # Seconds within the graphs themselves, as they were last run.
    inside: dict[str, float] = field(default_factory=dict)
    # What random states take beside the plan's peak, for ops that it runs again; they are part of the budget.
    states_bytes: int = 0
    costs: Costs | None = None
    joint: Joint | None = field(default=None, repr=False)
    modules: tuple[fx.GraphModule, fx.GraphModule] | None = field(default=None, repr=False)
    # Where it is among the graphs of its iteration, and what of those its plan counts.
    place: together.Place = field(default_factory=together.Place, repr=False)
    others: together.Others = field(default_factory=together.Others)

    @property
    def peak_bytes(self) -> int:
        """The most that is said to be there at once: what the plan has, or the fused kernels that were made by it."""
        if not self.kernels:
            return self.plan.peak_bytes + self.states_bytes
        return max(self.kernels.values()) + self.others.before + self.others.after + self.others.gradients


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
    unknown = sorted((options or {}).keys() - {each.name for each in dataclasses.fields(Options)})
    if "codecs" in unknown:
        raise ValueError("codecs: PyTorch has none to run; what `compress` in `allow` packs is lossless and needs none")
    if unknown:
        raise ValueError(f"options: there is no `{unknown[0]}`: {', '.join(each.name for each in dataclasses.fields(Options))}")
    chosen = Options(**(options or {}))
    if chosen.inner == "inductor":
        # Inductor orders calls by what they read and write, and what a copy waits for is neither.
        chosen.allow = chosen.allow or "keep,recompute"
        wrong = [choice for choice in ("swap", "compress") if choice in chosen.allow]
        if wrong:
            raise ValueError(f"allow: there is no `{wrong[0]}` with `inner` inductor; leave it out, or take `inner` eager")
    shapes.fix(module)
    # Without it Dynamo takes a parameter that requires a gradient from some step on for one that does not.
    settings.until_compiled("skip_tensor_guards_with_matching_dict_tags", False)
    planned = Planned(name=f"graph {len(_LAST)}")
    _LAST.append(planned)
    compiled = _compiled(module, inputs, chosen, planned)
    return compiled if planned.plan is None else torch._dynamo.disable(_Trained(module, compiled, chosen, planned))


left_out.listen(tidegate)


def _compiled(module: fx.GraphModule, inputs: list, chosen: Options, planned: Planned) -> Callable:
    """The graph under a plan, or without one where there is a reason."""
    # Not the inputs: what the compiler keeps would keep them.
    given_memory = together.memory(inputs)
    made = {place for place, leaf in enumerate(inputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad and not leaf.is_leaf}
    untested = _untested(inputs)

    def partition(joint_module: fx.GraphModule, joint_inputs: object, **given: Any) -> tuple:  # noqa: ANN401
        try:
            if untested:
                raise Unsupported(untested)
            planned.modules = _plan(joint_module, given["num_fwd_outputs"], given_memory, made, chosen, planned)
            return planned.modules
        except TorchDynamoException:
            raise  # Dynamo's own way to begin anew.
        except Exception as error:  # noqa: BLE001 - whatever fails, the model can be trained without a plan.
            if planned.within is None:
                _without(planned, chosen, _words(error), error)
            planned.plan = None  # Less than was asked for is no more than tried.
            return _everything_saved(joint_module, joint_inputs, **given)

    def without_backward(alone: fx.GraphModule, given: object) -> Callable:
        planned.reason = "there is no backward"
        return boxed(alone, given)

    try:
        with whole.as_eager(inputs) if chosen.inner == "eager" else whole.as_fused(inputs):
            compiled = aot_autograd(partition_fn=partition, inference_compiler=without_backward, **_compilers(chosen, planned, inputs))(module, inputs)
    except TorchDynamoException:
        raise
    except Exception as error:  # noqa: BLE001
        if chosen.strict:
            raise
        if planned.reason is None:
            _without(planned, chosen, _words(error), error)
        return checkpointed.as_eager(module)
    # A captured graph need not be eager's, and without a plan nothing compares them.
    return compiled if planned.plan is not None else checkpointed.as_eager(module)


def _untested(inputs: list) -> str | None:
    """Why no plan is made for a graph whatever it computes."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "there is a process group, and training over several processes, as DDP and FSDP do, is not tested"
    classes = sorted({type(leaf).__name__ for leaf in inputs if is_traceable_wrapper_subclass(leaf)})
    return f"inputs or parameters of classes that are several tensors ({', '.join(classes)})" if classes else None


def unplanned(module: fx.GraphModule, inputs: list) -> Callable:
    """A backend that runs the graphs that are planned, without a plan: what planning is measured against."""

    def partition(joint_module: fx.GraphModule, joint_inputs: object, **given: object) -> tuple:
        rewrite(joint_module)
        return _everything_saved(joint_module, joint_inputs, **given)

    with whole.as_eager(inputs):
        return aot_autograd(fw_compiler=boxed, partition_fn=partition)(module, inputs)


def _everything_saved(module: fx.GraphModule, inputs: object, **given: object) -> tuple:
    """PyTorch's default partition, without the forward's random calls that it leaves in backward: they would draw once more."""
    forward, backward = default_partition(module, inputs, **given)
    for node in reversed(backward.graph.nodes):
        if not node.users and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            backward.graph.erase_node(node)
    backward.recompile()
    return forward, backward


def _compilers(chosen: Options, planned: Planned, inputs: list) -> dict:
    def watched(compiled: Callable, side: str) -> Callable:
        def call(given: list) -> Any:  # noqa: ANN401
            begin = time.perf_counter()
            results = compiled(given)
            planned.inside[side] = time.perf_counter() - begin
            if side == "backward":
                planned.place.close()
            return results

        call._boxed_call = True
        return call

    if chosen.inner == "eager":
        return {f"{side[0]}w_compiler": lambda module, inputs, side=side: watched(boxed(module, inputs), side) for side in ("forward", "backward")}
    if chosen.inner != "inductor":
        raise ValueError(f"inner: there is no compiler `{chosen.inner}`: eager or inductor")
    # Only here: it takes its time to be imported.
    from . import fused

    def compiler(side: str) -> Callable:
        def compiled(module: fx.GraphModule, inputs: list, **given: object) -> Callable:
            backward = side == "backward"
            call, beside_held = fused.compiled(module, inputs, is_backward=backward, **given)
            if planned.plan is not None:
                planned.kernels[side] = beside_held + planned.joint.held_bytes(backward=backward)
            return watched(call, side)

        return compiled

    return {"fw_compiler": compiler("forward"), "bw_compiler": compiler("backward"), "decompositions": fused.decompositions(layouts.on_processor(inputs))}


class _Trained:
    """A compiled graph whose first step with gradients is compared with eager, and which is planned anew among others."""

    def __init__(self, module: fx.GraphModule, compiled: Callable, chosen: Options, planned: Planned):
        self.module, self.compiled, self.chosen, self.planned = module, compiled, chosen, planned
        self.eager = checkpointed.as_eager(module)
        # Whether backward may be under autocast, too.
        self.either_way = False

    def __call__(self, *inputs: object) -> object:
        planned, trained = self.planned, torch.is_grad_enabled()
        # Within a backward it is a checkpoint's forward that runs again, which must save what it saved.
        again = torch._C._current_graph_task_id() != -1
        if trained and planned.plan is not None and planned.place.due and not again:
            planned.place.settled = True
            if all(isinstance(leaf, torch.Tensor) for leaf in inputs):
                planned.checked = planned.within = None
                self.compiled = _compiled(self.module, list(inputs), self.chosen, planned)
            else:
                # Captured outside of Dynamo, a number would be one that stays.
                warnings.warn(f"tidegate: {planned.name}: its plan does not count the graphs after it, as it is given numbers that change", stacklevel=2)
        if trained and planned.plan is not None and planned.checked is None and self.chosen.check_first_step:
            self._check(inputs)
        if not trained or planned.plan is None:
            return self.compiled(*inputs)
        state = second.random_state(planned.joint)
        outputs = self.compiled(*inputs)
        nodes = second.compiled_nodes(outputs)
        planned.place.opened(inputs, outputs, nodes)
        second.watch(nodes, second.Given(self.eager, planned.joint, inputs, state, self._unplanned, self.either_way))
        return outputs

    def _unplanned(self, reason: str) -> None:
        """Eager goes on: what is asked of backward no plan has."""
        self.planned.place.close()
        if self.planned.plan is not None:
            self.compiled = self.eager
            _without(self.planned, self.chosen, reason, None)

    def _check(self, inputs: tuple) -> None:
        planned = self.planned
        changed = (place for place, node in enumerate(planned.joint.inputs) if node in planned.joint.mutated)
        given = firststep.Given(inputs, frozenset(place for place in changed if isinstance(inputs[place], torch.Tensor) and inputs[place].requires_grad))
        try:
            with _clock(planned, "checking"), firststep.unhooked():
                if self.chosen.inner == "inductor" and not self._fits(inputs, given):
                    return
                planned.checked = firststep.compare(
                    self.eager, self.compiled, lambda: unplanned(self.module, list(inputs)), given, fused=self.chosen.inner == "inductor"
                )
                self.either_way = torch.is_autocast_enabled(planned.joint.device.type) and firststep.either_way(self.eager, given)
            if planned.checked.startswith("not"):
                warnings.warn(f"tidegate: {planned.name}: its first step was {planned.checked}", stacklevel=3)
        except Exception as error:  # noqa: BLE001 - what cannot be compared is not used either.
            planned.checked = _words(error)
            self.compiled = self.eager
            _without(planned, self.chosen, planned.checked, error)

    def _fits(self, inputs: tuple, given: firststep.Given) -> bool:
        """Whether there is a plan in whose budget kernels stay, which is looked for in smaller ones where fused ones do not.

        They may hold more at once than the ops that a plan is made of; where no smaller budget helps, ops run one by one, unless
        there is no plan for what was asked anyway.
        """
        planned, device = self.planned, self.planned.joint.device
        counted = planned.others.before + planned.others.after + planned.others.gradients
        asked = planned.plan.budget_bytes
        most = asked + sum(op.state_bytes for op in planned.joint.ops) - counted + taken.beside(planned.joint)
        for last in (False, False, False, True):
            took = planned.taken_bytes = taken.taken(self.compiled, given, device)
            if took is None or took <= most:
                if planned.within is not None:
                    planned.note = f"planned for {size(planned.plan.budget_bytes)}, with which fused kernels keep to {size(asked)}"
                return True
            if planned.note is not None and planned.within is None:
                # What was asked for cannot be had, and no plan for less was found: one by one, ops take no less.
                planned.note += f", and fused kernels take {size(took)}"
                return True
            if last or not all(isinstance(leaf, torch.Tensor) for leaf in inputs):
                break
            planned.within = planned.plan.budget_bytes - (took - most)
            self.compiled = _compiled(self.module, list(inputs), self.chosen, planned)
            if planned.plan is None:
                break
        reason = f"fused kernels take {size(took)} where there are {size(most)}"
        # What is given numbers that change cannot be captured once more, as these would be numbers that stay.
        if self.chosen.strict or not all(isinstance(leaf, torch.Tensor) for leaf in inputs):
            raise Unsupported(reason)
        planned.within = planned.taken_bytes = planned.reason = None
        planned.kernels.clear()
        self.chosen = dataclasses.replace(self.chosen, inner="eager")
        self.compiled = _compiled(self.module, list(inputs), self.chosen, planned)
        if planned.plan is not None:
            planned.note = "; ".join(each for each in (planned.note, f"ops run one by one: {reason}") if each)
            warnings.warn(f"tidegate: {planned.name}: ops run one by one: {reason}", stacklevel=4)
        return planned.plan is not None


def _words(error: Exception) -> str:
    known = isinstance(error, (Unsupported, Error, firststep.WrongGradients))
    return str(error) if known else f"{type(error).__name__}: {failure(error)}"


def _without(planned: Planned, chosen: Options, reason: str, error: Exception | None) -> None:
    """Notes and says that a graph is trained without a plan, or raises."""
    planned.reason, planned.plan = reason, None
    if chosen.strict:
        raise PlanError(reason) from error
    warnings.warn(f"tidegate: {planned.name} is trained without a plan: {reason}", stacklevel=3)


def _plan(
    module: fx.GraphModule, forward_outputs: int, given_memory: dict[int, int], made: set[int], chosen: Options, planned: Planned
) -> tuple:
    rewrite(module)
    joint = Joint(module, forward_outputs)
    # Leaves, such as embeddings with a `max_norm`, are changed where no gradient is taken.
    changed = [node.name for place, node in enumerate(joint.inputs) if place in made and node in joint.mutated]
    if changed:
        raise Unsupported(f"a graph that changes what it gives a gradient for ({changed[0]})")
    graph = [document.graph_digest(joint), machine.conditions(joint.device), cache.VERSION]

    def measured(form: Joint) -> Costs:
        def times() -> str:
            with _clock(planned, "measuring"):
                return json.dumps(dataclasses.asdict(measure(form)))

        return Costs(**json.loads(cache.kept([document.graph_digest(form), *graph[1:], "costs"], times))).fit(form)

    planned.joint, planned.costs = joint, measured(joint)
    forms = [(joint, planned.costs)]
    small = packed.form(joint) if "compress" in (chosen.allow or "") else None
    if small is not None:
        forms.append((small, packed.costs(forms[0], (small, measured(small)))))
    provenance = {"origin": "measured", "device": planned.costs.device, "source": "tidegate.torch"}

    def read(form: Joint, costs: Costs) -> Trace:
        return planning.read(document.document(form, planned.name, costs, provenance))

    state = second.kept_state(joint)
    state_bytes = sum(each.bytes for each in state)
    for form, _ in forms:
        form.storages += state
    traces, budget, place, of = [read(*form) for form in forms], chosen.budget, planned.place, ""
    place.in_core = traces[0].in_core_peak_bytes
    place.sizes(joint)
    place.kept_in_core += state_bytes
    planned.others = others = place.others(given_memory, _share(budget), planning.least(traces[0]) if place.times > 1 else 0)
    if others.in_core > place.in_core:
        traces = [read(form, others.count(form, costs)) for form, costs in forms]
        if _share(budget) is not None:
            budget, of = int(_share(budget) * others.in_core), f" ({budget} of all graphs)"
    if others.limit:
        budget = others.limit
    if planned.within is not None:
        budget = planned.within
    # Graphs before it took what they liked, and make room when all are planned once more.
    first = bool(place.before) and not place.settled
    strict = planned.within is not None or (chosen.strict and not first and place.tried.fallback is None)

    def make() -> str:
        here = machine.named(chosen.machine, joint.device)
        found, refused = [], []
        for number, trace in enumerate(traces):
            # A share is one of what the graph takes as it is.
            share = _share(budget) if number else None
            within = budget if share is None else int(share * place.in_core)
            try:
                with _clock(planned, "planning"):
                    plan, note = planning.plan(trace, here, within, chosen.method, chosen.allow, chosen.evaluations, strict=strict, of=of)
                found.append((note is not None, plan.predicted_ns, number, plan, note))
            except PlanError as error:
                refused.append(error)
        if not found:
            raise min(refused, key=lambda error: getattr(error, "least_budget_bytes", None) or math.inf)
        *_, number, plan, note = min(found, key=lambda each: each[:3])
        return json.dumps({"form": number, "trace": traces[number].to_json(), "plan": plan.to_json(), "note": note})

    asked = [*graph, str(others)]
    asked += [str(value) for value in (chosen.machine, budget, chosen.method, chosen.allow, chosen.evaluations, strict)]
    found = json.loads(cache.kept(asked, make))
    planned.joint, planned.costs = forms[found["form"]]
    partition = Partition(planned.joint, json.loads(found["plan"]), planned.costs.workspaces)
    modules = partition.modules()
    place.kept = partition.kept_bytes + state_bytes
    planned.states_bytes = sum(op.state_bytes for op in planned.joint.ops if op.index in partition.again)
    planned.trace, planned.note = Trace.from_json(found["trace"]), found["note"]
    planned.plan = Plan.from_json(found["plan"], planned.trace)
    if planned.within is not None:
        return modules
    full = planned.plan.budget_bytes + sum(op.state_bytes for op in planned.joint.ops)
    if not place.fits(others, full, planned.note):
        return _plan(module, forward_outputs, given_memory, made, chosen, planned)
    planned.note = place.tried.note or planned.note
    if not planned.note:
        place.budget = full
    elif not first:
        warnings.warn(f"tidegate: {planned.name}: {planned.note}", stacklevel=2)
    return modules


def _share(budget: str | int) -> float | None:
    """A budget that is a share, as a number."""
    text = str(budget).strip()
    with contextlib.suppress(ValueError):
        return float(text[:-1]) / 100 if text.endswith("%") else None
    return None


@contextlib.contextmanager
def _clock(planned: Planned, what: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    planned.seconds[what] = time.perf_counter() - begin
