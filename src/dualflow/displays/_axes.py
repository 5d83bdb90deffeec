"""Axes, colours, legends and titles that all displays share.

No global setting of matplotlib is changed, and pyplot is used only if the caller gives no axes.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..exceptions import ProblemError, SolverUnavailable

# The colours of Okabe and Ito, which differ for colour-blind readers, too. Classes also differ by their markers.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
GREY = "#8A8A8A"
DARK = "#222222"
#: Colours of classes, in order.
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY)
#: Colours of the first class (sign −1) and of the second (sign +1).
SIGNS = {-1: BLUE, 1: ORANGE}
#: Markers of classes, in order.
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
#: Line styles and hollow markers of controls, in order.
CONTROL_LINES = ("-", ":", "-.", (0, (5, 1)), (0, (1, 4)))
CONTROL_MARKERS = ("s", "D", "o", "v", "^")
#: Error text if matplotlib is not installed.
INSTALL = 'pictures need matplotlib: pip install "dualflow[plot]"'
#: Smaller relative gaps, and 0, are drawn at this value on a logarithmic axis: they are round-off.
LEAST_GAP = 1e-16

#: Maximum length of a line of a title, in characters.
TITLE_CHARS = 72
#: Maximum number of circuit summaries in a title.
TITLE_LINES = 3


def matplotlib_part(name: str) -> Any:
    """Return the module ``matplotlib.<name>``; raise `SolverUnavailable` with the pip line if it is not installed."""
    import importlib

    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise SolverUnavailable(INSTALL) from error


def axes_for(ax: Any, rows: int, columns: int, size: tuple[float, float], count: int | None = None) -> tuple[Any, Any]:
    """Return the figure, and an array of ``count`` axes (by default rows · columns; with fewer the last stay empty).

    Parameters
    ----------
    ax : None, Axes, or sequence of Axes
        None makes a figure by pyplot, with constrained layout. A single Axes is divided if several are needed, as in
        scikit-learn's displays.
    size : tuple of float
        Width and height of a new figure, inches.

    Raises
    ------
    ProblemError
        ``ax`` is not an Axes, or has the wrong number of them.
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
        raise ProblemError(f"ax must be one matplotlib Axes or {count} of them, found {type(ax).__name__}")
    if len(given) == count:
        return given[0].figure, np.array(given, dtype=object)
    if len(given) > 1 or given[0].get_subplotspec() is None:
        raise ProblemError(
            f"ax holds {len(given)} axes, and {count} are drawn: give {count}, or one axes of a grid of subplots"
        )
    spec = given[0].get_subplotspec().subgridspec(rows, columns)
    given[0].set_axis_off()
    made = [given[0].figure.add_subplot(spec[k // columns, k % columns]) for k in range(count)]
    return given[0].figure, np.array(made, dtype=object)


def titled(title: str, circuits: Sequence[str]) -> str:
    """Return a title, and below it the summaries of the circuits' own answers."""
    lines = [textwrap.fill(line, TITLE_CHARS) for line in circuits[:TITLE_LINES]]
    if more := len(circuits) - len(lines):
        lines.append(f"and {more} more solves")
    return "\n".join(filter(None, [title, *lines]))


def legend_below(ax: Any, handles: Sequence[Any]) -> Any:
    """Add a legend below the label of the x axis, outside the data; layouts reserve room for it."""
    place = matplotlib_part("transforms").offset_copy(
        ax.transAxes, ax.figure, 0.0, -3.4 * ax.xaxis.label.get_size(), units="points"
    )
    return _legend(ax, handles, "upper left", (0.0, 0.0), place)


def legend_above(ax: Any, handles: Sequence[Any]) -> Any:
    """Add a legend above the axes, in place of a title."""
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
    """Return the number of legend columns that fit the width of the axes, by the mean width of characters."""
    size = 0.83 * ax.xaxis.label.get_size()
    room = 72.0 * ax.get_position().width * ax.figure.get_window_extent().width / ax.figure.dpi
    lengths = [len(re.sub(r"[$_{}\\]", "", label)) for label in labels]
    for columns in range(min(4, len(labels)), 1, -1):
        rows = -(-len(labels) // columns)
        if -(-len(labels) // (columns - 1)) == rows:
            continue  # fewer columns give the same number of rows
        widest = [max(lengths[k : k + rows]) for k in range(0, len(labels), rows)]
        if sum((0.52 * letters + 3.7) * size for letters in widest) <= room:
            return columns
    return 1


def control_style(k: int) -> dict[str, Any]:
    """Return how the k-th control is drawn: a grey line with hollow markers, which show a line that it lies on."""
    line, marker = CONTROL_LINES[k % len(CONTROL_LINES)], CONTROL_MARKERS[k % len(CONTROL_MARKERS)]
    style = {"color": GREY, "linestyle": line, "linewidth": 1.2, "marker": marker, "markersize": 6.5}
    return style | {"markerfacecolor": "none", "zorder": 4}


def class_name(label: Any) -> str:
    """Return the name of a class in a legend; a number gets the word "class" in front."""
    return str(label) if isinstance(label, str) else f"class {label}".replace("-", "−")


def mark_level(ax: Any, level: float, name: str) -> Any:
    """Draw a dashed horizontal line, with its name to the right of the axes."""
    say_level(ax, level, name)
    return ax.axhline(level, color=GREY, linestyle="--", linewidth=1.0, zorder=1)


def say_level(ax: Any, level: float, text: str) -> Any:
    """Write a text at a height, to the right of the axes, outside the data."""
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
    """Return gaps for a logarithmic axis: at least `LEAST_GAP`, and NaN in place of values that are not finite."""
    gap = np.asarray(gap, dtype=float)
    return np.where(np.isfinite(gap), np.maximum(gap, LEAST_GAP), math.nan)


def decades(low: float, high: float) -> list[float]:
    """Return powers of ten above ``low`` and up to ``high``, at most five."""
    first, last = math.floor(math.log10(low)) + 1, math.floor(math.log10(high)) if high > 0 else -999
    step = max(1, -(-(last - first + 1) // 5))
    return [10.0**k for k in range(first, last + 1, step)]
