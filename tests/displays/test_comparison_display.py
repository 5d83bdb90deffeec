"""Marks are the rows, raw and refined apart; names cover nothing. And the front's picture."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from dualflow import ComparisonDisplay, ProblemError, compare, pareto_front


@pytest.fixture(scope="module")
def comparison():
    X, t = make_moons(16, noise=0.1, random_state=0)
    solvers = ["working-set", "smo", "gradient-flow", "frank-wolfe", "cvxopt", "variational-flow"]
    return compare(X, t, ("hinge", "squared_hinge"), solvers, devices=["emulator"], shots=100, time_limit=0.2)


def axes(k=1):
    return Figure(layout="constrained", figsize=(6, 4 * k)).subplots(k)


def test_marks_are_the_rows_with_a_gap(comparison):
    display = ComparisonDisplay.from_comparison(comparison, ax=axes(2))
    for found, section in zip(display.scatters_, comparison.sections, strict=True):
        for role in ("reference", "classical", "quantum", "emulated", "control"):
            rows = [r for r in section.rows if r.role == role and r.raw_gap is not None]
            expected = sorted((r.wall_time_s, max(r.raw_gap, 1e-16)) for r in rows)
            drawn = sorted(map(tuple, np.asarray(found[role].get_offsets()))) if role in found else []
            np.testing.assert_allclose(drawn, expected)
    assert {"classical", "control", "emulated"} <= set(display.scatters_[1])
    assert [ax.get_xscale() + ax.get_yscale() for ax in display.axes_] == ["loglog"] * 2
    assert "1 row without a gap" in display.axes_[0].get_title()  # the flow does not take the hinge


def test_raw_and_refined_are_never_in_one_picture(comparison):
    raw = ComparisonDisplay.from_comparison(comparison, problems="hinge", ax=axes())
    refined = ComparisonDisplay.from_comparison(comparison, problems="hinge", refined=True, ax=axes())
    rows = [r for r in comparison.sections[0].rows if r.role == "classical" and r.refined_gap is not None]
    expected = sorted((r.wall_time_s + r.refine_time_s, max(r.refined_gap, 1e-16)) for r in rows)
    drawn = sorted(map(tuple, np.asarray(refined.scatters_[0]["classical"].get_offsets())))
    np.testing.assert_allclose(drawn, expected)
    assert raw.ax_.get_ylabel() == "certified relative gap, raw"
    assert refined.ax_.get_ylabel() == "certified relative gap, after refinement"
    assert refined.ax_.get_xlabel() == "wall time with refinement / s"


def test_the_excess_is_drawn_beside_its_shot_floors(comparison):
    display = ComparisonDisplay.from_comparison(comparison, y="excess", ax=axes(2))
    rows = [r for r in comparison.sections[1].rows if r.role == "emulated" and r.excess is not None]
    drawn = np.asarray(display.scatters_[1]["emulated"].get_offsets())
    np.testing.assert_allclose(drawn, [(r.wall_time_s, r.excess) for r in rows])
    floors = np.asarray(display.floors_[-1].get_offsets())
    rows = [r for r in comparison.sections[1].rows if r.excess_floor and r.role != "control"]
    known = {(r.wall_time_s, r.excess_floor) for r in rows}
    assert set(map(tuple, floors)) == known
    assert display.ax_.get_ylabel() == "excess $(f - f^*)/|f^*|$, raw"
    assert "1 row without a gap (variational-flow)" in display.axes_[0].get_title()
    greys = [t.get_text() for t in display.axes_[1].texts if t.get_color() == "#8A8A8A"]
    assert {"null", "random"} <= set(greys)
    with pytest.raises(ProblemError, match="y='accuracy' must be gap or excess"):
        ComparisonDisplay.from_comparison(comparison, y="accuracy")
    with pytest.raises(ProblemError, match="with refined=True"):
        ComparisonDisplay.from_comparison(comparison, y="excess", refined=True)


def test_names_cover_no_mark_and_no_other_name(comparison):
    display = ComparisonDisplay.from_comparison(comparison, ax=axes(2))
    display.figure_.draw_without_rendering()
    for ax, texts, found, left_out, section in zip(
        display.axes_, display.texts_, display.scatters_, display.unlabelled_, comparison.sections, strict=True
    ):
        boxes = [text.get_window_extent() for text in texts]
        marks = np.vstack([ax.transData.transform(np.asarray(points.get_offsets())) for points in found.values()])
        for k, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[k + 1 :])
            inside = (marks > [box.x0, box.y0]) & (marks < [box.x1, box.y1])
            assert not inside.all(axis=1).any()
            assert ax.get_window_extent().containsx(box.x0)
            assert ax.get_window_extent().containsx(box.x1)
        shown = [r for r in section.rows if r.raw_gap is not None and r.role != "control"]
        assert len(texts) + left_out == len(shown)
        assert ("no room for" in ax.get_title()) == bool(left_out)
    names = [text.get_text() for texts in display.texts_ for text in texts]
    assert "working-set" in names
    assert not any("null" in name for name in names)


def test_a_name_without_room_is_left_out():
    from dualflow.displays.comparison import place_labels

    ax = axes()
    points = np.column_stack([np.linspace(1.0, 1.1, 40), np.linspace(1.0, 1.02, 40)])
    points = np.vstack([points, [[1.5, 1.9]]])
    ax.scatter(*points.T)
    ax.set(xlim=(0, 2), ylim=(0, 2))
    ax.figure.draw_without_rendering()
    texts, without = place_labels(ax, points, [*["a long name"] * 40, "alone"], level=0.1)
    assert len(texts) + without == 41
    assert without > 5
    assert texts[-1].get_text() == "alone"
    boxes = [text.get_window_extent() for text in texts]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[k + 1 :])
    lines = [text for text in ax.texts if getattr(text, "arrow_patch", None) is not None]
    far = [text for text in texts if abs(text.get_position()[0]) > 6]
    assert 0 < len(lines) == len(far) < len(texts)
    assert [tuple(line.xy) for line in lines] == [tuple(text.xy) for text in far]
    assert [line.get_position() for line in lines] == [text.get_position() for text in far]


def test_roles_are_in_the_legend_under_the_axes(comparison):
    display = ComparisonDisplay.from_comparison(comparison, ax=axes(2))
    display.figure_.draw_without_rendering()
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts[:2] == ["reference", "classical"]
    assert "control: no circuit" in texts
    extent = display.legend_.get_window_extent()
    assert not any(extent.overlaps(ax.get_window_extent()) for ax in display.axes_)


def test_it_fits_into_a_subfigure(comparison):
    part = Figure(layout="constrained").subfigures(1, 2)[0]
    display = ComparisonDisplay.from_comparison(comparison, problems="hinge", ax=part.subplots())
    assert display.texts_[0]


@pytest.mark.parametrize(
    ("kind", "shape"), [(list, (3, 1)), (np.asarray, (1, 3)), pytest.param(tuple, (1, 3), marks=pytest.mark.slow)]
)
def test_three_axes_in_any_order_and_container_hold_three_problems(comparison, shape, kind):
    three = SimpleNamespace(sections=(*comparison.sections, comparison.sections[0]))
    grid = Figure(layout="constrained", figsize=(12, 9)).subplots(*shape)
    display = ComparisonDisplay.from_comparison(three, ax=kind(grid))
    assert [ax is own for ax, own in zip(display.axes_, grid, strict=True)] == [True] * 3
    assert all(display.scatters_)


def test_repairs_are_left_out_and_gaps_may_be_missing(comparison):
    section = comparison.sections[0]
    repair = replace(section.rows[0], role="repair", repair="clip")
    bare = [replace(row, raw_gap=None, refined_gap=None) for row in section.rows]
    with_repair = SimpleNamespace(sections=(replace(section, rows=(*section.rows, repair)),))
    plain = SimpleNamespace(sections=(section,))
    count = [
        sum(
            len(points.get_offsets())
            for points in ComparisonDisplay.from_comparison(c, ax=axes()).scatters_[0].values()
        )
        for c in (with_repair, plain)
    ]
    assert count[0] == count[1]
    empty = ComparisonDisplay.from_comparison(
        SimpleNamespace(sections=(replace(section, rows=tuple(bare)),)), ax=axes()
    )
    assert [text.get_text() for text in empty.ax_.texts] == ["no row has a certified gap"]
    assert empty.legend_ is None


def test_what_cannot_be_drawn_is_told(comparison):
    with pytest.raises(ProblemError, match="found dict"):
        ComparisonDisplay.from_comparison({})
    with pytest.raises(ProblemError, match="problems='svdd' is not in this comparison: hinge, squared_hinge"):
        ComparisonDisplay.from_comparison(comparison, problems="svdd")
    with pytest.raises(ProblemError, match="no section"):
        ComparisonDisplay.from_comparison(SimpleNamespace(sections=()))
    with pytest.raises(ProblemError, match="3 axes, and 2 are drawn"):
        ComparisonDisplay.from_comparison(comparison, ax=axes(3))


# --- the front -------------------------------------------------------------------------------------


def test_a_front_shows_the_point_that_was_picked():
    X, y = make_moons(60, noise=0.25, random_state=0)
    front = pareto_front(X[:40], y[:40], C=(0.1, 10))
    point = front.pick(X[40:], y[40:])
    ax = front.plot(axes(), picked=point)
    (star,) = [line for line in ax.get_lines() if line.get_marker() == "*"]
    assert star.get_xydata().tolist() == [[point.squared_norm, point.error]]
    assert f"picked: C = {point.C:.3g}" in [text.get_text() for text in ax.get_legend().get_texts()]
    plain = front.plot(axes())
    assert not any(line.get_marker() == "*" for line in plain.get_lines())
    with pytest.raises(ProblemError, match="picked must be a point of the front"):
        front.plot(axes(), picked=3)


def test_a_table_is_text_in_a_notebook_too(comparison, monkeypatch):
    from rich import console

    plain = str(comparison)
    monkeypatch.setattr(console, "_is_jupyter", lambda: True)
    assert plain.startswith("Use ")
    assert str(comparison) == plain
