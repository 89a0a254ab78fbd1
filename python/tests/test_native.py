"""The planner as a module, without PyTorch."""

import ast
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import _thread

import pytest

import tidegate
from tidegate import _native


@pytest.fixture(scope="module")
def plan(trace, machine):
    return tidegate.plan(trace, machine, budget="60%", evaluations=1000)


def test_a_trace_is_what_its_text_says(trace, tmp_path):
    assert (trace.network, trace.batch) == ("unet", 4)
    content = json.loads(trace.to_json())["content"]
    assert trace.ops == content["ops"] and trace.tensors == content["tensors"]
    assert trace.total_time_ns == sum(op["duration_ns"] for op in trace.ops)
    trace.save(tmp_path / "t.json")
    again = [tidegate.Trace.load(tmp_path / "t.json"), tidegate.Trace.from_json(trace.to_json())]
    again.append(tidegate.Trace.from_json(trace.to_json().encode()))
    assert {t.digest for t in again} == {trace.digest}


def test_a_machine_by_name_by_file_and_by_text(machine, tmp_path):
    machine.save(tmp_path / "m.json")
    for same in (tmp_path / "m.json", str(tmp_path / "m.json"), machine.to_json()):
        assert tidegate.Machine.load(same).digest == machine.digest
    other = tidegate.Machine.load('inherits = "titan-v"\ndevice.memory = "4GiB"\nsources."device.memory" = "mine"')
    assert (other.device, other.name) == ("NVIDIA Titan V", "machine")
    assert machine.with_memory(10**9).usable_bytes == 10**9


def test_a_plan_fits_and_is_the_same_twice(trace, machine, plan):
    budget = round(trace.in_core_peak_bytes * 0.6)
    assert plan.peak_bytes <= plan.arena_bytes <= plan.budget_bytes == budget
    assert plan.bound_ns <= plan.predicted_ns
    assert plan.slowdown == pytest.approx(plan.predicted_ns / trace.total_time_ns)
    again = tidegate.plan(trace, machine, budget=budget, evaluations=1000)
    assert again.to_json() == plan.to_json()
    assert tidegate.verify(plan, trace) == ""
    assert tidegate.simulate(plan, machine).iteration_ns == plan.predicted_ns
    assert {d["choice"] for d in plan.decisions} - {"keep"}


def test_what_is_not_allowed_is_not_done(trace, machine):
    plan = tidegate.plan(trace, machine, budget="70%", allow="keep,recompute", evaluations=100)
    assert plan.host_arena_bytes == 0 and plan.settings["allow"] == "keep,recompute"
    packed = tidegate.plan(trace, machine, "70%", allow=["keep", "swap", "compress"], codecs="zvc", evaluations=100)
    assert {d["choice"] for d in packed.decisions} <= {"keep", "swap", "compress"}
    assert packed.settings["codecs"] == "zvc"


def test_a_plan_is_read_with_its_trace(trace, machine, plan, tmp_path):
    plan.save(tmp_path / "p.json")
    read = tidegate.Plan.load(tmp_path / "p.json", trace)
    assert read.to_json() == plan.to_json() and read.slowdown == plan.slowdown
    assert tidegate.Plan.load(tmp_path / "p.json").slowdown is None
    other = tidegate.model_times(trace, machine)
    with pytest.raises(tidegate.InputError, match="made for"):
        tidegate.Plan.load(tmp_path / "p.json", other)


def test_a_plan_is_simulated_on_its_machine_alone(plan):
    with pytest.raises(tidegate.InputError, match="made for machine h100-sxm"):
        tidegate.simulate(plan, tidegate.Machine.load("t4"))


def test_a_process_that_forked_plans(trace, machine, plan):
    """Threads of the search that was before are not in the child."""
    child = os.fork()
    if child == 0:
        same = tidegate.plan(trace, machine, budget="60%", evaluations=1000).to_json() == plan.to_json()
        os._exit(not same)
    assert os.waitpid(child, 0)[1] == 0


