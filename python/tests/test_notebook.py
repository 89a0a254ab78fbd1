"""What a notebook shows of a plan and of a comparison."""

import re
import urllib.parse
import xml.etree.ElementTree as xml

import pytest

import tidegate

SVG = "{http://www.w3.org/2000/svg}svg"


def images(html):
    """The pictures that a notebook shows."""
    sources = re.findall('<img src="data:image/svg\\+xml,([^"]*)">', html)
    return [urllib.parse.unquote(source) for source in sources]


@pytest.fixture(scope="module")
def plan(trace, machine):
    return tidegate.plan(trace, machine, budget="50%", evaluations=1000)


def test_a_plan_draws_its_timeline_and_its_memory(trace, plan):
    timeline, memory = plan.timeline_svg(), plan.memory_svg()
    assert xml.fromstring(timeline).tag == xml.fromstring(memory).tag == SVG
    assert "d2h" in timeline and "activations" in memory
    assert images(plan._repr_html_()) == [timeline, memory]
    simulated = tidegate.simulate(plan)
    assert images(simulated._repr_html_()) == [simulated.svg()] == [timeline]
    assert "Plan by tide: unet (batch 4) on h100-sxm" in repr(plan)


def test_without_its_trace_a_plan_draws_its_timeline(plan):
    alone = tidegate.Plan.from_json(plan.to_json())
    assert alone.memory_svg() is None
    assert images(alone._repr_html_()) == [alone.timeline_svg()]


def test_a_comparison_shows_its_table_and_a_picture(trace, machine):
    comparison = tidegate.compare(trace, machine, "50%", methods="swap-all,pooch")
    page = comparison._repr_html_()
    table, picture = page.split("</pre>\n")
    assert "pooch" in table
    assert [xml.fromstring(picture).tag for picture in images(picture)] == [SVG]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_comparison_is_a_data_frame(trace, machine, library):
    """By its columns, and, where the library reads Arrow streams itself, as it is."""
    data_frame = pytest.importorskip(library).DataFrame
    comparison = tidegate.compare(trace, machine, "60%", methods="in-core,pooch")
    sources = [comparison.to_dict()] + [comparison] * (library == "polars")
    for frame in map(data_frame, sources):
        assert list(frame["method"]) == ["in-core", "pooch"]
        assert list(frame["status"]) == ["infeasible", "ok"]
        rows = comparison.rows
        assert frame["iteration_ns"][1] == rows[1]["iteration_ns"] >= comparison.bound_ns
        assert frame["gap"][1] == rows[1]["gap"]
        assert "which is" in frame["reason"][0]


def test_an_arrow_stream_has_the_columns_of_the_dict(trace, machine):
    polars = pytest.importorskip("polars")
    comparison = tidegate.compare(trace, machine, "60%", methods="in-core,pooch")
    frame = polars.DataFrame(comparison)
    assert set(frame.columns) == set(comparison.to_dict())
    assert frame.null_count()["iteration_ns"][0] == 1
