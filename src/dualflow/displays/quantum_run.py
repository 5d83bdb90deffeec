"""Plot the convergence of a run on circuits: excess against steps, with the shot floor and the controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..exceptions import ProblemError
from ._axes import BLUE, DARK, axes_for, control_style, drawn_gaps, legend_below, matplotlib_part

#: Most hollow markers on the line of a control.
MAX_CONTROL_MARKERS = 12
#: Runs with more states are drawn without markers.
MAX_MARKED_STATES = 60


class QuantumRunDisplay:
    """Excess over the best known objective after each step, the running shot floor, and controls in grey.

    The states are raw, never refined. The floor is the excess that the optimum itself has if it is measured with the
    shots that the run has spent so far: a run that ends near it is limited by its shots. It is no bound: a solver that
    reads α in shrinking boxes, averages over its circuits or uses f itself in classical steps can end far below it. A
    run that ends where its controls end shows nothing about its circuits. A control with the very states of the run is
    drawn on it, with open markers. Use `from_solution`, which also draws it.

    Attributes
    ----------
    figure_ : Figure
    ax_ : Axes
    line_ : Line2D
        Of the run.
    controls_ : dict
        The line of each control by its device.
    floor_ : Line2D or None
        None without shots.
    legend_ : Legend

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dualflow import Gram, QuantumRunDisplay, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> options = {"shots": 1000, "random_state": 0, "trajectory": True}
    >>> run = solve(problem, "variational-flow", device="emulator", **options)
    >>> null = solve(problem, "variational-flow", device="null", **options)
    >>> display = QuantumRunDisplay.from_solution(run, controls=[null], ax=Figure().subplots())
    >>> list(display.controls_), len(display.line_.get_ydata()) == run.cost.steps + 1
    (['null'], True)
    """

    def __init__(self, solution: Any, *, controls: Sequence[Any] = (), reference: Any = None) -> None:
        self.solution, self.controls, self.reference = solution, tuple(controls), reference

    @classmethod
    def from_solution(
        cls, solution: Any, *, controls: Sequence[Any] = (), reference: Any = None, ax: Any = None, **line_kwargs: Any
    ) -> QuantumRunDisplay:
        """Draw a `Solution`.

        Parameters
        ----------
        solution : Solution
            Of ``solve(…, trajectory=True)`` on circuits.
        controls : sequence of Solution
            The same solve with ``device="null"``, "control:random" or "classical-sampler".
        reference : Solution, optional
            Gives the best known objective; by default the refined answer, or else that of a classical solve.
        ax : Axes, optional
            A new figure by default.
        **line_kwargs
            Passed to the line of the run.

        Raises
        ------
        ProblemError
            A solution has no trajectory, ran no circuits, or is of another problem.
        SolverUnavailable
            matplotlib is not installed; the message has the pip line.
        """
        return cls(solution, controls=controls, reference=reference).plot(ax, **line_kwargs)

    def plot(self, ax: Any = None, **line_kwargs: Any) -> QuantumRunDisplay:
        """Draw the run; parameters and errors are those of `from_solution`."""
        for k, one in enumerate((self.solution, *self.controls)):
            if not getattr(one, "ran_circuits", False):
                what = f"controls[{k - 1}]" if k else "solution"
                raise ProblemError(f"{what} must be the Solution of a run on circuits, found {_found(one)}")
        reference = self.reference
        if reference is None and not self.solution.refined and self.solution.solve_classically is not None:
            reference = self.solution.solve_classically(self.solution.problem)
        reference = self.solution if reference is None else reference  # refined, or convergence says what is missing
        excess, _ = self.solution.convergence(reference)
        beside = [(one.provenance["device"], one.convergence(reference)[0]) for one in self.controls]
        self.figure_, places = axes_for(ax, 1, 1, (6.4, 3.8))
        self.ax_ = places[0]
        self.controls_: dict[str, Any] = {}
        for k, (device, values) in enumerate(beside):
            every = max(1, -(-len(values) // MAX_CONTROL_MARKERS))
            style = control_style(k) | {"label": device, "markevery": (k % every, every)}
            if np.array_equal(values, excess):
                style["label"] = f"{device}, the same states as {self.solution.provenance['device']}"
            self.controls_[device] = self.ax_.plot(np.arange(len(values)), drawn_gaps(values), **style)[0]
        cost, provenance = self.solution.cost, self.solution.provenance
        own = {"color": BLUE, "label": f"{provenance['solver']}, {provenance['device']}", "zorder": 3}
        own |= {"marker": ".", "markersize": 5} if len(excess) <= MAX_MARKED_STATES else {}
        self.line_ = self.ax_.plot(np.arange(len(excess)), drawn_gaps(excess), **own | line_kwargs)[0]
        floor = self.solution.running_floor(reference)
        drawn = np.isfinite(floor) & (floor > 0)
        style = {
            "color": DARK,
            "linestyle": "--",
            "linewidth": 1.0,
            "label": "shot floor of the shots so far, a scale and no bound",
        }
        self.floor_ = self.ax_.plot(np.flatnonzero(drawn), floor[drawn], **style)[0] if drawn.any() else None
        self.ax_.set(xlabel="step", ylabel="excess $(f - f^*)/|f^*|$, raw", yscale="log")
        self.ax_.xaxis.set_major_locator(matplotlib_part("ticker").MaxNLocator("auto", integer=True))
        shots = f"{cost.shots:,} shots" if cost.shots else "exact distributions"
        ended = self.solution.raw_status.name.replace("_", " ").lower()
        title = f"n = {self.solution.problem.n}, {cost.qubits} qubits, {cost.circuits:,} circuits, {shots}: {ended}"
        self.ax_.set_title(title, fontsize="small")
        floors = [] if self.floor_ is None else [self.floor_]
        self.legend_ = legend_below(self.ax_, [self.line_, *floors, *self.controls_.values()])
        return self


def _found(one: Any) -> str:
    """Return what a solution was found to be, for an error."""
    provenance = getattr(one, "provenance", None)
    return f"one of {provenance['solver']!r}" if isinstance(provenance, dict) else type(one).__name__
