"""Shown: the figures of Howell et al., "Machine Learning as Ecology", drawn anew with `EcoSVC` and `EcoSVDD`.

    python -m benchmarks.online.howell_figures --plot figures

The boundaries are those of the published scripts, on points uniform in [0, 1]^p: B₁, x₁ < ½; B₂, x₁ < ½ + ε Π sin 2πxⱼ
(j = 2 … p) with ε = 0.1. The first 10 points (2-D) or N_s = 30 (more than p) are solved as a batch, then points arrive
one at a time. Figure 2: B₁ in the plane, survivors and line, beside the batch's. Figures 4 and 5: B₁ and B₂, test
accuracy A(T) and number of survivors N(T), without a reserve (Howell's EcoSVM) and with our default. Figures 7 and 8:
the hard ball of Gaussian points, its radius R(T) and the similarity S(T) of its centre to the batch's, (31); k is
exp(−‖x − z‖²/2σ²), whose minus sign is missing in the caption of figure 7.

Each line says how the streams end: PASS is A at most 2 points below the batch's, R within 2 %, S ≥ 0.99, in the mean.
What the paper plots is not at hand as numbers, so nothing is compared with it, and no line is a must.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import command_line
from dualflow import SVC, SVDD, EcoSVC, EcoSVDD

TITLE = "online/howell_figures"
#: Strength of the nonlinearity of B₂, and σ of the balls.
EPSILON, SIGMA = 0.1, 1.0
#: Howell's EcoSVM, and ours: as many near-survivors as survivors.
RESERVES = (0, 1.0)
#: Between two looks at a stream.
LOOK = 10


def below(X: NDArray, epsilon: float) -> NDArray:
    """+1 where x₁ < ½ + ε Π sin 2πxⱼ, −1 elsewhere: B₁ for ε = 0, B₂ for ε > 0."""
    return np.where(X[:, 0] < 0.5 + epsilon * np.sin(2 * np.pi * X[:, 1:]).prod(axis=1), 1, -1)


@dataclass(frozen=True)
class Stream:
    """A boundary in p dimensions, N points of which the first are a batch, and the model's parameters."""

    name: str
    figure: int
    epsilon: float
    p: int
    n: int
    first: int
    tests: int
    parameters: dict[str, Any]

    def points(self, seed: int, n: int) -> tuple[NDArray, NDArray]:
        X = np.random.default_rng([seed, self.figure, self.p, n]).uniform(size=(n, self.p))
        return X, below(X, self.epsilon)


RBF = {"gamma": 2.0, "C": 100.0}
STREAMS = (
    Stream("B1, 2-D, hard margin", 4, 0.0, 2, 300, 10, 1000, {"kernel": "linear", "C": np.inf}),
    Stream("B1, 20-D, hard margin", 4, 0.0, 20, 1000, 30, 1000, {"kernel": "linear", "C": np.inf}),
    Stream("B2, 2-D, RBF, C = 100", 5, EPSILON, 2, 600, 10, 1000, RBF),
    Stream("B2, 5-D, RBF, C = 100", 5, EPSILON, 5, 1000, 30, 1000, RBF),
)


def followed(stream: Stream, seed: int, reserve: float) -> dict[str, Any]:
    """One realisation: T, A(T), N(T), and the batch's accuracy and number of support vectors."""
    (X, y), (Z, t) = stream.points(seed, stream.n), stream.points(seed + 1000, stream.tests)
    model = EcoSVC(**stream.parameters, n_init=stream.first, reserve=reserve)
    model.partial_fit(X[: stream.first], y[: stream.first], classes=[-1, 1])
    looks = []
    for k in range(stream.first, stream.n):
        if (k - stream.first) % LOOK == 0:
            looks.append((k, model.score(Z, t), len(model.survivors_)))
        model.partial_fit(X[k : k + 1], y[k : k + 1])
    looks.append((stream.n, model.score(Z, t), len(model.survivors_)))
    batch = SVC(**stream.parameters).fit(X, y)
    ends = batch.score(Z, t), len(batch.support_)
    return {"looks": np.array(looks), "batch": ends, "model": model, "batch_model": batch, "data": (X, y)}


def ball(seed: int, p: int, n: int, first: int) -> dict[str, Any]:
    """One realisation of figures 7 and 8: T, R(T), S(T), and the batch's radius."""
    X = np.random.default_rng([seed, 7, p]).normal(0.5, 0.1, (n, p))
    parameters = {"nu": None, "gamma": 1 / (2 * SIGMA**2)}
    batch = SVDD(**parameters).fit(X)
    model = EcoSVDD(**parameters, n_init=first, reserve=0).partial_fit(X[:first])
    looks = []
    for k in range(first, n):
        if (k - first) % LOOK == 0:
            looks.append((k, model.radius_, similarity(model, batch)))
        model.partial_fit(X[k : k + 1])
    looks.append((n, model.radius_, similarity(model, batch)))
    return {"looks": np.array(looks), "batch": batch.radius_}