def test_an_unsafe_plan_is_refused(plan):
    document = json.loads(plan.to_json())
    for action in document["content"]["actions"]:
        action.pop("after", None)
    with pytest.raises(tidegate.ProofError):
        tidegate.Plan.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"budget": "6"}, "6 of what"),
        ({"budget": 0}, "no plan fits 0 bytes"),
        ({"budget": -1}, "neither a number of bytes"),
        ({"budget": 5.5}, "5.5 is neither"),
        ({"budget": "lots"}, "budget `lots`"),
        ({"method": "tid"}, "did you mean `tide`"),
        ({"allow": "kep"}, "did you mean `keep`"),
        ({"codecs": ["zv"]}, "did you mean `zvc`"),
        ({"host_budget": "x"}, "host_budget `x`"),
    ],
)
def test_a_wrong_argument_says_what_would_be_right(trace, machine, arguments, words):
    with pytest.raises(tidegate.InputError, match=words):
        tidegate.plan(trace, machine, **arguments)


@pytest.mark.parametrize(
    "read, words",
    [
        (lambda: tidegate.Machine.load("titanv"), "did you mean `titan-v`"),
        (lambda: tidegate.Machine.load("no.toml"), "cannot read no.toml"),
        (lambda: tidegate.Machine.load("x = 1"), "unknown field `x`"),
        (lambda: tidegate.Machine.load("h100-sxm").with_memory(2**63), "2\\^60"),
        (lambda: tidegate.Trace.load("unet-h10"), "unet-h100"),
        (lambda: tidegate.Trace.from_json("{}"), "without a format"),
        (lambda: tidegate.Trace.from_json(b"\xff"), "not UTF-8"),
        (lambda: tidegate.Plan.from_json('{"format": "tidegate/plan", "version": 99}'), "version 99"),
    ],
)
def test_what_cannot_be_read_is_an_input_error(read, words):
    with pytest.raises(tidegate.InputError, match=words):
        read()


def test_a_budget_that_cannot_do_says_what_could(trace, machine):
    with pytest.raises(tidegate.PlanError, match="more than the budget") as error:
        tidegate.plan(trace, machine, budget="5%")
    assert isinstance(error.value, ValueError)
    assert error.value.short_by_bytes > 0
    assert error.value.least_budget_bytes > trace.in_core_peak_bytes / 20


def test_a_file_that_cannot_be_written_is_an_os_error(trace, tmp_path):
    with pytest.raises(OSError, match="cannot write"):
        trace.save(tmp_path / "no" / "where.json")


def test_progress_is_told_and_ends_with_the_best_time(trace, machine):
    told = []
    plan = tidegate.plan(trace, machine, evaluations=1000, progress=lambda *now: told.append(now))
    assert all(name.startswith("tide: ") and done <= of for name, done, of, _ in told)
    assert told[-1][3] == plan.predicted_ns


