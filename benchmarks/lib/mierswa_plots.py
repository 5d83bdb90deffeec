"""Plots of papers/mierswa.py: Table 2 against the paper's figures, the bound (5), Fig. 4's mutation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.mierswa_cells import Cell, Paper
from benchmarks.lib.mierswa_table import METHODS, compared
from benchmarks.lib.plots import saved, subplots


def draw_table(cells: Sequence[Cell], paper: Paper, folder: Path) -> None:
    """Error found against the paper's, a panel a C, a colour a method; nothing without the paper's figures."""
    Cs = list(dict.fromkeys(found.C for found in cells))
    if not paper or not Cs:
        return
    figure, axes = subplots(1, len(Cs), (4.5 * len(Cs), 4.2))
    for axis, C in zip(axes, Cs, strict=True):
        for number, method in enumerate(METHODS):
            pairs = [
                (theirs.error, found.mean(METHODS[method][1]))
                for found in cells
                if found.C == C
                for which, theirs, _ in compared(found, paper)
                if which == method
            ]
            axis.scatter(*zip(*pairs, strict=True), s=18, color=f"C{number}", label=method)
        axis.axline((0, 0), slope=1, color="0.7", lw=0.8)
        axis.set(title=f"C = {C:g}", xlabel="paper's error, %", ylabel="error here (b = 0), %")
    axes[0].legend(frameon=False, fontsize="small")
    saved(figure, folder / "mierswa_table_2.png")


def draw_bound(cells: Sequence[Cell], folder: Path) -> None:
    """The bound (5) against the held-out error, a colour a set, its size by C."""
    figure, axes = subplots(1, 1, (6.5, 4.2))
    for number, name in enumerate(dict.fromkeys(found.name for found in cells)):
        those = [found for found in cells if found.name == name]
        errors, size = [found.mean("b = 0") / 100 for found in those], [30 + 15 * np.log10(c.C) for c in those]
        axes[0].plot(errors, [found.bound for found in those], color=f"C{number}", lw=0.6)
        axes[0].scatter(errors, [found.bound for found in those], s=np.add(size, 15), color=f"C{number}", label=name)
    axes[0].axline((0, 0), slope=1, color="0.7", lw=0.8)
    axes[0].set(xlabel="held-out error, b = 0 (larger marks: larger C)", ylabel="bound (5)", title="equation 5")
    axes[0].legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    saved(figure, folder / "mierswa_bound.png")


def draw_mutation(children: NDArray, folder: Path) -> None:
    """What children of α = 0 become: how many αᵢ change, and their new values in units of C."""
    figure, axes = subplots(1, 2, (9, 3.6))
    changed = (children > 0).sum(axis=1)
    axes[0].hist(changed, bins=np.arange(changed.max() + 2) - 0.5, color="C0", rwidth=0.9)
    axes[0].set(xlabel="αᵢ that change", ylabel="children", title="figure 4: how many")
    axes[1].hist(children[children > 0], bins=20, range=(0, 1), color="C0", rwidth=0.9)
    axes[1].set(xlabel="new αᵢ / C", ylabel="αᵢ", title="what they become, from α = 0")
    saved(figure, folder / "mierswa_figure_4.png")
