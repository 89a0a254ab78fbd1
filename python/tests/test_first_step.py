"""No gradient is silently wrong: faults are planted, and each is found in the first step."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: training under plans is not tested")

import tidegate  # noqa: E402
import tidegate.torch as tt  # noqa: E402
from test_apply_torch import MODELS, fresh, planned  # noqa: E402, F401
from tidegate.torch import firststep, offload, partition  # noqa: E402
from torch import fx, nn  # noqa: E402

Partition = partition.Partition


def wrong_recompute(patch):
    """What is computed again is off in its sixth digit."""
    rerun = Partition._rerun

    def off(self, op, wanted):
        rerun(self, op, wanted)
        for node in op.values:
            if getattr(self.values.get(node), "graph", None) is self.side.graph and node.meta["val"].is_floating_point():
                self._set(node, self._call(torch.ops.aten.mul.Scalar, (self.values[node], 1 + 1e-6), node.meta["val"]))

    patch.setattr(Partition, "_rerun", off)


def lost_copy(patch):
    """All copies go to one place."""
    patch.setattr(offload, "_slot", lambda pool, offset, like: pool[: like.numel()])


def stale_random_state(patch):
    """Random numbers are drawn anew."""
    patch.setattr(partition, "run_with_rng_state", lambda _state, call, *given: call(*given))


def random_state_left_behind(patch):
    """The right numbers are drawn again, but the generator goes on from there."""

    def drawn(state, call, *given):
        torch.set_rng_state(state)
        return call(*given)

    patch.setattr(partition, "run_with_rng_state", drawn)


def dropped_mutation(patch):
    """Buffers that forward changes keep their values."""
    cut = Partition._cut

    def kept(self):
        cut(self)
        for node, made in self.joint.mutated.items():
            self.results[self.joint.outputs.index(made)] = self.values[node]

    patch.setattr(Partition, "_cut", kept)


def lost_gradient(patch):
    """One gradient, of a bias before a batch norm, which is nothing but rounding errors, is ten thousand times what it is."""
    close = Partition._close

    def scaled(self, side, results):
        if side is self.backward:
            place = next(place for place, node in enumerate(results) if node is not None and node.meta["val"].shape == (16,))
            results[place] = self._call(torch.ops.aten.mul.Scalar, (results[place], 1e4), results[place].meta["val"])
        close(self, side, results)

    patch.setattr(Partition, "_close", scaled)


class Drops(nn.Module):
    """Little but dropout to run again, and a buffer that forward changes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(5))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.dropout(layer(x), 0.3).sin()
        self.steps.add_(1)
        return x.square().mean()


@pytest.mark.parametrize(
    ("plant", "allow", "kind"),
    [(wrong_recompute, "keep,recompute", "convolutions"), (lost_copy, "keep,swap", "convolutions"),
     (stale_random_state, "keep,recompute", Drops), (random_state_left_behind, "keep,recompute", Drops),
     (dropped_mutation, "keep,swap", Drops), (lost_gradient, "keep,swap", "convolutions")],
)  # fmt: skip
def test_planted_faults_are_found(plant, allow, kind, monkeypatch):
    kind, draw = MODELS.get(kind) or (kind, lambda: torch.randn(4096, 16))
    module, given, budget = kind(), draw(), "55%" if kind is Drops else "70%"
    plant(monkeypatch)
    with pytest.raises(tidegate.PlanError, match="a step under the plan gives another"):
        planned(module, allow=allow, budget=budget)(given)
    tt.forget_plans()
    torch._dynamo.reset()
    gradients = []
    for step in (module, planned(module, allow=allow, strict=False, budget=budget)):
        module.zero_grad()
        torch.manual_seed(2)
        if step is module:
            step(given).backward()
        else:
            with pytest.warns(UserWarning, match="without a plan"):
                step(given).backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    assert all(map(torch.equal, *gradients))


@torch._dynamo.config.patch(allow_rnn=True)
def test_a_capture_that_is_not_eager_is_not_trained(monkeypatch):
    """PyTorch's own form of recurrent layers as many ops leaves dropout between layers out."""
    monkeypatch.setattr("tidegate.torch.whole._forms", lambda _: [])
    module, given = nn.GRU(8, 8, 2, dropout=0.5), torch.randn(3, 2, 8)
    # No mode of eager's own: on the processor one kernel does all of a layer.
    step = torch.compile(lambda: module(given)[0].square().mean(), backend=tt.tidegate, options={"budget": "200%", "method": "in-core", "machine": "rtx-4090"})
    with pytest.warns(UserWarning, match="as far from eager's as rounding explains"):
        step().backward()
    mine = [parameter.grad.clone() for parameter in module.parameters()]
    assert tt.last_plans()[0].plan is None and all(gradient.isfinite().all() for gradient in mine)