def test_what_the_callback_raises_ends_the_search(trace, machine):
    def give_up(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tidegate.plan(trace, machine, progress=give_up)


@pytest.fixture
def interruptible():
    """A shell that starts a job in the background has it ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_search(trace, machine):
    with pytest.raises(KeyboardInterrupt):
        tidegate.plan(trace, machine, progress=lambda *_: signal.raise_signal(signal.SIGINT))


@pytest.mark.usefixtures("interruptible")
def test_another_thread_interrupts_while_planning(trace, machine):
    """Without a callback the interpreter's lock is free, and signals are heard, before the search ends."""
    network = tidegate.Trace.of_network("densenet121", machine, batch=64)
    interrupting = threading.Thread(target=_thread.interrupt_main)

    def start_and_plan():
        interrupting.start()
        tidegate.plan(network, machine, budget="45%", evaluations=10**9)

    with pytest.raises(KeyboardInterrupt):
        start_and_plan()
    interrupting.join()


def test_methods_side_by_side(trace, machine):
    comparison = tidegate.compare(trace, machine, "60%", methods="in-core, swap-all, pooch")
    assert [row["method"] for row in comparison.rows] == ["in-core", "swap-all", "pooch"]
    assert [row["status"] for row in comparison.rows] == ["infeasible", "ok", "ok"]
    columns = comparison.to_dict()
    assert columns["method"] == ["in-core", "swap-all", "pooch"]
    assert {len(column) for column in columns.values()} == {len(comparison)}
    assert columns["iteration_ns"][0] is None and columns["iteration_ns"][2] >= comparison.bound_ns
    assert "pooch" in str(comparison)
    assert json.loads(comparison.to_json())["budget_bytes"] == comparison.budget_bytes
    with pytest.raises(tidegate.InputError, match="twice"):
        tidegate.compare(trace, machine, methods=["pooch", "pooch"])


def test_what_does_not_fit_is_explained(trace, machine):
    fits = tidegate.explain(trace, machine)
    assert fits.fits and "unet" in str(fits)
    tight = tidegate.explain(trace, machine, budget="50%")
    assert not tight.fits
    remedies = tight.to_dict()["remedies"]
    assert remedies and not fits.to_dict()["remedies"]


def test_a_network_by_its_name(machine):
    trace = tidegate.Trace.of_network("gpt2-xl", machine, batch=1, sequence=64, dtype="f16")
    assert (trace.network, trace.batch) == ("gpt2-xl", 1)
    with pytest.raises(tidegate.InputError, match="unknown field `sequenze`"):
        tidegate.Trace.of_network("gpt2-xl", machine, batch=1, sequenze=64)


def test_times_are_modelled_for_a_machine(trace, machine):
    modelled = tidegate.model_times(trace, machine)
    faster = tidegate.model_times(trace, tidegate.Machine.load("b200"))
    assert faster.total_time_ns < modelled.total_time_ns
    assert json.loads(modelled.to_json())["content"]["provenance"]["origin"] == "modelled"


def test_times_that_a_document_leaves_out_are_modelled(trace, machine, tmp_path):
    document = json.loads(trace.to_json())
    for op in document["content"]["ops"]:
        del op["duration_ns"]
        op.pop("recompute_ns", None)
    text = json.dumps(document)
    (tmp_path / "t.json").write_text(text)
    modelled = tidegate.model_times(trace, machine)
    read = [tidegate.Trace.from_json(text, machine), tidegate.Trace.load(tmp_path / "t.json", machine)]
    assert {t.total_time_ns for t in read} == {modelled.total_time_ns}
    with pytest.raises(tidegate.InputError, match="duration_ns"):
        tidegate.Trace.from_json(text)


def test_stubs_say_what_there_is():
    """Each class, method and parameter of the stubs, and no other."""

    def stated(nodes):
        return {node.name: node for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}

    def public(thing):
        own = {name for name in vars(thing) if not name.startswith("_")}
        return own | ({"_repr_html_", "__len__", "__arrow_c_stream__"} & set(vars(thing)))

    def parameters(node):
        names = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
        return names + ([node.args.kwarg.arg] if node.args.kwarg else [])

    stubs = stated(ast.parse((pathlib.Path(tidegate.__file__).parent / "_native.pyi").read_text()).body)
    assert set(stubs) == public(_native) == set(tidegate.__all__)
    for name, node in stubs.items():
        thing = getattr(_native, name)
        assert thing.__doc__, f"{name} has no docstring"
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == list(inspect.signature(thing).parameters), name
        elif not issubclass(thing, Exception):
            members = stated(node.body)
            assert set(members) == public(thing), name
            for member, method in members.items():
                found = vars(thing)[member]
                if "property" not in [getattr(d, "id", None) for d in method.decorator_list]:
                    found = getattr(thing, member)
                    assert parameters(method) == list(inspect.signature(found).parameters), (name, member)


def test_importing_needs_no_torch():
    code = "import sys, tidegate; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_documentation_shows_what_it_prints(capsys):
    """TIDEGATE_UPDATE=1 writes what the example prints now."""
    page = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
    text = page.read_text()
    before, example, after = re.split(r"(?s)(?<=```python\n)(.*?```\n\n```text\n)", text, maxsplit=1)
    exec(example.split("```")[0], {})
    printed = capsys.readouterr().out
    shown, rest = after.split("```", 1)
    if os.environ.get("TIDEGATE_UPDATE"):
        page.write_text(before + example + printed + "```" + rest)
    else:
        assert printed == shown
