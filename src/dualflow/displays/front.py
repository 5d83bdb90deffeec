"""Plot a Pareto front: error against ‖w‖², the region below the certified bound, and the picked point."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..exceptions import ProblemError
from ._axes import BLUE, DARK, GREY, VERMILION, axes_for, decades, legend_below


def draw_front(front: Any, ax: Any = None, picked: Any = None) -> Any:
    """Draw the plot that `ParetoFront.plot` describes, and return its axes."""
    if picked is not None and not all(hasattr(picked, name) for name in ("squared_norm", "error", "C")):
        raise ProblemError(f"picked must be a point of the front, from pick(), found {type(picked).__name__}")
    _, (ax,) = axes_for(ax, 1, 1, (6.0, 4.6))
    norms, errors = front.criteria.T
    positive = norms[norms > 0]
    if len(positive) and len(positive) == len(norms):
        ax.set_xscale("log")
    elif len(positive):
        ax.set_xscale("symlog", linthresh=float(positive.min()))
        ax.set_xticks([0.0, *decades(float(positive.min()), float(positive.max()))])
    handles = []
    if front.errors == "hinge":
        # Mixtures lie on straight lines, which are curves on a logarithmic axis.
        fine = np.interp(np.arange(0, len(norms) - 1 + 1e-9, 0.05), np.arange(len(norms)), norms)
        handles += ax.plot(fine, np.interp(fine, norms, errors), color=BLUE, label="mixtures of neighbours")
        handles += ax.plot(norms, errors, "o", markersize=3, color=BLUE, label="points")
    else:
        handles += ax.step(norms, errors, "o-", where="post", markersize=3, color=BLUE, label="points")
    if front.weights is not None and len(positive):
        grid = np.geomspace(positive.min(), norms.max(), 400)
        bound = front.lower_bound(grid)
        handles.append(ax.fill_between(grid, 0.0, bound, color=GREY, alpha=0.25, lw=0, label="certified: out of reach"))
    if picked is not None:
        label = "picked" if picked.C is None else f"picked: C = {picked.C:.3g}"
        style = {"markersize": 13, "color": VERMILION, "markeredgecolor": DARK, "zorder": 4, "linestyle": ""}
        handles += ax.plot([picked.squared_norm], [picked.error], marker="*", label=label, **style)
    ax.set_xlabel("‖w‖² = 1/margin²")
    ax.set_ylabel("Σξ on the training data" if front.errors == "hinge" else "training points with y f(x) < 1")
    legend_below(ax, handles)
    return ax
