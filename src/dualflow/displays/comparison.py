"""Plot a comparison: certified gap against wall time, with the names of solvers where they cover nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ._axes import (
    BLUE,
    DARK,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    axes_for,
    drawn_gaps,
    legend_below,
    mark_level,
    matplotlib_part,
)

#: Factor on the measured width of a label: hinting makes text wider at other resolutions.
LABEL_WIDTH_FACTOR = 1.08
#: Font size of the labels, in points.
LABEL_SIZE_PT = 7.5
#: Places of a name: its distance in points to the right or left of its mark, and in its own heights above it.
NEAR_PLACES = tuple((6.0, heights) for heights in (0.0, 0.5, -0.5, 0.9, -0.9))
#: Places of a name from which a line leads to its mark. Without the line it could be read as that of another point.
LED_PLACES = tuple((14.0, heights) for heights in (2.0, -2.0, 3.5, -3.5, 5.0, -5.0))


def place_labels(
    ax: Any, points: NDArray, names: Sequence[str], level: float, beside: Sequence[Any] = (), colour: str = DARK
) -> tuple[list[Any], int]:
    """Write each name right or left of its point, where it covers no point, no name, and not the line at ``level``.

    A name without room there is written further up or down, with a line to its point. Names are placed in order; an
    empty one is skipped. ``beside`` are texts that are there already. Return the texts, and the number of names without
    room. The limits and the layout of the axes must be final.
    """
    renderer = ax.figure._get_renderer() if hasattr(ax.figure, "_get_renderer") else ax.figure.canvas.get_renderer()
    at = ax.transData.transform(points)
    unit = ax.figure.dpi / 72.0
    box = ax.get_window_extent(renderer)
    taken = [(x - 4 * unit, y - 4 * unit, x + 4 * unit, y + 4 * unit) for x, y in at]
    taken += [text.get_window_extent(renderer).extents for text in beside]
    across = float(ax.transData.transform((points[0, 0], level))[1])
    taken.append((box.x0, across - unit, box.x1, across + unit))
    texts: list[Any] = []
    left_out = 0
    for (x, y), point, name in zip(at, points, names, strict=True):
        if not name:
            continue
        text = ax.annotate(
            name, point, textcoords="offset points", xytext=(0, 0), fontsize=LABEL_SIZE_PT, va="center", color=colour
        )
        text.set_zorder(4)
        extent = text.get_window_extent(renderer)
        width, height = LABEL_WIDTH_FACTOR * extent.width, extent.height
        for (away, shift), side in product(NEAR_PLACES + LED_PLACES, (1, -1)):
            middle = y + shift * height
            start = x + away * unit if side > 0 else x - away * unit - width
            block = (start, middle - height / 2, start + width, middle + height / 2)
            inside = box.x0 <= block[0] and block[2] <= box.x1 and box.y0 <= block[1] and block[3] <= box.y1
            if inside and not any(_overlap(block, other) for other in taken):
                offset = (side * away, (middle - y) / unit)
                text.set_position(offset)
                text.set_horizontalalignment("left" if side > 0 else "right")
                if (away, shift) in LED_PLACES:
                    line = {"arrowstyle": "-", "lw": 0.5, "color": "0.6", "shrinkA": 1.0}
                    ax.annotate("", point, textcoords="offset points", xytext=offset, arrowprops=line, zorder=2)
                taken.append(block)
                texts.append(text)
                break
        else:
            text.remove()
            left_out += 1
    return texts, left_out


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return bool(np.min([a[2], b[2]]) > np.max([a[0], b[0]]) and np.min([a[3], b[3]]) > np.max([a[1], b[1]]))


#: Quantities that can be drawn: the fields of a row, for its quartiles too, and the label.
QUANTITIES = {
    "gap": ("raw_gap", "gap_low", "gap_high", "certified relative gap"),
    "excess": ("excess", "excess_low", "excess_high", "excess $(f - f^*)/|f^*|$"),
}
#: The title names at most this many rows without a value.
MAX_NAMED_ROWS = 3

#: For each role: colour, marker, whether the marker is filled, and the name in the legend.
ROLES = {
    "reference": (GREEN, "*", True, "reference"),
    "classical": (BLUE, "o", True, "classical"),
    "quantum": (VERMILION, "D", True, "quantum"),
    "emulated": (ORANGE, "D", False, "emulated"),
    "control": (GREY, "X", True, "control: no circuit"),
}


class ComparisonDisplay:
    """Certified gap, or excess over the reference, against wall time, one mark for each row of `compare`.

    Rows of several seeds are medians with the quartiles of what is drawn as error bars. It shows raw answers, or the
    same answers after the classical refinement, never both, because refinement finds the optimum from any start.
    Repairs are left out, because their problem is another one. The title gives the number of rows without a gap. Lower
    left is better. For sampled rows read the excess, which shots change to second order only.

    Use `from_comparison`, which also draws it.

    Attributes
    ----------
    figure_
    axes_ : array of Axes
        One for each problem; ``ax_`` is the first.
    scatters_ : list of dict
        For each problem the PathCollection of each role.
    bars_ : list of list of ErrorbarContainer
        For each problem the error bars, one for each role with rows of several seeds.
    floors_ : list of PathCollection
        For each problem with sampled rows their shot floors, if the excess is drawn.
    texts_ : list of list of Text
        For each problem the names that had room; those of controls, in grey, are not among them.
    unlabelled_ : list of int
        For each problem the number of names that had no room.
    legend_ : Legend or None

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dualflow import ComparisonDisplay, compare
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [0.5], [2.5]], [0, 0, 1, 1, 0, 1]
    >>> found = compare(X, y, problems="hinge", solvers=["smo", "gradient-flow"])
    >>> display = ComparisonDisplay.from_comparison(found, ax=Figure().subplots())
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('wall time / s', 'certified relative gap, raw')
    >>> len(display.scatters_[0]["classical"].get_offsets())
    2
    """

    def __init__(self, sections: Sequence[Any], *, refined: bool = False, y: str = "gap") -> None:
        if y not in QUANTITIES or (refined and y != "gap"):
            known = "gap, with refined=True" if refined else " or ".join(QUANTITIES)
            raise ProblemError(f"y={y!r} must be {known}")
        self.sections, self.refined, self.y = tuple(sections), bool(refined), y

    @classmethod
    def from_comparison(
        cls,
        comparison: Any,
        *,
        problems: str | Sequence[str] | None = None,
        refined: bool = False,
        y: str = "gap",
        ax: Any = None,
        **options: Any,
    ) -> ComparisonDisplay:
        """Draw a `Comparison`.

        Parameters
        ----------
        comparison : Comparison
        problems : str or sequence of str, optional
            The problems to draw; all by default.
        refined : bool
            Draw the gaps after refinement, and include its time.
        y : {"gap", "excess"}
            What is drawn: the certified gap, or the raw answer's excess over the reference.
        ax, **options
            As for `plot`.

        Raises
        ------
        ProblemError
            ``comparison`` is of another type, or lacks a problem; or ``y`` is not known, or not after refinement.
        """
        sections = getattr(comparison, "sections", None)
        if sections is None:
            raise ProblemError(f"comparison must be what dualflow.compare returns, found {type(comparison).__name__}")
        if problems is not None:
            requested = [problems] if isinstance(problems, str) else list(problems)
            known = {section.problem: section for section in sections}
            if unknown := [name for name in requested if name not in known]:
                raise ProblemError(f"problems={unknown[0]!r} is not in this comparison: {', '.join(known)}")
            sections = [known[name] for name in requested]
        if not sections:
            raise ProblemError("the comparison has no section to draw")
        return cls(sections, refined=refined, y=y).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, labels: bool = True, legend: bool = True, **scatter_kwargs: Any
    ) -> ComparisonDisplay:
        """Draw the comparison.

        Parameters
        ----------
        ax : Axes or sequence of Axes, optional
            One for each problem, or a single one, which is divided. A new figure by default.
        labels : bool
            Write names beside the marks, those of controls in grey where there is room. The title gives the number of
            other names without room.
        legend : bool
            Show the roles below the last axes.
        **scatter_kwargs
            Passed to ``Axes.scatter`` for the marks.

        Raises
        ------
        ProblemError
            ``ax`` does not fit the number of problems.
        SolverUnavailable
            matplotlib is not installed; the message has the pip line.
        """
        count = len(self.sections)
        self.figure_, self.axes_ = axes_for(ax, count, 1, (7.0, 0.6 + 3.4 * count))
        self.ax_ = self.axes_[0]
        self.scatters_: list[dict[str, Any]] = []
        self.bars_: list[list[Any]] = []
        self.floors_: list[Any] = []
        self.texts_: list[list[Any]] = []
        self.unlabelled_: list[int] = []
        drawn = [
            self._section(place, section, scatter_kwargs)
            for place, section in zip(self.axes_, self.sections, strict=True)
        ]
        present = [role for role in ROLES if any(role in found for found in self.scatters_)]
        line = matplotlib_part("lines").Line2D
        handles = [
            line([], [], color=colour, marker=mark, linestyle="", fillstyle="full" if filled else "none", label=name)
            for colour, mark, filled, name in (ROLES[role] for role in present)
        ]
        if self.floors_:
            handles.append(
                line([], [], color=DARK, marker="_", linestyle="", label="shot floor, at the time of its row")
            )
        self.legend_ = legend_below(self.axes_[-1], handles) if legend and handles else None
        if labels:
            whole = self.figure_ if hasattr(self.figure_, "draw_without_rendering") else self.figure_.figure
            whole.draw_without_rendering()  # fixes the layout, on which the room for names depends
            for place, section, (points, names, controls) in zip(self.axes_, self.sections, drawn, strict=True):
                level = section.tol
                texts, without = place_labels(place, points, names, level) if len(points) else ([], 0)
                if len(points):
                    place_labels(place, points, controls, level, texts, GREY)
                self.texts_.append(texts)
                self.unlabelled_.append(without)
                if without:
                    place.set_title(f"{place.get_title()}; no room for {without} names", fontsize="small")
        return self

    def _section(self, ax: Any, section: Any, style: dict[str, Any]) -> tuple[NDArray, list[str], list[str]]:
        """Draw one problem; return its points, the names of rows, and those of controls, empty for other rows."""
        rows = [row for row in section.rows if row.role in ROLES]
        shown = [(row, *self._measured(row)) for row in rows]
        shown = [(row, time, gap) for row, time, gap in shown if time > 0 and math.isfinite(gap)]
        self.scatters_.append(self._draw_points(ax, shown, style))
        self.bars_.append(self._draw_bars(ax, [row for row, _, _ in shown]))
        self._write_titles(ax, section, rows, [row for row, _, _ in shown])
        if not shown:
            ax.text(0.5, 0.5, "no row has a certified gap", transform=ax.transAxes, ha="center", va="center")
            ax.set(xticks=[], yticks=[])
            return np.empty((0, 2)), [], []
        ax.set(xscale="log", yscale="log")
        if self.y == "gap":
            mark_level(ax, section.tol, "tol")
        floors = [
            (row.wall_time_s, row.excess_floor, ROLES[row.role][0])
            for row, _, _ in shown
            if row.excess_floor and row.role != "control"
        ]
        if floors and self.y == "excess":
            x, y, colours = zip(*floors, strict=True)
            self.floors_.append(ax.scatter(x, y, marker="_", s=60, c=colours, linewidths=1.5, zorder=2))
        ax.margins(0.12, 0.1)
        # Names are placed by rank, as there may not be room for all; those of controls after all others.
        shown.sort(key=lambda one: (one[0].rank is None, one[0].rank or 0))
        points = np.array([(time, gap) for _, time, gap in shown])
        points[:, 1] = drawn_gaps(points[:, 1])
        return points, *_names_of([row for row, _, _ in shown])

    def _draw_points(self, ax: Any, shown: list[Any], style: dict[str, Any]) -> dict[str, Any]:
        """Draw a point for each of the ``shown`` (row, time, gap); return the points by role."""
        found: dict[str, Any] = {}
        for role, (colour, marker, filled, _) in ROLES.items():
            mine = np.array([(time, gap) for row, time, gap in shown if row.role == role]).reshape(-1, 2)
            if len(mine):
                own: dict[str, Any] = {
                    "facecolors": colour if filled else "none",
                    "edgecolors": colour,
                    "marker": marker,
                    "s": 34,
                    "zorder": 3,
                }
                found[role] = ax.scatter(mine[:, 0], drawn_gaps(mine[:, 1]), **own | style)
        return found

    def _draw_bars(self, ax: Any, rows: list[Any]) -> list[Any]:
        """Draw the quartiles of rows with several seeds; a refined gap has none: its runs end at round-off."""
        if self.refined:
            return []
        value, lowest, highest, _ = QUANTITIES[self.y]
        bars = []
        for role, (colour, *_) in ROLES.items():
            banded = [row for row in rows if row.role == role and getattr(row, lowest) is not None]
            if banded:
                times, gaps, low, high = np.array(
                    [[row.wall_time_s, *(getattr(row, name) for name in (value, lowest, highest))] for row in banded]
                ).T
                gaps, low, high = drawn_gaps(gaps), drawn_gaps(low), drawn_gaps(high)
                bars.append(
                    ax.errorbar(times, gaps, [gaps - low, high - gaps], fmt="none", ecolor=colour, capsize=2, zorder=2)
                )
        return bars

    def _write_titles(self, ax: Any, section: Any, rows: list[Any], shown: list[Any]) -> None:
        """Write the title and the names of the axes; the title names rows without a gap."""
        left = [_name(row) for row in rows if all(row is not one for one in shown)]
        missing = f"; {len(left)} row{'' if len(left) == 1 else 's'} without a gap{_listed(left)}" if left else ""
        what, time = ("after refinement", "wall time with refinement / s") if self.refined else ("raw", "wall time / s")
        ax.set(xlabel=time, ylabel=f"{QUANTITIES[self.y][3]}, {what}")
        seeds = max((row.seeds for row in shown), default=1)
        median = f"; median and quartiles of {seeds} seeds" if self.bars_[-1] else ""
        ax.set_title(f"{section.title}\nn = {section.n}{missing}{median}", fontsize="small")

    def _measured(self, row: Any) -> tuple[float, float]:
        gap = row.refined_gap if self.refined else getattr(row, QUANTITIES[self.y][0])
        time = row.wall_time_s
        if gap is None or time is None:
            return 0.0, math.nan
        return time + (row.refine_time_s or 0.0 if self.refined else 0.0), gap


def _names_of(rows: list[Any]) -> tuple[list[str], list[str]]:
    """Return the names of rows, empty for controls, and those of controls, empty for other rows."""
    several = len({row.solver for row in rows if row.role == "control"}) > 1
    names = ["" if row.role == "control" else _name(row) for row in rows]
    controls = [_control(row) + f" of {row.solver}" * several if row.role == "control" else "" for row in rows]
    return names, controls


def _control(row: Any) -> str:
    return str(row.variant.removeprefix("control: ").removeprefix("control:"))


def _listed(names: list[str]) -> str:
    """Return names in parentheses, or nothing if there are too many."""
    return f" ({', '.join(names)})" if len(names) <= MAX_NAMED_ROWS else ""


def _name(row: Any) -> str:
    name = row.solver if row.device is None else f"{row.solver}, {row.variant.removeprefix('control: ')}"
    return name + {"TIME_LIMIT": " (time limit)", "NOT RUN": " (not run)"}.get(row.status, "")
