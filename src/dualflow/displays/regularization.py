"""Plot an exact regularization path: α of the points and the number of support vectors against C or ε."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ._axes import BLUE, SIGNS, axes_for

#: Variables whose α is drawn, by default; more lines than this hide each other.
MAX_LINES = 40


class RegularizationPathDisplay:
    """The variables along a path, and the support vectors.

    Use `from_path`, which also draws it.

    Attributes
    ----------
    figure_ : Figure
    axes_ : array of Axes
        α relative to its bound, and the number of support vectors.
    lines_ : list of lines
        One for each variable that is drawn.
    shown_ : array of int
        Indices of these variables: those that change most.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dualflow import SVC, RegularizationPathDisplay, regularization_path
    >>> path = regularization_path(SVC(kernel="linear"), [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], C=(0.1, 10))
    >>> display = RegularizationPathDisplay.from_path(path, ax=Figure().subplots(2, 1))
    >>> [axes.get_ylabel() for axes in display.axes_]
    ['α / bound', 'support vectors']
    """

    figure_: Any
    axes_: Any
    lines_: list[Any]
    shown_: NDArray

    def __init__(self, path: Any) -> None:
        self.path = path

    @classmethod
    def from_path(cls, path: Any, *, ax: Any = None, max_lines: int = MAX_LINES) -> RegularizationPathDisplay:
        """Draw a `RegularizationPath`.

        Parameters
        ----------
        path : RegularizationPath
        ax : Axes, or two of them, optional
        max_lines : int > 0, default=40
            Number of variables that are drawn.

        Raises
        ------
        ProblemError
            ``path`` is of another kind, or ``max_lines`` is not an integer above 0.
        """
        if not hasattr(path, "n_support"):
            raise ProblemError(f"path is {type(path).__name__}; give what regularization_path returns")
        if not (isinstance(max_lines, int) and max_lines > 0):
            raise ProblemError(f"max_lines={max_lines!r} is not an integer ≥ 1")
        display = cls(path)
        display.figure_, display.axes_ = axes_for(ax, 2, 1, (6.4, 5.6))
        values = path.values
        shares = np.array([path.alpha(value) / path.problem(value).upper for value in values])
        change = np.ptp(shares, axis=0)
        display.shown_ = np.sort(np.argsort(-change, kind="stable")[:max_lines])
        sigma, (above, below) = path.problem(values[0]).sigma, display.axes_
        display.lines_ = [
            above.plot(values, shares[:, k], color=SIGNS[int(sigma[k])], lw=0.9)[0] for k in display.shown_
        ]
        below.step(values, path.n_support, where="post", color=BLUE)
        for axes in display.axes_:
            if values[0] > 0:
                axes.set_xscale("log")
            axes.set_xlabel("C" if path.parameter == "C" else "ε")
        above.set_ylabel("α / bound")
        below.set_ylabel("support vectors")
        return display
