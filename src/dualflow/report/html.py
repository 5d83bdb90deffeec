"""A comparison as one self-contained HTML file.

The chart of a section is raw gap against wall time, both on log scales; it is drawn as SVG without a library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..persistence.files import escape_control_characters
from .columns import QUANTUM, RESULTS, Column, gap_text, limits, status_text
from .model import Results, Row, Section
from .scores import ModelScore, best_model, score_title
from .terminal import reference_text
from .verdict import (
    MODEL_HEADERS,
    constant_note,
    counts_text,
    model_cells,
    models_verdict,
    overall,
    solver_advice,
    verdict,
)

#: Size of the chart, in pixels.
WIDTH_PX = 720
HEIGHT_PX = 340
#: Margins around the plot area, in pixels.
LEFT_PX = 70
RIGHT_PX = 24
TOP_PX = 16
BOTTOM_PX = 46
#: Names of marks without a label that the caption of a chart lists at most.
MAX_UNLABELLED_NAMES = 12
#: Settings of a comparison of models that stand beside its models, and not among the settings, too.
SHOWN_SETTINGS = ("training points", "held-out points", "features", "gaps filled", "notes", "next")
#: Smaller relative gaps are round-off and are drawn here.
MIN_GAP = 1e-16
#: Width of a character and height of a line of the labels, in pixels.
_CHAR_PX = 7.0
_LINE_PX = 13
#: Left, top, right and bottom of a rectangle.
Box = tuple[float, float, float, float]
#: x, y and text anchor of a label.
Place = tuple[float, float, str]


@dataclass(frozen=True)
class Mark:
    """A point, its label ("" if there is no room for one), the label's position, the tooltip, and its error bar.

    ``low_y`` and ``high_y`` are the ends of the error bar, the quartiles over the seeds; None for a single run.
    """

    x: float
    y: float
    role: str
    label: str
    text_x: float
    text_y: float
    anchor: str
    title: str
    low_y: float | None = None
    high_y: float | None = None


@dataclass(frozen=True)
class Level:
    """A horizontal line, its name, and the position of the name."""

    y: float
    label: str
    text_x: float
    text_y: float


@dataclass(frozen=True)
class Chart:
    """Everything the template draws."""

    marks: list[Mark]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    lines: list[Level]
    hidden: int
    unlabelled: int
    unlabelled_names: tuple[str, ...] = ()
    width: int = WIDTH_PX
    height: int = HEIGHT_PX
    box: tuple[int, int, int, int] = field(default=(LEFT_PX, TOP_PX, WIDTH_PX - RIGHT_PX, HEIGHT_PX - BOTTOM_PX))


def chart(section: Section, tol: float) -> Chart | None:
    """Return the chart, or None if no row has a finite gap."""
    # A repair is another problem: its gap cannot be compared with the others'.
    own = [r for r in section.rows if r.role != "repair"]
    rows = [r for r in own if r.raw_gap is not None and math.isfinite(r.raw_gap) and r.wall_time_s]
    if not rows:
        return None
    gaps = [max(row.raw_gap or 0.0, MIN_GAP) for row in rows]
    times = [row.wall_time_s or 0.0 for row in rows]
    floors = [row.shot_floor for row in rows if row.shot_floor]
    levels = {"tolerance": tol} | ({"least shot floor": min(floors)} if floors else {})
    x_from, x_to = _decades(times)
    bars = [_bar(row) for row in rows]
    y_from, y_to = _decades([*gaps, *levels.values(), *(end for bar in bars if bar for end in bar)])

    def at_x(value: float) -> float:
        return LEFT_PX + (WIDTH_PX - LEFT_PX - RIGHT_PX) * (math.log10(value) - x_from) / (x_to - x_from)

    def at_y(value: float) -> float:
        return HEIGHT_PX - BOTTOM_PX - (HEIGHT_PX - TOP_PX - BOTTOM_PX) * (math.log10(value) - y_from) / (y_to - y_from)

    points = [(at_x(time), at_y(gap)) for time, gap in zip(times, gaps, strict=True)]
    several = len({row.solver for row in rows if row.device}) > 1
    labels = [_label(row, several) for row in rows]
    ends = [(at_y(bar[0]), at_y(bar[1])) if bar else (None, None) for bar in bars]
    taken = [
        (x - 7, min(y - 7, top or y), x + 7, max(y + 7, low or y))
        for (x, y), (low, top) in zip(points, ends, strict=True)
    ]
    lines = [_level(at_y(value), name, taken) for name, value in levels.items()]
    places = _place(points, labels, taken)
    marks = [
        Mark(
            *point,
            role=row.role,
            label=label if place else "",
            text_x=place[0] if place else point[0],
            text_y=place[1] if place else point[1],
            anchor=place[2] if place else "start",
            title=f"{row.solver} {row.variant}: raw gap {gap_text(row.raw_gap or 0.0)}, "
            f"{row.wall_time_s:.3g} s, {status_text(row)}" + (f", {row.seeds} seeds" if row.seeds > 1 else ""),
            low_y=low,
            high_y=high,
        )
        for row, point, label, place, (low, high) in zip(rows, points, labels, places, ends, strict=True)
    ]
    return Chart(
        marks=marks,
        x_ticks=[(at_x(10.0**k), _time(k)) for k in range(x_from, x_to + 1)],
        y_ticks=[(at_y(10.0**k), f"1e{k}") for k in range(y_from, y_to + 1, 1 + (y_to - y_from) // 9)],
        lines=lines,
        hidden=sum(row.ran for row in own) - len(rows),
        unlabelled=places.count(None),
        unlabelled_names=tuple(dict.fromkeys(label for label, place in zip(labels, places, strict=True) if not place)),
    )


def _bar(row: Row) -> tuple[float, float] | None:
    """Return the quartiles of a row's gap as they are drawn; None for a single run, and if one is infinite."""
    if row.gap_low is None or row.gap_high is None or not math.isfinite(row.gap_high):
        return None
    return max(row.gap_low, MIN_GAP), max(row.gap_high, MIN_GAP)