def similarity(one: EcoSVDD | SVDD, other: EcoSVDD | SVDD) -> float:
    """⟨a, a′⟩/(‖a‖‖a′‖) of two centres (31)."""

    def product(a: Any, b: Any) -> float:
        A, B = a.support_vectors_, b.support_vectors_
        squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
        return float(a.dual_coef_[0] @ np.exp(-squares / (2 * SIGMA**2)) @ b.dual_coef_[0])

    return product(one, other) / np.sqrt(product(one, one) * product(other, other))


def run(realisations: int, balls: tuple[int, int, int], table: Rows, out: Path | None) -> list[Verdict]:
    """All figures; plots go to ``out``."""
    verdicts = []
    drawn: list[Callable[[Any, Path], None]] = []
    for stream in STREAMS:
        curves = {}
        for reserve in RESERVES:
            found = [followed(stream, seed, reserve) for seed in range(realisations)]
            curves[reserve] = looks = np.array([f["looks"] for f in found])
            batch = np.array([f["batch"] for f in found])
            (a, survivors), (b, vectors) = looks[:, -1, 1:].mean(axis=0), batch.mean(axis=0)
            what = f"figure {stream.figure}, {stream.name}, reserve {reserve:g}"
            table.add(
                what,
                streams=realisations,
                n=stream.n,
                accuracy=float(a),
                batch_accuracy=float(b),
                survivors=float(survivors),
                batch_support_vectors=float(vectors),
            )
            lag = 100 * float(b - a)
            verdicts.append(Verdict("shown", what, "accuracy below the batch's", lag, "<=", 2.0, "points"))
            if stream is STREAMS[0] and reserve == 0:
                drawn.append(lambda plt, folder, f=found[0]: draw_plane(plt, folder, f))
        drawn.append(lambda plt, folder, s=stream, x=curves, y=batch: draw_stream(plt, folder, s, x, y))
    p, n, first = balls
    found = [ball(seed, p, n, first) for seed in range(realisations)]
    looks, radii = np.array([f["looks"] for f in found]), np.array([f["batch"] for f in found])
    radius, likeness, whole = looks[:, -1, 1].mean(), looks[:, -1, 2].mean(), radii.mean()
    about = {"streams": realisations, "n": n, "radius": float(radius), "batch_radius": float(whole)}
    table.add(f"figures 7 and 8, {p}-D", **about, similarity=float(likeness))
    off = abs(float(radius / whole) - 1)
    verdicts.append(Verdict("shown", f"figure 7, {p}-D", "R off the batch's, relative", off, "<=", 0.02))
    verdicts.append(Verdict("shown", f"figure 8, {p}-D", "S", float(likeness), ">=", 0.99))
    drawn.append(lambda plt, folder: draw_balls(plt, folder, looks, radii))
    if out:
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt

        out.mkdir(parents=True, exist_ok=True)
        for draw in drawn:
            draw(plt, out)
    return verdicts


def draw_curves(axes: Any, T: NDArray, curves: NDArray, label: str, color: str = "C0", name: str = "") -> None:
    """All realisations and their mean."""
    axes.plot(T, curves.T, color=color, linewidth=0.5, alpha=0.3)
    axes.plot(T, curves.mean(axis=0), color=color, linewidth=2, label=name)
    axes.set_xlabel("T, points met")
    axes.set_ylabel(label)


def draw_stream(plt: Any, folder: Path, stream: Stream, curves: dict[float, NDArray], batch: NDArray) -> None:
    """A(T) and N(T) of figures 4 and 5."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for k, label in enumerate(("A(T), test accuracy", "N(T), survivors")):
        for color, (reserve, looks) in zip(("C0", "C1"), curves.items(), strict=True):
            draw_curves(axes[k], looks[0, :, 0], looks[:, :, k + 1], label, color, f"reserve {reserve}")
        axes[k].axhline(float(batch[:, k].mean()), color="k", linestyle="--", label="batch")
    axes[0].legend()
    figure.suptitle(stream.name)
    kind = "B1" if stream.epsilon == 0 else "B2"
    figure.savefig(folder / f"howell_figure_{stream.figure}_{kind}_{stream.p}d.png", dpi=120)
    plt.close(figure)


def draw_plane(plt: Any, folder: Path, found: dict[str, Any]) -> None:
    """Figure 2: points, survivors, the line and the batch's."""
    (X, y), model, batch = found["data"], found["model"], found["batch_model"]
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


def draw_balls(plt: Any, folder: Path, looks: NDArray, radii: NDArray) -> None:
    """R(T) and S(T) of figures 7 and 8."""
    for number, column, batch, label in ((7, 1, float(radii.mean()), "R(T)"), (8, 2, 1.0, "S(T)")):
        figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
        draw_curves(axes, looks[0, :, 0], looks[:, :, column], label)
        axes.axhline(batch, color="k", linestyle="--")
        figure.savefig(folder / f"howell_figure_{number}.png", dpi=120)
        plt.close(figure)


def main() -> int:
    options = command_line(__doc__ or "", "plot")
    table = Rows(f"{TITLE}_rows", options)
    sizes = (2, (50, 200, 20)) if options.quick else (10, (100, 600, 20))
    return conclude(TITLE, run(*sizes, table, options.plot), options)


if __name__ == "__main__":
    sys.exit(main())
