"""Where a picture goes, and what all of them look like. Nothing global is set; a caller's axes need no pyplot."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..exceptions import ProblemError, SolverUnavailable

__all__ = [
    "BLUE",
    "COLOURS",
    "DARK",
    "GREEN",
    "GREY",
    "INSTALL",
    "LEAST_GAP",
    "MARKERS",
    "ORANGE",
    "PURPLE",
    "SIGNS",
    "VERMILION",
    "axes_for",
    "class_name",
    "decades",
    "drawn_gaps",
    "legend_above",
    "legend_below",
    "mark_level",
    "matplotlib_part",
    "say_level",
    "titled",
]

# Okabe and Ito's colours: told apart by eyes that see red and green alike, too. Markers differ beside them.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY, DARK = "#8A8A8A", "#222222"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY)
#: Of the first class, or sign −1, and of the second.
SIGNS = {-1: BLUE, 1: ORANGE}
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
INSTALL = 'pictures need matplotlib: pip install "dualflow[plot]"'
#: Relative gaps below it are round-off; logarithmic axes show them, and 0, here.
LEAST_GAP = 1e-16

#: Letters of a line of a title, and answers of circuits that it tells.
TITLE_LETTERS, TITLE_LINES = 72, 3


def matplotlib_part(name: str) -> Any:
    """The module ``matplotlib.<name>``; `SolverUnavailable` with the pip line where there is none."""
    import importlib

    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise SolverUnavailable(INSTALL) from error


def axes_for(ax: Any, rows: int, columns: int, size: tuple[float, float], count: int | None = None) -> tuple[Any, Any]:
    """Figure and as many axes as are asked for (rows · columns, or fewer: the last places stay empty), shape (count,).

    Parameters
    ----------
    ax : None, Axes, or sequence of Axes
        None makes a figure by pyplot, with the constrained layout. One Axes in place of several is divided among them,
        as scikit-learn's displays do it.
    size : tuple of float
        Width and height of a new figure, inches.

    Raises
    ------
    ProblemError
        ``ax`` is something else, or not so many.
    SolverUnavailable
        matplotlib is not installed.
    """
    count = rows * columns if count is None else count
    kind = matplotlib_part("axes").Axes
    if ax is None:
        figure, made = matplotlib_part("pyplot").subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False
        )
        for empty in made.ravel()[count:]:
            empty.remove()
        return figure, made.ravel()[:count]
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if not given or not all(isinstance(one, kind) for one in given):
        raise ProblemError(f"ax must be matplotlib's Axes, {count} of them or one, found {type(ax).__name__}")
    if len(given) == count:
        return given[0].figure, np.array(given, dtype=object)
    if len(given) > 1 or given[0].get_subplotspec() is None:
        raise ProblemError(
            f"ax holds {len(given)} axes, and {count} are drawn: give as many, or one of a grid of subplots"
        )
    spec = given[0].get_subplotspec().subgridspec(rows, columns)
    given[0].set_axis_off()
    made = [given[0].figure.add_subplot(spec[k // columns, k % columns]) for k in range(count)]
    return given[0].figure, np.array(made, dtype=object)


def titled(title: str, circuits: Sequence[str]) -> str:
    """A title, and below it what the circuits behind an answer themselves found."""
    lines = [textwrap.fill(line, TITLE_LETTERS) for line in circuits[:TITLE_LINES]]
    if more := len(circuits) - len(lines):
        lines.append(f"and {more} more solves")
    return "\n".join(filter(None, [title, *lines]))


def legend_below(ax: Any, handles: Sequence[Any]) -> Any:
    """A legend under the label of the x axis, where no data are; layouts make room for it."""
    place = matplotlib_part("transforms").offset_copy(
        ax.transAxes, ax.figure, 0.0, -3.4 * ax.xaxis.label.get_size(), units="points"
    )
    return _legend(ax, handles, "upper left", (0.0, 0.0), place)


def legend_above(ax: Any, handles: Sequence[Any]) -> Any:
    """A legend where a title would be."""
    place = matplotlib_part("transforms").offset_copy(ax.transAxes, ax.figure, 0.0, 3.0, units="points")
    return _legend(ax, handles, "lower left", (0.0, 1.0), place)


def _legend(ax: Any, handles: Sequence[Any], loc: str, at: tuple[float, float], place: Any) -> Any:
    return ax.legend(
        handles=list(handles),
        loc=loc,
        bbox_to_anchor=at,
        bbox_transform=place,
        borderaxespad=0.0,
        ncols=_columns(ax, [str(handle.get_label()) for handle in handles]),
        frameon=False,
        fontsize="small",
        columnspacing=1.2,
        handletextpad=0.5,
    )


def _columns(ax: Any, labels: list[str]) -> int:
    """As many columns as the width of the axes has room for, by the letters' usual width."""
    size = 0.83 * ax.xaxis.label.get_size()
    room = 72.0 * ax.get_position().width * ax.figure.get_window_extent().width / ax.figure.dpi
    lengths = [len(re.sub(r"[$_{}\\]", "", label)) for label in labels]
    for columns in range(min(4, len(labels)), 1, -1):
        rows = -(-len(labels) // columns)
        if -(-len(labels) // (columns - 1)) == rows:
            continue  # fewer columns do
        widest = [max(lengths[k : k + rows]) for k in range(0, len(labels), rows)]
        if sum((0.52 * letters + 3.7) * size for letters in widest) <= room:
            return columns
    return 1


def class_name(label: Any) -> str:
    """What a class is called in a legend: a bare number needs the word."""
    return str(label) if isinstance(label, str) else f"class {label}".replace("-", "−")


def mark_level(ax: Any, level: float, name: str) -> Any:
    """A dashed line across, its name right of the axes."""
    say_level(ax, level, name)
    return ax.axhline(level, color=GREY, linestyle="--", linewidth=1.0, zorder=1)


def say_level(ax: Any, level: float, text: str) -> Any:
    """A text at a height, right of the axes, where no data are."""
    return ax.annotate(
        text,
        (1.0, level),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize="small",
        color=DARK,
        annotation_clip=False,
    )


def drawn_gaps(gap: Any) -> Any:
    """Gaps as a logarithmic axis can show them: 0 is `LEAST_GAP`, and what is not finite is left out."""
    gap = np.asarray(gap, dtype=float)
    return np.where(np.isfinite(gap), np.maximum(gap, LEAST_GAP), math.nan)


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from above ``low`` to ``high``, five at most."""
    first, last = math.floor(math.log10(low)) + 1, math.floor(math.log10(high)) if high > 0 else -999
    step = max(1, -(-(last - first + 1) // 5))
    return [10.0**k for k in range(first, last + 1, step)]