def _label(row: Row, several: bool) -> str:
    if row.device is None:
        return row.solver
    where = row.variant.removeprefix("control: ")
    return f"{row.solver}, {where}" if several else where


def _decades(values: list[float]) -> tuple[int, int]:
    """Return the first and last power of ten around the values, at least one decade apart."""
    low = math.floor(math.log10(min(values)) - 0.05)
    return low, max(low + 1, math.ceil(math.log10(max(values)) + 0.05))


def _time(k: int) -> str:
    return f"{10**k:g} s" if k >= 0 else f"{10 ** (k + 3):g} ms" if k >= -3 else f"{10.0 ** (k + 6):g} µs"


def _level(y: float, label: str, taken: list[Box]) -> Level:
    """Return a level with its name as far to the right as there is room between the marks; else at the right edge."""
    ends = range(WIDTH_PX - RIGHT_PX - 4, LEFT_PX + int(_CHAR_PX * len(label)), -8)
    found = [
        (Level(y, label, end, y + shift), (end - _CHAR_PX * len(label), y + shift - 10, end, y + shift + 3))
        for end, shift in product(ends, (-4, 13))
    ]
    level, block = next(((it, block) for it, block in found if _free(block, taken)), found[0])
    taken.append(block)
    return level


def _place(points: list[tuple[float, float]], labels: list[str], taken: list[Box]) -> list[Place | None]:
    """Return a free place for each label, in order: right or left of its point, as near its height as possible.

    The place is None if the label or its leader line would cover a mark, another label or leader line, or the edge.
    """
    places: list[Place | None] = []
    for k, ((x, y), label) in enumerate(zip(points, labels, strict=True)):
        places.append(None)
        others = taken[:k] + taken[k + 1 :]  # its own mark is the k-th
        for shift, side in product(sorted(range(-6, 7), key=abs), (1, -1)):
            near, middle = x + 11 * side, y + shift * _LINE_PX
            left = near if side > 0 else near - _CHAR_PX * len(label)
            block = (left, middle - _LINE_PX / 2, left + _CHAR_PX * len(label), middle + _LINE_PX / 2)
            outside = block[0] < LEFT_PX or block[2] > WIDTH_PX - 2 or block[1] < 0 or block[3] > HEIGHT_PX - BOTTOM_PX
            leader = _leader((x, y), (near, middle)) if shift else []
            if not outside and all(_free(box, others) for box in (block, *leader)):
                places[-1] = (near, middle, "start" if side > 0 else "end")
                taken += [block, *leader]
                break
    return places


