"""What a notebook shows of a plan and of a comparison."""

import xml.etree.ElementTree as xml

import pytest

import tidegate

SVG = "{http://www.w3.org/2000/svg}svg"


@pytest.fixture(scope="module")
def trace():
    return tidegate.Trace.load("unet-h100")


@pytest.fixture(scope="module")
def machine():
    return tidegate.Machine.load("h100-measured")


@pytest.fixture(scope="module")
def plan(trace, machine):
    return tidegate.plan(trace, machine, budget="50%", evaluations=1000)


def test_a_plan_draws_its_timeline_and_its_memory(trace, plan):
    timeline, memory = plan.timeline_svg(), plan.memory_svg()
    assert xml.fromstring(timeline).tag == xml.fromstring(memory).tag == SVG
    assert "d2h" in timeline and "activations" in memory
    assert plan._repr_html_() == timeline + memory
    assert tidegate.simulate(plan).svg() == timeline
    assert "Plan by tide: unet (batch 4) on h100-measured" in repr(plan)


def test_without_its_trace_a_plan_draws_its_timeline(plan):
    alone = tidegate.Plan.from_json(plan.to_json())
    assert alone.memory_svg() is None
    assert xml.fromstring(alone._repr_html_()).tag == SVG


def test_a_comparison_shows_its_table_and_a_picture(trace, machine):
    comparison = tidegate.compare(trace, machine, "50%", methods="swap-all,pooch")
    page = comparison._repr_html_()
    table, picture = page.split("</pre>\n")
    assert "pooch" in table
    assert xml.fromstring(picture).tag == SVG


def test_its_columns_are_a_data_frame(trace, machine):
    pandas = pytest.importorskip("pandas")
    comparison = tidegate.compare(trace, machine, "60%", methods="in-core,pooch")
    frame = pandas.DataFrame(comparison.to_dict())
    assert list(frame.method) == ["in-core", "pooch"]
    assert frame.iteration_ns.isna().tolist() == [True, False]