def test_what_reads_a_tensor_that_changes_is_not_run_again():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
            self.register_buffer("shift", torch.ones(64))

        def forward(self, x):
            for layer in self.layers:
                x = (layer(x) + self.shift).sin()
            self.shift.mul_(0.5)
            return x.square().mean()

    module = Shifted()
    step, given = planned(module, allow="keep,recompute", budget="90%"), torch.randn(512, 64)
    for expected in (0.5, 0.25):
        step(given).backward()
        assert (module.shift == expected).all()
    (graph,) = tt.last_plans()
    assert graph.checked == "bit for bit eager's"
    (changed,) = {tensor for op in graph.trace.ops for tensor in op.get("mutates", [])}
    reading = [op for op in graph.trace.ops if changed in op["reads"]]
    assert len(reading) > 4 and not any(op.get("rerunnable", True) for op in reading)


def test_what_it_gives_a_gradient_for_may_not_change():
    def changing(x):
        return x.mul_(2).sin().sum()

    step = torch.compile(changing, backend=tt.tidegate, options={"machine": "rtx-4090", "budget": "200%"})
    source = torch.randn(8, requires_grad=True)
    with pytest.warns(UserWarning, match="changes what it gives a gradient for"):
        step(source * 1.0).backward()
    mine, source.grad = source.grad, None
    changing(source * 1.0).backward()
    assert torch.equal(mine, source.grad)


def test_what_fails_while_planning_ends_no_training(monkeypatch):
    def fails(_joint):
        raise RuntimeError("an op that cannot be measured")

    monkeypatch.setattr("tidegate.torch.backend.measure", fails)
    kind, draw = MODELS["attention"]
    with pytest.raises(Exception, match="PlanError: RuntimeError: an op that cannot be measured"):
        planned(kind())(draw())
    torch._dynamo.reset()
    module = kind()
    with pytest.warns(UserWarning, match="without a plan: RuntimeError: an op"):
        planned(module, strict=False)(draw()).backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


class Layers(nn.Module):
    """Something whose gradients are sums."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.second(self.first(x).tanh()).square().mean()


def compared(factor, *, fused, unplanned=1.0):
    """What is said of a step whose loss is off by a factor."""
    module, given = fx.symbolic_trace(Layers()), torch.randn(16, 32)
    return firststep.compare(module, lambda x: module(x) * factor, lambda: lambda x: module(x) * unplanned, firststep.Given((given,)), fused=fused)


def test_rounding_is_told_from_what_is_wrong():
    last = 1 + 2**-23
    assert compared(1.0, fused=False) == "bit for bit eager's"
    assert compared(last, fused=True).startswith("fused, and within rounding of eager's")
    assert compared(last, fused=False, unplanned=last).startswith("bit for bit that of the same graph without a plan, and within")
    for wrong in (lambda: compared(1.0001, fused=True), lambda: compared(1.0001, fused=False, unplanned=1.0001)):
        with pytest.raises(firststep.WrongGradients, match="times as far from eager's as rounding explains"):
            wrong()
    with pytest.raises(firststep.WrongGradients, match="gives another output 0 than the same graph"):
        compared(last, fused=False)
    with pytest.raises(firststep.WrongGradients):
        compared(float("nan"), fused=True)


def test_a_graph_with_other_bits_each_time_may_be_off_by_rounding():
    module, given = fx.symbolic_trace(Layers()), torch.randn(16, 32)
    factors = iter((1 + 2**-23, 1 - 2**-24))
    said = firststep.compare(module, lambda x: module(x) * (1 + 2**-22), lambda: lambda x: module(x) * next(factors), firststep.Given((given,)), fused=False)
    assert said.startswith("that of a graph which gives other bits each time, and within rounding of eager's")


def test_where_eager_does_not_fit_it_saves_in_host_memory(monkeypatch):
    module, given, calls = fx.symbolic_trace(Layers()), torch.randn(16, 32), []
    step = firststep._step

    def small(call, *rest):
        calls.append(call)
        if len(calls) in refused:
            raise torch.OutOfMemoryError("no memory")
        return step(call, *rest)

    monkeypatch.setattr(firststep, "_step", small)
    for refused, said in (((2,), "bit for bit eager's"), ((2, 3), "not compared: a step in eager does not fit the device")):
        calls.clear()
        assert firststep.compare(module, module.forward, None, firststep.Given((given,)), fused=False) == said


def test_random_calls_that_backward_does_not_need_are_made_once(monkeypatch):
    """Interpolation as several ops has other bits than eager's, so that the graph without a plan is run, too."""
    monkeypatch.setattr("tidegate.torch.whole._forms", lambda _: [])

    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x).sin() + torch.rand(1)
            return nn.functional.interpolate(x, scale_factor=0.7, mode="bilinear").square().mean()

    planned(Noisy(), budget="90%")(torch.randn(4, 4, 24, 24)).backward()
    assert "rounding" in tt.last_plans()[0].checked or "bit for bit" in tt.last_plans()[0].checked