def _leader(start: tuple[float, float], end: tuple[float, float]) -> list[Box]:
    """Return a line between two points as small boxes."""
    steps = max(1, int(math.dist(start, end) / 3))
    along = [[a + (b - a) * k / steps for k in range(steps)] for a, b in zip(start, end, strict=True)]
    return [(x - 1, y - 1, x + 1, y + 1) for x, y in zip(*along, strict=True)]


def _free(block: Box, taken: list[Box]) -> bool:
    """Return whether a box overlaps none of the others."""
    return not any(
        min(block[2], other[2]) > max(block[0], other[0]) and min(block[3], other[3]) > max(block[1], other[1])
        for other in taken
    )


@dataclass(frozen=True)
class Span:
    """A score on the line from 0 to 1 and its standard error to both sides, in percent of the line; its text."""

    at: float
    left: float
    width: float
    text: str


def span(score: ModelScore, scoring: str) -> Span | None:
    """Return where a model's score lies; None without a score."""
    value = score.score(scoring)
    if score.counts is None or value < 0:
        return None
    constant = bool((score.counts.table.sum(axis=0) == score.counts.n).any())
    error = 0.0 if constant else score.error(scoring)
    low, high = max(value - error, 0.0), min(value + error, 1.0)
    text = f"{value:.3f} ± {error:.3f}" if error else f"{value:.3f}"
    return Span(round(100 * value, 1), round(100 * low, 1), round(100 * (high - low), 1), text)


def render(comparison: Results) -> str:
    """Return the text of the file. All values are escaped, because names and reasons may come from third parties."""
    environment = Environment(
        loader=PackageLoader("dualflow", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    tol = float(comparison.settings["tol"])
    return environment.get_template("comparison.html.j2").render(
        comparison=comparison,
        model_rows=[(score, model_cells(score)) for score in comparison.models],
        best=best_model(comparison.models, comparison.scoring),
        spans=[span(score, comparison.scoring) for score in comparison.models],
        counts_text=counts_text,
        model_headers=MODEL_HEADERS,
        score_title=score_title(comparison.scoring),
        constant_note=constant_note(comparison.models),
        max_names=MAX_UNLABELLED_NAMES,
        charts=[chart(section, tol) for section in comparison.sections],
        results_of=_filled_columns,
        quantum=QUANTUM,
        circuits=(circuits := any(row.device is not None for row in comparison.rows)),
        limits=limits(tol, circuits, max((row.seeds for row in comparison.rows), default=1)),
        settings={name: _setting(value) for name, value in comparison.settings.items() if value is not None},
        shown=SHOWN_SETTINGS if comparison.models else (),
        source=str(comparison.settings.get("table", "")).rpartition(",")[0],
        status_text=status_text,
        reference_text=reference_text,
        overall=overall,
        solver_advice=solver_advice,
        models_verdict=models_verdict,
        verdict=verdict,
    )


def _filled_columns(section: Section) -> list[Column]:
    """Return the columns of results in which a row has a value."""
    return [column for column in RESULTS if any(column.value(row) is not None for row in section.rows)] or [*RESULTS]


def _plain(value: object) -> object:
    """Return text without control characters, which would affect a terminal; our own markup is kept."""
    return escape_control_characters(value, "\n") if isinstance(value, str) and not isinstance(value, Markup) else value


def _setting(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
