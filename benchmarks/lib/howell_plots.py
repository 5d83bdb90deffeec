"""Plots of `papers/howell`: figures 2 to 5, 7 and 8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.howell import Stream


def pyplot() -> Any:
    """matplotlib's, which draws to files only."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_curves(axes: Any, T: NDArray, curves: NDArray, label: str, color: str = "C0", name: str = "") -> None:
    """All realisations and their mean."""
    axes.plot(T, curves.T, color=color, linewidth=0.5, alpha=0.3)
    axes.plot(T, curves.mean(axis=0), color=color, linewidth=2, label=name)
    axes.set_xlabel("T, points met")
    axes.set_ylabel(label)


def draw_stream(folder: Path, stream: Stream, curves: dict[str, NDArray], batch: NDArray) -> None:
    """A(T) and N(T) of figures 4 and 5."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for k, label in enumerate(("A(T), test accuracy", "N(T), survivors")):
        for number, (rule, looks) in enumerate(curves.items()):
            draw_curves(axes[k], looks[0, :, 0], looks[:, :, k + 1], label, f"C{number}", rule)
        axes[k].axhline(float(batch[:, k].mean()), color="k", linestyle="--", label="batch")
    axes[0].legend()
    figure.suptitle(stream.name)
    kind = stream.name.split(",")[0] + ("_linear" if "linear" in stream.name else "")
    figure.savefig(folder / f"howell_figure_{stream.figure}_{kind}_{stream.p}d.png", dpi=120)
    plt.close(figure)


def draw_plane(folder: Path, found: dict[str, Any]) -> None:
    """Figure 2: points, survivors, the line and the batch's."""
    (X, y), model, batch = found["data"], found["learner"].model, found["batch_model"]
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
    axes.scatter(*X.T, c=np.where(y > 0, "C2", "C3"), s=8)
    axes.scatter(*model.support_vectors_.T, facecolors="none", edgecolors="k", s=120, label="survivors")
    height = np.linspace(0, 1, 2)
    for machine, style, label in ((model, "-", "EcoSVC"), (batch, "--", "batch SVC")):
        w, b = machine.coef_[0], machine.intercept_[0]
        axes.plot(-(w[1] * height + b) / w[0], height, f"k{style}", label=label)
    axes.legend(loc="upper right")
    axes.set(xlabel="x₁", ylabel="x₂", title="B1 in the plane, hard margin")
    figure.savefig(folder / "howell_figure_2.png", dpi=120)
    plt.close(figure)


def draw_digits(folder: Path, what: str, how: str, curves: dict[str, NDArray], batch: tuple[float, int, int]) -> None:
    """A(T) and active survivors of figure 3, with the paper's figures."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for k, (column, label) in enumerate(((1, "A(T), test accuracy"), (3, "N(T), active survivors"))):
        for number, (rule, looks) in enumerate(curves.items()):
            draw_curves(axes[k], looks[0, :, 0], looks[:, :, column], label, f"C{number}", rule)
    for level in (0.978, 0.971):
        axes[0].axhline(level, color="C3", linestyle=":", label=f"paper {100 * level:.1f} %")
    axes[0].axhline(batch[0], color="k", linestyle="--", label="batch of all")
    axes[1].axhline(100, color="C3", linestyle=":", label="paper, about 100")
    axes[0].set_ylim(0.8, 1.01)
    for one in axes:
        one.legend()
    figure.suptitle(f"{what}, 1 against 4, {how}")
    figure.savefig(folder / f"howell_figure_3_{how.split()[0]}.png", dpi=120)
    plt.close(figure)


def draw_balls(folder: Path, looks: NDArray, radii: NDArray) -> None:
    """R(T) and S(T) of figures 7 and 8."""
    plt = pyplot()
    for number, column, batch, label in ((7, 1, float(radii.mean()), "R(T)"), (8, 2, 1.0, "S(T)")):
        figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
        draw_curves(axes, looks[0, :, 0], looks[:, :, column], label)
        axes.axhline(batch, color="k", linestyle="--", label="batch")
        axes.legend()
        figure.savefig(folder / f"howell_figure_{number}.png", dpi=120)
        plt.close(figure)
