"""README's picture, from one run: `python docs/picture.py` writes docs/picture.svg, the same bytes every time.

The Lotka-Volterra flow on two moons, followed by a library's integrator; nothing in it is drawn by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from dualflow import Gram, Solution, problems, solve

PICTURE = Path(__file__).with_name("picture.svg")
BLUE, ORANGE, GREY = "#1f5fa8", "#c2410c", "#9a9da3"
STYLE = {"svg.hashsalt": "dualflow", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False}
STYLE |= {"axes.spines.right": False, "axes.titlesize": 10, "font.family": "sans-serif"}


def run() -> tuple[Any, Any, Solution]:
    """Points, labels of ±1, and the flow's run."""
    X, t = make_moons(60, noise=0.15, random_state=0)
    y = 2.0 * t - 1
    problem = problems.svc(Gram(X, gamma=1.0), y, C=10.0)
    return (
        X,
        y,
        solve(
            problem,
            "lotka-volterra",
            integrator="LSODA",
            time_step=0.5,
            t_end=400.0,
            max_steps=800,
            trajectory=True,
            refine=True,
        ),
    )


def draw(X: Any, y: Any, solution: Solution) -> Figure:
    """Three panels: the flow, what is certified on the way, and what it comes to."""
    path = solution.trajectory
    assert path is not None
    alive = solution.alpha > 0  # at the optimum, to which the last state is refined
    assert set(np.argsort(-solution.raw_alpha)[: alive.sum()]) == set(np.flatnonzero(alive))
    figure = Figure(figsize=(9, 2.9), layout="constrained", facecolor="white")
    flow, gap, plane = figure.subplots(1, 3)
    for k in np.argsort(alive):
        flow.plot(path.t, path.alpha[:, k], color=BLUE if alive[k] else GREY, lw=1.1 if alive[k] else 0.6)
    flow.set(xscale="log", xlabel="time t of the flow dα/dt", ylabel="weight α of each point")
    for colour, words in ((BLUE, "survives"), (GREY, "dies out")):
        flow.plot([], [], color=colour, label=words)
    flow.legend(frameon=False, loc="upper left", fontsize=8)
    flow.set_title(f"{alive.sum()} points survive, {(~alive).sum()} die out", loc="left")
    gap.plot(path.t, path.gap, color=BLUE)
    gap.set(xscale="log", yscale="log", xlabel="time t of the flow dα/dt", ylabel="relative duality gap")
    gap.set_title(f"certified on the way, to {path.gap[-1]:.0e}", loc="left")
    u, v = np.meshgrid(np.linspace(-1.7, 2.7, 90), np.linspace(-1.3, 1.8, 70))
    grid = np.column_stack([u.ravel(), v.ravel()])
    values = np.exp(-((grid[:, None] - X) ** 2).sum(axis=2)) @ (y * solution.raw_alpha) + solution.raw_certificate.bias
    plane.contour(u, v, values.reshape(u.shape), levels=[-1, 0, 1], colors="k", linewidths=[0.6, 1.2, 0.6])
    for sign, colour in ((-1, BLUE), (1, ORANGE)):
        plane.scatter(*X[(y == sign) & ~alive].T, s=9, color=colour, alpha=0.5, linewidths=0)
        plane.scatter(*X[(y == sign) & alive].T, s=42, color=colour)
    for words, colour, size in (("one class", BLUE, 42), ("the other", ORANGE, 42), ("dies out", GREY, 9)):
        plane.scatter([], [], s=size, color=colour, label=words, linewidths=0)
    plane.plot([], [], color="k", lw=1.2, label="boundary")
    plane.plot([], [], color="k", lw=0.6, label="margin")
    plane.set(xticks=[], yticks=[], ylim=(-2.35, 1.8))
    plane.legend(frameon=False, loc="lower center", ncols=3, fontsize=7, columnspacing=1, handletextpad=0.4)
    plane.set_title("survivors are the support vectors", loc="left")
    return figure


if __name__ == "__main__":
    with matplotlib.rc_context(STYLE):
        draw(*run()).savefig(PICTURE, metadata={"Date": None, "Title": "The Lotka-Volterra flow on two moons"})
