"""Plots of papers/bauckhage.py: Figure 1 (a-e), and how fast the flows come to rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lib import replicator
from benchmarks.lib.flow_draws import END, ITERATES, POINTS, SIDE, Flow, moons, square
from benchmarks.lib.plots import saved, subplots
from dualflow import solve


def draw_figure_1(flow: Flow, folder: Path) -> None:
    """(a) data, (b) the flow's μ(t) and (c) its classifier, (d) Frank-Wolfe's iterates and (e) theirs."""
    figure, axes = subplots(1, 5, (20, 4))
    X, y = moons(flow.seed)
    axes[0].scatter(*X.T, c=np.where(y > 0, "C1", "C0"), s=12)
    axes[0].set(title="(a) data")
    times = np.linspace(0, END, 241)
    axes[1].plot(times, replicator.path(flow.hessian, times).mu, lw=0.7)
    axes[1].set(title="(b) gradient flow", xlabel="time t", ylabel="μᵢ")
    run = solve(flow.problem, "frank-wolfe", variant="classic", trajectory=True, tol=1e-12, max_steps=ITERATES)
    axes[3].plot(run.trajectory.t, run.trajectory.alpha, lw=0.7)
    axes[3].set(title="(d) Frank-Wolfe", xlabel="iterate", ylabel="μᵢ")
    for axis, mu, title in ((axes[2], flow.at_twelve, "(c) flow, t = 12"), (axes[4], flow.wolfe, "(e) 200 iterates")):
        classifier(axis, flow, mu, title)
    for axis in (axes[0], axes[2], axes[4]):
        axis.set(xlabel="first feature, standardised", ylabel="second feature", xlim=(-SIDE, SIDE), ylim=(-SIDE, SIDE))
    saved(figure, folder / "bauckhage_figure_1.png")


def classifier(axis: Any, flow: Flow, mu: np.ndarray, title: str) -> None:
    """Its boundary and margins, and the points with weight."""
    X, y = moons(flow.seed)
    grid, line = square(), np.linspace(-SIDE, SIDE, POINTS)
    axis.contour(line, line, flow.decision(mu, grid).reshape(POINTS, POINTS), [-1, 0, 1], colors="k", linewidths=0.8)
    axis.scatter(*X.T, c=np.where(y > 0, "C1", "C0"), s=12)
    axis.scatter(*X[mu > 0].T, s=50, facecolors="none", edgecolors="k", linewidths=0.6)
    axis.set(title=f"{title}: {np.count_nonzero(mu)} with weight")


def draw_rates(flows: dict[str, list[Flow]], folder: Path) -> None:
    """Distance to the rest against time, by kernel, with the predicted slope; spectra on the support beside."""
    figure, axes = subplots(1, 2, (11, 4))
    for number, (kernel, those) in enumerate(flows.items()):
        flow, colour = those[0], f"C{number}"
        distance = np.abs(flow.path.mu - flow.rest).max(axis=1)
        axes[0].loglog(flow.path.times[1:], distance[1:], color=colour, label=kernel)
        late = flow.path.times >= replicator.WINDOW[0] / flow.modes.slowest
        times = flow.path.times[late]
        predicted = distance[late][0] * np.exp(-flow.modes.slowest * (times - times[0]))
        axes[0].loglog(times, predicted, "k:", label="predicted" if number == 0 else None)
        axes[1].semilogy(np.linspace(0, 1, len(flow.modes.inner)), flow.modes.inner, color=colour, label=kernel)
    axes[0].set(xlabel="time t", ylabel="max |μ − μ*|", title="to the rest", ylim=(1e-14, 1))
    axes[1].set(xlabel="rank, as a share of the support", ylabel="eigenvalue of D^½HD^½", title="rates on the support")
    for axis in axes:
        axis.legend(frameon=False)
    saved(figure, folder / "bauckhage_rates.png")
