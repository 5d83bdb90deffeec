"""Plot a scaling study: gap and excess against shots, noise, depth or qubits, with bands, floors and controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..exceptions import ProblemError, did_you_mean
from ._axes import COLOURS, DARK, GREY, MARKERS, axes_for, control_style, drawn_gaps, legend_below, matplotlib_part

#: Quantities that can be drawn, with their labels.
QUANTITIES = {"gap": "certified relative gap, raw", "excess": "excess $(f - f^*)/|f^*|$"}
#: Labels of the columns that can be on the x axis.
LABELS = {
    "shots": "shots a circuit",
    "total_shots": "shots a run",
    "circuits": "circuits a run",
    "noise": "depolarising probability of a gate",
    "n": "variables n",
    "qubits": "qubits",
    "depth": "depth of the largest circuit",
    "two_qubit_gates": "two-qubit gates of the largest circuit",
}
#: Columns that say which circuit ran: a control, which runs none, is drawn at the circuit whose place it takes.
OF_CIRCUIT = ("qubits", "depth", "two_qubit_gates")
#: If the last value is at least this many times the first, the x axis is logarithmic.
MIN_LOG_RATIO = 8.0
#: Least distance of two labelled ticks, as a share of the width of the axes.
MIN_TICK_DISTANCE = 0.055
#: Width of the part from 0 to the first value above it, decades.
ZERO_DECADES = 0.4
#: Empty space beside the first and the last value of such an axis, as a share of the width.
MARGIN = 0.08
#: Ends of grey lines within this factor share their text: one line of text is about that high.
SAME_HEIGHT = 3.0
#: Size of one panel, inches: the width of a column of two in a journal is about half of it.
PANEL = (6.4, 3.6)


class ScalingDisplay:
    """Medians with a band of quartiles, the shot floor as a dashed line, and controls in grey.

    Use `from_study`, which also draws it. ``figure_.savefig("scaling.pdf")`` writes vectors for a paper.

    Attributes
    ----------
    figure_ : Figure
    axes_ : array of Axes
        One for each quantity; ``ax_`` is the first.
    lines_ : list of dict
        For each quantity the median's line by its label.
    bands_ : list of dict
        For each quantity the band by the same label.
    floors_ : list of list of lines
        For each quantity the dashed lines of shot floors.
    legend_ : Legend

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dualflow import Gram, ScalingDisplay, problems, scaling_study
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> study = scaling_study(problem, "variational-flow", device="emulator", shots=[100, 1000], seeds=2)
    >>> display = ScalingDisplay.from_study(study, ax=Figure().subplots(2, 1))
    >>> list(display.lines_[0])
    ['variational-flow', 'null', 'control:random', 'classical-sampler']
    """

    figure_: Any
    axes_: Any
    ax_: Any
    lines_: list[dict[str, Any]]
    bands_: list[dict[str, Any]]
    floors_: list[list[Any]]
    legend_: Any

    def __init__(self, study: Any, x: str, y: Sequence[str]) -> None:
        self.study, self.x, self.y = study, x, tuple(y)

    @classmethod
    def from_study(
        cls, study: Any, *, x: str | None = None, y: str | Sequence[str] = ("gap", "excess"), ax: Any = None
    ) -> ScalingDisplay:
        """Draw a `ScalingStudy`.

        Parameters
        ----------
        study : ScalingStudy
        x : str, optional
            Column of the x axis, such as "shots", "total_shots", "noise", "n", "qubits", "depth", "two_qubit_gates" or
            an option in ``vary``. By default the last axis of the study with several values. Each combination of the
            other axes is a line of its own.
        y : {"gap", "excess"} or both
            One panel for each.
        ax : Axes, or one for each quantity, optional
            A new figure by default.

        Raises
        ------
        ProblemError
            The study has no such column, or no point with a value.
        SolverUnavailable
            matplotlib is not installed; the message has the pip line.
        """
        if not hasattr(study, "points") or not hasattr(study, "axes"):
            raise ProblemError(f"study must be what dualflow.scaling_study returns, found {type(study).__name__}")
        own = [point for point in study.points if point.role == "quantum" and not np.isnan(point.gap)]
        if not own:
            raise ProblemError("no point of the study has a certified gap to draw; its reasons are in the table")
        x = x or (study.axes[-1] if study.axes else "n")
        known = [*LABELS, *own[0].varied]
        if x not in known:
            raise ProblemError(f"x={x!r} is not one of {', '.join(known)}{did_you_mean(str(x), known)}")
        chosen = [y] if isinstance(y, str) else list(y)
        for name in chosen:
            if name not in QUANTITIES:
                raise ProblemError(f"y={name!r} is not one of {', '.join(QUANTITIES)}")
        display = cls(study, x, chosen)
        count = len(chosen)
        display.figure_, display.axes_ = axes_for(ax, count, 1, (PANEL[0], PANEL[1] * count))
        display.ax_ = display.axes_[0]
        display.lines_, display.bands_, display.floors_ = [], [], []
        for axes, name in zip(display.axes_, chosen, strict=True):
            display._panel(axes, name)
        display.ax_.set_title(display._title(own), fontsize="small")
        handles = list(display.lines_[-1].values())
        if floors := display.floors_[-1]:
            common = any(floor.get_color() == DARK for floor in floors)
            text = "floor of all shots of a run" + ("" if common else ", in the colour of its line")
            handles.append(matplotlib_part("lines").Line2D([], [], color=DARK, linestyle="--", label=text))
        display.legend_ = legend_below(display.axes_[-1], handles)
        return display

    def _panel(self, axes: Any, name: str) -> None:
        """Draw one quantity."""
        lines: dict[str, Any] = {}
        bands: dict[str, Any] = {}
        points = self.study.points
        if "shots" in self.x:  # exact distributions have no place on this axis
            points = [point for point in points if point.shots is not None]
        own = _by_label([p for p in points if p.role == "quantum"], self._label)
        controls = _by_label([p for p in points if p.role == "control"], lambda point: point.device)
        for k, (label, group) in enumerate(own.items()):
            colour = COLOURS[k % len(COLOURS)]
            style = {"color": colour, "marker": MARKERS[k % len(MARKERS)], "markersize": 4, "label": label, "zorder": 3}
            x, middle, low, high, _ = self._columns(group, name)
            lines[label] = axes.plot(x, middle, **style)[0]
            bands[label] = axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        floors = self._floors(axes, own, name)
        places = [_number(point.value(self.x)) for point in points if point.role == "quantum"]
        ends: list[tuple[float, str]] = []
        for k, (label, group) in enumerate(controls.items()):
            style = control_style(k)
            parts = _by_label(group, self._label)
            heights = []
            for part in parts.values():  # one grey line for each line of the solver
                x, middle, low, high, _ = self._columns(part, name)
                text, more = label, {}
                if len(x) == 1 and len(set(places)) > 1:  # a control has no gates, and is measured without noise only
                    text = f"{label} (measured at {self.x} = {x[0]:g})"
                    axes.vlines(x, low, high, color=GREY, linewidth=1.2)
                    x, middle = np.array([min(places), max(places)]), np.repeat(middle, 2)
                    low, high, more = middle, middle, {"markevery": [0], "linewidth": 0.6}
                heights.append(middle[-1])
                line = axes.plot(x, middle, label="_" if label in lines else text, **style | more)[0]
                band = axes.fill_between(x, low, high, color=GREY, alpha=0.12, linewidth=0)
                lines.setdefault(label, line)
                bands.setdefault(label, band)
            if len(parts) > 1:
                values = [whole.removeprefix(f"{self.study.solver}, ") for whole in parts]
                ends += _ends(label, heights, [f"{label}, {value}" for value in values])
        axes.set(xlabel=LABELS.get(self.x, self.x), ylabel=QUANTITIES[name], yscale="log")
        self._scale(axes, places)
        _name_ends(axes, ends)
        self.lines_.append(lines)
        self.bands_.append(bands)
        self.floors_.append(floors)

    def _title(self, own: list[Any]) -> str:
        """Return solver, size and circuits of the quantum points, and the number of runs."""
        parts = [self.study.solver]
        for name, unit in (("n", "n = {}"), ("qubits", "{} qubits"), ("circuits", "{} circuits a run")):
            low, high = (pick(float(point.value(name)) for point in own) for pick in (min, max))
            text = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
            parts.append(unit.format(text))
        shots, noises = {point.shots for point in own}, {point.noise for point in own}
        if len(shots) == 1 and "shots" not in self.x:
            [count] = shots
            parts.append("exact distributions" if count is None else f"{count:,} shots a circuit")
        if len(noises) == 1 and self.x != "noise" and (noise := noises.pop()):
            parts.append(f"noise {noise:g}")
        runs = max(point.seeds for point in own)
        return ", ".join(parts) + "\n" + (f"median and quartiles of {runs} runs" if runs > 1 else "one run a point")

    def _floors(self, axes: Any, own: dict[str, list[Any]], name: str) -> list[Any]:
        """Draw each shot floor once: in its line's colour, or dark if several lines, or the only one, have it."""
        owners: dict[tuple[tuple[float, ...], ...], list[int]] = {}
        for k, group in enumerate(own.values()):
            x, *_, floor = self._columns(group, name)
            if np.isfinite(floor).any():
                owners.setdefault((tuple(x), tuple(floor)), []).append(k)
        drawn = []
        for (x, floor), lines in owners.items():
            common = len(own) == 1 or len(lines) > 1
            colour = DARK if common else COLOURS[lines[0] % len(COLOURS)]
            drawn += axes.plot(x, floor, color=colour, linestyle="--", linewidth=1.0)
        return drawn

    def _scale(self, axes: Any, places: list[float]) -> None:
        """Set the scale of the x axis, logarithmic with a linear part if there is a 0, and ticks at the values."""
        values = sorted(set(places))
        positive = [value for value in values if value > 0]
        if positive and len(positive) < len(values):
            axes.set_xscale("symlog", linthresh=positive[0], linscale=ZERO_DECADES)
        elif positive and positive[-1] >= MIN_LOG_RATIO * positive[0]:
            axes.set_xscale("log")
        axes.margins(x=MARGIN)
        at = axes.get_xaxis().get_transform().transform(np.array(values))
        gap, last, labels = MIN_TICK_DISTANCE * (at[-1] - at[0]), -np.inf, []
        for place, value in zip(at, values, strict=True):
            labels.append(_text(value) if place - last >= gap else "")
            last = place if labels[-1] else last
        axes.minorticks_off()
        axes.set_xticks(values, labels)

    def _label(self, point: Any) -> str:
        """Return the legend's text of a line: the solver, and the values of the axes that are not drawn."""
        names = [name for name in self.study.axes if name != self.x and not (name == "shots" and "shots" in self.x)]
        if self.x in OF_CIRCUIT:  # these follow from n and from the varied options
            names = [name for name in names if name in ("noise", "shots")]
        values = [f"{name} = {_text(point.value(name))}" for name in names]
        return ", ".join([self.study.solver, *values])

    def _columns(self, group: list[Any], name: str) -> tuple[Any, ...]:
        """Return x, median, lower and upper quartile and floor of some points, in the order of x."""
        rows = sorted((_number(self._place(p)), *self._values(p, name)) for p in group)
        x, middle, low, high, floor = np.array(rows, dtype=float).T
        return x, drawn_gaps(middle), drawn_gaps(low), drawn_gaps(high), floor

    def _place(self, point: Any) -> Any:
        """Return the value of a point on the x axis; a control has that of the circuit whose place it takes."""
        if point.role == "control" and self.x in OF_CIRCUIT:
            setting = point.n, point.shots, point.varied
            replaced = (p for p in self.study.points if p.role == "quantum" and (p.n, p.shots, p.varied) == setting)
            return next(replaced, point).value(self.x)
        return point.value(self.x)

    @staticmethod
    def _values(point: Any, name: str) -> tuple[float, ...]:
        return tuple(getattr(point, key) for key in (name, f"{name}_low", f"{name}_high", f"{name}_floor"))


