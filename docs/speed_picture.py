"""The figure of the benchmarks page, from kept runs: `python docs/speed_picture.py` writes docs/reference/speed.svg.

Every combination of a data set and a setting is a point: the time of scikit-learn's class over dualflow's, one thread.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

PICTURE = Path(__file__).parent / "reference" / "speed.svg"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "classical"
BLUE, ORANGE = "#1f5fa8", "#c2410c"
STYLE = {"svg.hashsalt": "dualflow", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False}
#: Rows of the figure, as in README's table: words, file, beginning of dualflow's entrant, of the peer's, of the cases.
ROWS = (
    ("SVC, two classes, 54 named problems", "real_data", "dualflow", "SVC"),
    ("SVC, two classes, 141 tables", "keel", "dualflow", "SVC"),
    ("SVC, several classes", "multiclass", "dualflow", "SVC"),
    ("SVC, points that repeat", "repeats", "dualflow", "SVC"),
    ("SVR", "svr", "dualflow", "SVR"),
    ("NuSVC, NuSVR, linear kernel", "nu", "dualflow", "scikit-learn", ("NuSVC linear", "NuSVR linear")),
    ("NuSVC, NuSVR, radial kernel", "nu", "dualflow", "scikit-learn", ("NuSVC rbf", "NuSVR rbf")),
    ("SVDD against OneClassSVM", "svdd_against_one_class", "dualflow refined", "OneClassSVM"),
)


def ratios(name: str, ours: str, peer: str, cases: str | tuple[str, ...] = "") -> np.ndarray:
    """Median time of the peer over dualflow's, for each combination in which both finished."""
    times: dict[str, dict[str, float]] = defaultdict(dict)
    with open(RESULTS / f"{name}_rows.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (
                row["status"] == "ok"
                and row["blas_threads"] == "1"
                and row["median_s"]
                and row["case"].startswith(cases)
            ):
                for role in (ours, peer):
                    if row["entrant"].startswith(role):
                        times[row["case"]].setdefault(role, float(row["median_s"]))
    return np.array([both[peer] / both[ours] for both in times.values() if len(both) == 2])


def draw() -> Figure:
    """One line of points for each kind of problem; those in which dualflow is slower are orange."""
    figure = Figure(figsize=(8, 4.0), layout="constrained", facecolor="white")
    axes = figure.subplots()
    labels = []
    for at, (words, *where) in enumerate(ROWS):
        found = np.sort(ratios(*where))
        shift = 0.3 * (np.arange(len(found)) * 0.618 % 1 - 0.5)  # so that equal ratios stay apart
        for lost, colour in ((False, BLUE), (True, ORANGE)):
            here = (found < 1) == lost
            axes.scatter(
                found[here],
                at + shift[here],
                s=9 if len(found) < 100 else 3,
                color=colour,
                alpha=0.5,
                linewidths=0,
                zorder=2 + lost,
            )
        mean = np.exp(np.log(found).mean())
        axes.plot([mean, mean], [at - 0.32, at + 0.32], color="k", lw=1.5, zorder=4)
        shown = f"{mean:.2f} ×" if mean < 1 else f"{mean:.1f} ×" if mean < 100 else f"{mean:.0f} ×"
        labels.append(f"{words}: {shown}")
    axes.axvline(1, color="k", lw=0.8, ls="--", zorder=1)
    axes.set(xscale="log", yticks=range(len(ROWS)), yticklabels=labels)
    axes.set_xlabel("time of scikit-learn over that of dualflow; bars: means")
    axes.xaxis.set_major_formatter("{x:g} ×")
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    return figure


if __name__ == "__main__":
    with matplotlib.rc_context(STYLE):
        draw().savefig(PICTURE, metadata={"Date": None, "Title": "Times of scikit-learn over times of dualflow"})
