"""Plot the trajectory of a solve: weights, survivors, objective and certified gap against the time of the flow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError, did_you_mean
from ._axes import (
    BLUE,
    LEAST_GAP,
    SIGNS,
    axes_for,
    decades,
    drawn_gaps,
    legend_above,
    mark_level,
    matplotlib_part,
    say_level,
    titled,
)

#: The quantities that can be drawn, one in each panel.
QUANTITIES = ("alpha", "survivors", "objective", "gap")
#: The time axis is logarithmic above this ratio of last to first time: implicit steps grow by 10 and more at each step.
LOG_TIME_RATIO = 1e3
#: The objective's axis is logarithmic above this ratio of the range to the final value.
LOG_OBJECTIVE_RATIO = 20.0
#: Variables up to which the largest are drawn. Of more, a sample of all is drawn: those at the upper bound alone would
#: fill the panel.
MAX_N_LARGEST = 5000
#: Trajectories with more states are drawn without markers.
MAX_MARKED_STATES = 40


class TrajectoryDisplay:
    """The states of a solve, which are raw, never refined.

    Use `from_solution` or `from_trajectory`, which also draw it.

    Parameters
    ----------
    trajectory : Trajectory
    signs : array of shape (n,), optional
        Classes of the variables, ±1, drawn in two colours.
    names : tuple of str
        Names of the variables with sign −1 and +1.
    tol : float, optional
        Tolerance, drawn as a line in the panel of gaps.
    title : str, optional
        Title of a new figure.

    Attributes
    ----------
    figure_ : Figure
    axes_ : array of Axes
        In the order of the quantities; ``ax_`` is the first.
    lines_ : dict
        For each quantity the list of its lines.
    shown_ : array of int
        Indices of the variables whose α is drawn.
    text_ : Text or None
        Text in place of gaps if none is certified.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dualflow import Gram, TrajectoryDisplay, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "lotka-volterra", trajectory=True)
    >>> display = TrajectoryDisplay.from_solution(solution, ax=Figure().subplots(2, 2))
    >>> [ax.get_ylabel() for ax in display.axes_]
    ['raw weight α', 'survivors', 'objective f(α)', 'certified relative gap']
    >>> bool((display.lines_["survivors"][0].get_ydata() == solution.trajectory.survivors).all())
    True
    """

    def __init__(
        self,
        trajectory: Any,
        *,
        signs: NDArray | None = None,
        names: tuple[str, str] = ("class −1", "class +1"),
        tol: float | None = None,
        title: str | None = None,
    ) -> None:
        self.trajectory, self.signs, self.names, self.tol, self.title = trajectory, signs, names, tol, title

    @classmethod
    def from_solution(cls, solution: Any, *, ax: Any = None, **options: Any) -> TrajectoryDisplay:
        """Draw the trajectory of a `Solution`, with its classes in two colours and its tolerance.

        Parameters
        ----------
        solution : Solution
            Of ``solve(…, trajectory=True)``.
        ax, **options
            As for `plot`.

        Raises
        ------
        ProblemError
            The solution has no trajectory.
        """
        path = getattr(solution, "trajectory", None)
        if path is None:
            raise ProblemError(f"{type(solution).__name__} has no trajectory; solve with trajectory=True")
        problem = solution.problem
        signs = problem.sigma if problem.reading.signed else None
        solver = solution.provenance.get("solver", "solver")
        ended = solution.raw_status.name.replace("_", " ").lower()
        title = f"{solver}, n = {problem.n}: {ended} ({len(path.t) - 1} steps)"
        title = titled(title, [solution.raw_summary()] if solution.refined and solution.ran_circuits else [])
        return cls(path, signs=signs, tol=solution.tol, title=title).plot(ax, **options)

    @classmethod
    def from_trajectory(cls, trajectory: Any, *, ax: Any = None, **options: Any) -> TrajectoryDisplay:
        """Draw a `Trajectory`, as `Trajectory.plot` does, without classes and tolerance."""
        return cls(trajectory).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, quantities: str | Sequence[str] = QUANTITIES, max_lines: int = 40, **line_kwargs: Any
    ) -> TrajectoryDisplay:
        """Draw the trajectory.

        Parameters
        ----------
        ax : Axes or sequence of Axes, optional
            One for each quantity, or a single one, which is divided. A new figure by default.
        quantities : sequence of {"alpha", "survivors", "objective", "gap"}
        max_lines : int
            Maximum number of variables that are drawn: those with the largest α at any time; of more than 5000
            variables a sample, evenly from the smallest to the largest final α.
        **line_kwargs
            Passed to the lines of matplotlib.

        Raises
        ------
        ProblemError
            A quantity is unknown, or ``ax`` does not fit their number.
        SolverUnavailable
            matplotlib is not installed; the message has the pip line.
        """
        chosen = (quantities,) if isinstance(quantities, str) else tuple(quantities)
        if unknown := [name for name in chosen if name not in QUANTITIES]:
            known = ", ".join(QUANTITIES)
            raise ProblemError(
                f"quantities={unknown[0]!r} must be one of {known}{did_you_mean(unknown[0], QUANTITIES)}"
            )
        if not chosen:
            raise ProblemError("quantities is empty; name at least one")
        if isinstance(max_lines, bool) or not isinstance(max_lines, int | np.integer) or max_lines < 1:
            raise ProblemError(f"max_lines={max_lines!r} must be a whole number ≥ 1")
        columns = min(2, len(chosen))
        rows = -(-len(chosen) // columns)
        self.figure_, self.axes_ = axes_for(ax, rows, columns, (4.6 * columns, 3.1 * rows), len(chosen))
        self.ax_, self.text_, self.lines_ = self.axes_[0], None, {}
        self.shown_ = self._drawn_variables(int(max_lines))
        if len(self.trajectory.t) <= MAX_MARKED_STATES:
            line_kwargs = {"marker": ".", **line_kwargs}
        for name, place in zip(chosen, self.axes_, strict=True):
            self.lines_[name] = getattr(self, f"_{name}")(place, line_kwargs)
            self._time_axis(place)
        if ax is None and self.title:
            self.figure_.suptitle(self.title, fontsize="medium")
        return self

    # --- one panel each --------------------------------------------------------------------------

    def _alpha(self, ax: Any, style: dict[str, Any]) -> list[Any]:
        path, n = self.trajectory, self.trajectory.alpha.shape[1]
        final = np.abs(path.alpha[-1])
        alive = final > 1e-8 * final.max(initial=0.0)
        lines = []
        for i in self.shown_:
            colour = BLUE if self.signs is None else SIGNS[1 if self.signs[i] > 0 else -1]
            own = {"color": colour, "linewidth": 1.0, "linestyle": "-" if alive[i] else ":"} | style
            lines += ax.plot(path.t, path.alpha[:, i], **own)
        which = "largest" if n <= MAX_N_LARGEST else "sample:"
        few = f", {which} {len(self.shown_)} of {n}" if len(self.shown_) < n else ""
        ax.set_ylabel(f"raw weight α{few}")
        line, handles = matplotlib_part("lines").Line2D, []
        if self.signs is not None:
            for sign, name in zip((-1, 1), self.names, strict=True):
                if (np.sign(self.signs[self.shown_]) == sign).any():
                    handles.append(line([], [], color=SIGNS[sign], label=name))
        for style_, kept, name in (("-", alive, "survives"), (":", ~alive, "dies out")):
            if kept[self.shown_].any():
                handles.append(line([], [], color="0.3", linestyle=style_, label=name))
        legend_above(ax, handles)
        return lines

    def _survivors(self, ax: Any, style: dict[str, Any]) -> list[Any]:
        path = self.trajectory
        lines = ax.plot(path.t, path.survivors, **({"color": BLUE, "drawstyle": "steps-post"} | style))
        ax.set_ylabel("survivors")
        ax.set_ylim(bottom=0, top=1.05 * max(1, int(path.survivors.max())))
        ax.yaxis.set_major_locator(matplotlib_part("ticker").MaxNLocator("auto", integer=True))
        return list(lines)

    def _objective(self, ax: Any, style: dict[str, Any]) -> list[Any]:
        f = self.trajectory.objective
        lines = ax.plot(self.trajectory.t, f, **({"color": BLUE} | style))
        ax.set_ylabel("objective f(α)")
        end = float(f[-1])
        if end and float(np.ptp(f)) > LOG_OBJECTIVE_RATIO * abs(
            end
        ):  # on a linear axis the first values would hide all others
            ax.set_yscale("symlog", linthresh=abs(end))
            ax.set_yticks([0.0, *decades(abs(end), float(f.max()))])
            ax.yaxis.set_minor_locator(matplotlib_part("ticker").NullLocator())
        if math.isfinite(end):
            say_level(ax, end, f"{end:.4g}".replace("-", "−"))
        return list(lines)

    def _gap(self, ax: Any, style: dict[str, Any]) -> list[Any]:
        gap = drawn_gaps(self.trajectory.gap)
        ax.set_ylabel("certified relative gap")
        if np.isnan(gap).all():
            why = "no finite gap is certified:\nthe kernel is indefinite, or not known not to be"
            if np.isinf(self.trajectory.gap).any():
                why = "no finite gap is certified\nof any of these states"
            self.text_ = ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", fontsize="small")
            ax.set_yticks([])
            return []
        lines = ax.plot(self.trajectory.t, gap, **({"color": BLUE} | style))
        ax.set_yscale("log")
        if (gap == LEAST_GAP).any():
            ax.set_ylabel("certified relative gap (0 as 1e-16)")
        if self.tol is not None and self.tol > 0:
            mark_level(ax, self.tol, "tol")
        return list(lines)

    # --- help ------------------------------------------------------------------------------------

    def _drawn_variables(self, count: int) -> NDArray:
        """Return the variables with the largest α at any time, or a sample if there are many; ascending."""
        alpha = self.trajectory.alpha
        n = alpha.shape[1]
        if n > MAX_N_LARGEST:
            order = np.argsort(np.abs(alpha[-1]), kind="stable")
            return np.sort(order[np.linspace(0, n - 1, min(count, n)).astype(np.intp)])
        return np.sort(np.argsort(-np.abs(alpha).max(axis=0), kind="stable")[:count])

    def _time_axis(self, ax: Any) -> None:
        t = self.trajectory.t
        # Times 0, 1, 2, … count steps.
        ax.set_xlabel("step" if np.array_equal(t, np.arange(len(t))) else "flow time t")
        if len(t) > 2 and t[1] > 0 and t[-1] > LOG_TIME_RATIO * t[1]:
            ax.set_xscale("symlog", linthresh=float(t[1]), linscale=0.5)
            ax.set_xticks([0.0, *decades(float(t[1]), float(t[-1]))])
            ax.xaxis.set_minor_locator(matplotlib_part("ticker").NullLocator())
            ax.set_xlim(0.0, 2.0 * float(t[-1]))
        elif len(t) > 1 and ax.get_xlabel() == "step":
            ax.xaxis.set_major_locator(matplotlib_part("ticker").MaxNLocator("auto", integer=True))