def test_batch_norms_of_mixed_precision_are_swapped():
    module = nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()) for _ in range(5)))
    step, given, gradients = planned(module, allow="keep,swap", evaluations=1000), torch.randn(8, 4, 24, 24), []
    start = {key: value.clone() for key, value in module.state_dict().items()}
    for call in (module, step):
        module.zero_grad()
        module.load_state_dict(start)
        with torch.autocast("cpu", torch.bfloat16):
            call(given).square().mean().backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    assert all(map(torch.equal, *gradients)) and tt.last_plans()[0].checked == "bit for bit eager's"
    sizes = {tensor["dtype"] for tensor in tt.last_plans()[0].trace.tensors if tensor["bytes"] == 16}
    assert sizes == {"f32"}


@pytest.mark.parametrize("chunk", [1, 3, 1 << 22])
def test_distances_are_taken_piece_by_piece(monkeypatch, chunk):
    monkeypatch.setattr(firststep, "CHUNK", chunk)
    first, second = torch.arange(12.0).view(3, 4), torch.arange(12.0).view(3, 4)
    assert firststep._distance(first, second) == 0.0
    second[0, 1], second[2, 3] = 4.0, 15.0
    assert firststep._distance(first, second) == pytest.approx(5.0)
    first[1, 0] = second[1, 0] = float("nan")
    assert firststep._distance(first, second) == pytest.approx(5.0)
    second[1, 1] = float("nan")
    assert firststep._distance(first, second) == float("inf")
    empty = torch.empty(0, 4)
    assert firststep._distance(empty, empty) == 0.0 and firststep._distance(empty, first) == float("inf")


def test_a_graph_whose_bits_vary_now_and_then_is_known_by_running_it_again(monkeypatch):
    module = fx.symbolic_trace(nn.Linear(3, 1, bias=False))
    runs = iter([0, *[0] * 5, 1, *[0] * 20])
    varying = lambda *given: module(*given) * (1 + next(runs) * 1e-7)  # noqa: E731
    off = lambda *given: module(*given) * (1 + 2e-7)  # noqa: E731
    given = (torch.randn(2, 3, requires_grad=True),)
    said = firststep.compare(module, off, lambda: varying, firststep.Given(given), fused=False)
    assert said.startswith("that of a graph which gives other bits each time")
    with pytest.raises(firststep.WrongGradients, match="another output 0"):
        firststep.compare(module, off, lambda: module, firststep.Given(given), fused=False)


class Mean(nn.Module):
    """Of values that nearly cancel."""

    def forward(self, x):
        return (x * 1.0).mean()


def test_fused_kernels_may_add_up_one_by_one_and_no_more():
    torch.manual_seed(0)
    values = torch.randn(1 << 14)
    values = (values - values.double().mean().float()).requires_grad_()
    module = fx.symbolic_trace(Mean())
    one_by_one = lambda x: (x * 1.0).cumsum(0)[-1] / x.numel()  # noqa: E731
    compare = lambda other: firststep.compare(module, other, lambda: module, firststep.Given((values,)), fused=True)  # noqa: E731
    assert not torch.equal(one_by_one(values), module(values))
    assert compare(one_by_one).startswith("fused, and within rounding of eager's")
    for off in (lambda x: module(x) + 1e-5, lambda x: module(x * (1 + 1e-4))):
        with pytest.raises(firststep.WrongGradients, match="as far from eager's as rounding explains"):
            compare(off)