def _by_label(points: list[Any], label: Any) -> dict[str, list[Any]]:
    """Return the points in groups by their labels, in order."""
    found: dict[str, list[Any]] = {}
    for point in points:
        found.setdefault(label(point), []).append(point)
    return found


def _ends(control: str, heights: list[float], texts: list[str]) -> list[tuple[float, str]]:
    """Return the heights and texts of a control's lines: one text, its name, if all of them nearly coincide."""
    if max(heights) < SAME_HEIGHT * min(heights):
        return [(max(heights), control)]
    return list(zip(heights, texts, strict=True))


def _name_ends(axes: Any, ends: list[tuple[float, str]]) -> None:
    """Write beside the right frame which line ends there; texts of lines that nearly coincide are joined."""
    groups: list[list[tuple[float, str]]] = []
    for height, text in sorted(ends):
        if groups and height < groups[-1][0][0] * SAME_HEIGHT:
            groups[-1].append((height, text))
        else:
            groups.append([(height, text)])
    for group in groups:
        height = float(np.sqrt(group[0][0] * group[-1][0])) if len(group) > 1 else group[0][0]
        text = "\n".join(dict.fromkeys(text for _, text in reversed(group)))  # the highest line first
        place = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": "x-small"}
        axes.annotate(text, (1.0, height), xycoords=axes.get_yaxis_transform(), color=GREY, **place)


def _number(value: Any) -> float:
    """Return a value of the x axis as a number; a missing one, such as the noise of a control, is 0."""
    try:
        return 0.0 if value is None else float(value)
    except (TypeError, ValueError):
        raise ProblemError(f"x: {value!r} is not a number, and a line needs numbers; give another column") from None


def _text(value: Any) -> str:
    """Return a value as a label: with separators of thousands, and without a trailing zero."""
    if value is None or isinstance(value, str):
        return "exact" if value is None else value
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:g}"
