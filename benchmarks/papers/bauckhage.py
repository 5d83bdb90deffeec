"""Bauckhage et al., "Gradient Flows for L2 Support Vector Machine Training": Figure 1, rates, remarks.

Two moons of 100 points stand for the figure's data, which the paper does not give, nor its kernel offset and C: noise
0.15, standardised, (1 + ⟨x, z⟩)³, C = 1 (his C is 2). The flow of (3) is followed by LSODA in log μ, where it cannot
leave the simplex, to t = 12, and far beyond it; beside it 200 Frank-Wolfe iterates. Everything is drawn anew with the
seeds 0 to 19 (``--quick``: 0 to 2). Rules of the verdicts:

- a state is the trained SVM if its f exceeds the optimum's by ≤ 1 % in the median draw;
- two classifiers are one if they decide alike on ≥ 95 % of the square drawn in the figure, in the median draw;
- a predicted rate is the fitted one if they differ by ≤ 2 % in the median draw;
- a kernel is slower than another if it takes longer to max |μ − μ*| ≤ 1e-6, its rest, in ≥ 3/4 of the draws;
- a time is explained by a rate if the rank correlation with its inverse, over all draws and kernels, is ≥ 0.8;
- a matrix is Hermitian, or unitary, if it is so to 1e-12 of its norm;
- the literal flow stays on the simplex if |Σμ − 1| ≤ 1e-6 up to t = 1000;
- the flow at C = 1e-6 is the nearest mean if all of 5000 new points are classified alike.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.stats import spearmanr
from sklearn.neighbors import NearestCentroid

from benchmarks.lib import replicator
from benchmarks.lib.findings import Finding, by, main
from benchmarks.lib.flow_draws import END, KERNELS, NOISE, C, Flow, N, square
from dualflow import Gram, problems, solve

TITLE = "papers/bauckhage"
DRAWS, QUICK = 20, 3
TRAINED, ALIKE, RATE, OFTEN, EXPLAINED, EXACT = 0.01, 0.95, 0.02, 0.75, 0.8, 1e-12
STATES = {"at_twelve": "flow", "wolfe": "Frank-Wolfe", "rest": "optimum"}
PAIRS = (("at_twelve", "wolfe"), ("at_twelve", "rest"), ("wolfe", "rest"))
#: Excess of f, and distance of the state, whose times are compared.
NEAR, REST = 1e-3, 1e-6


def spread(values: Sequence[float], form: str = ".2g") -> str:
    """Median, least and largest."""
    return f"{np.median(values):{form}} [{min(values):{form}}, {max(values):{form}}]"


def figure_1(flows: Sequence[Flow]) -> Iterator[Finding]:
    grid, draws, seed = square(), f"{len(flows)} draws", flows[0].seed
    gets = f"two moons, n = {N}, noise {NOISE}, (1 + ⟨x, z⟩)³, C = {C:g}"
    why = "the data, the offset and C are not given: what follows is about the stand-in"
    yield Finding("figure 1 (a)", "data, kernel offset, C", "a plot of two classes", gets, "not reproducible", why)
    optimum = np.median([(flow.rest > 0).sum() for flow in flows])
    near = np.median([flow.path.first_below(flow.optimum, NEAR) for flow in flows])
    flow_is_late = f"an excess of 1e-3 takes t = {near:.0f} (median): at t = 12 the flow is on its way"
    wolfe_is_slow = "steps of 2/(k + 2) converge as 1/k: the certificate sees it, the plot does not"
    for where, what, name, why in (
        ("figure 1 (b, c)", "the flow at t = 12, five decimals", "at_twelve", flow_is_late),
        ("figure 1 (d, e)", "200 Frank-Wolfe iterates, five decimals", "wolfe", wolfe_is_slow),
    ):
        states = [getattr(flow, name) for flow in flows]
        excess = [flow.excess(mu) for flow, mu in zip(flows, states, strict=True)]
        held = np.median([(mu > 0).sum() for mu in states])
        gets = f"f is {spread(excess)} of the optimum above it; {held:g} weights > 0, optimum {optimum:g}; {draws}"
        yield Finding(where, what, "drawn as the trained SVM", gets, **by(np.median(excess) <= TRAINED, why), seed=seed)
    sides = [{name: flow.decision(getattr(flow, name), grid) >= 0 for name in STATES} for flow in flows]
    pairs = {pair: [float(np.mean(s[pair[0]] == s[pair[1]])) for s in sides] for pair in PAIRS}
    for (one, other), alike in pairs.items():
        gets = f"decide alike on {spread(alike, '.3f')} of the square, {draws}"
        nearer = ", ".join(f"{STATES[o]} {np.median(v):.3f}" for (o, rest), v in pairs.items() if rest == "rest")
        why = f"they are not trained: alike with the optimum's on {nearer}"
        yield Finding("figure 1 (c, e)", f"classifiers: {STATES[one]}, {STATES[other]}", "drawn alike", gets,
                      **by(np.median(alike) >= ALIKE, why), seed=seed)  # fmt: skip


def rates(flows: dict[str, list[Flow]]) -> Iterator[Finding]:
    """The open remark on Gaussian kernels: times, and the rates behind them."""
    draws, seed = f"{len(flows['linear'])} draws", flows["linear"][0].seed
    for kernel, those in flows.items():
        ratios = [
            replicator.fitted_rate(flow.path, flow.rest, flow.modes.slowest) / flow.modes.slowest for flow in those
        ]
        gets = f"fitted / predicted {spread(ratios, '.4f')}; rate {_median(slowest, those):.1e} (median), {draws}"
        verdict = by(abs(np.median(ratios) - 1) <= RATE, "two modes of nearly one rate are fitted as one")
        yield Finding("rates", f"slowest rate, {kernel} kernel", "comes to rest, no rate", gets, **verdict, seed=seed)
    near = {kernel: [flow.path.first_below(flow.optimum, NEAR) for flow in those] for kernel, those in flows.items()}
    rest = {kernel: [flow.path.first_within(flow.rest, REST) for flow in those] for kernel, those in flows.items()}
    for other in ("polynomial", "linear"):
        ratios = np.divide(rest["Gaussian"], rest[other])
        early = np.divide(near["Gaussian"], near[other])
        gets = f"to rest {spread(ratios)} × as long, to an excess of 1e-3 {spread(early)} ×; {draws}"
        means = " and ".join(f"{_median(mean_rate, flows[kernel]):.2g}" for kernel in ("Gaussian", other))
        why = f"it is slower in {np.mean(ratios > 1):.0%} of the draws only: their mean rates, {means}, are alike"
        verdict = by(np.mean(ratios > 1) >= OFTEN, why)
        yield Finding("remark", f"Gaussian against {other}", "Gaussian flows are slow", gets, **verdict, seed=seed)
    parts = [f"{k} {_median(mean_rate, those):.2g}, {_median(slowest, those):.1e}" for k, those in flows.items()]
    others = ("linear", "polynomial")
    slower = np.mean(
        [slowest(a) < slowest(b) for k in others for a, b in zip(flows["Gaussian"], flows[k], strict=True)]
    )
    verdict = by(slower >= OFTEN, f"the Gaussian's is the least in {slower:.0%} of the pairs")
    what = "rates: mean of D^½HD^½ on the support, slowest"
    yield Finding("remark", what, "open why", "; ".join(parts), **verdict, seed=seed)
    whole = [flow for those in flows.values() for flow in those]
    for what, times, rate in (
        ("time to rest against 1/slowest rate", rest, [slowest(flow) for flow in whole]),
        ("time to an excess of 1e-3 against 1/μᵀHμ", near, [flow.modes.level for flow in whole]),
    ):
        correlation = float(spearmanr(np.concatenate(list(times.values())), 1 / np.array(rate)).statistic)
        products = [t * r for t, r in zip(np.concatenate(list(times.values())), rate, strict=True)]
        gets = f"rank correlation {correlation:.2f}, {len(whole)} flows; product {spread(products)}"
        verdict = by(correlation >= EXPLAINED, "other modes decide it")
        yield Finding("remark", what, "open why", gets, **verdict, seed=seed)


def slowest(flow: Flow) -> float:
    return flow.modes.slowest


def mean_rate(flow: Flow) -> float:
    return float(flow.modes.inner.mean())


def _median(rate: Callable[[Flow], float], flows: Sequence[Flow]) -> float:
    return float(np.median([rate(flow) for flow in flows]))


def equations(flows: Sequence[Flow]) -> Iterator[Finding]:
    """The errata, by number."""
    draws, seed = f"{len(flows)} draws", flows[0].seed
    slopes, leaves, early = [], [], []
    for flow in flows:
        start = np.full(N, 1.0 / N)
        _, total, grown = replicator.drift(flow.hessian, start * (1 + 1e-6), 1000.0, 1e-10)
        linear = np.abs(total - 1) < 1e-2
        slopes.append(float(np.polyfit(grown[linear], np.log(np.abs(total[linear] - 1)), 1)[0]))
        times, total, _ = replicator.drift(flow.hessian, start, 1000.0, 1e-3)
        left = np.abs(total - 1) > 1e-6
        leaves.append(float(times[left.argmax()]) if left.any() else np.inf)
        early.append(float(np.abs(total[times <= END] - 1).max()))
    gets = f"RK45 from 1/n: |Σμ − 1| > 1e-6 from t = {spread(leaves, '.0f')} on, {draws}"
    why = f"dΣμ/dt = (Σμ − 1) μᵀHμ: log |Σμ − 1| grows {spread(slopes, '.4f')} × ∫μᵀHμ; divide by Σμ"
    yield Finding("equation 3", "integrated literally, t ≤ 1000", "stays on the simplex", gets,
                  **by(min(leaves) == np.inf, why), seed=seed)  # fmt: skip
    yield Finding("equation 3", "integrated literally, t ≤ 12", "stays on the simplex",
                  f"|Σμ − 1| ≤ {max(early):.0e}, {draws}",
                  **by(max(early) <= 1e-6, "round-off has grown by then"), seed=seed)  # fmt: skip
    skew, imaginary, unitary = [], [], []
    for flow in flows:
        for mu in (np.full(N, 1.0 / N), flow.rest):
            A = (np.outer(mu, mu) - np.diag(mu)) @ flow.hessian
            skew.append(float(np.linalg.norm(A - A.T) / (2 * np.linalg.norm(A))))
            values = np.linalg.eigvals(A)
            imaginary.append(float(np.abs(values.imag).max() / np.abs(values).max()))
        unitary.append(float(np.linalg.norm(flow.hessian @ flow.hessian - np.eye(N)) / np.sqrt(N)))
    gets = f"antisymmetric part {spread(skew)} of its norm, at 1/n and at rest, {draws}"
    why = f"HD ≠ DH; only similar to a symmetric matrix: imaginary parts ≤ {max(imaginary):.0e} of the spectrum"
    yield Finding("remark", "[μμᵀ − D(μ)]H", "is Hermitian", gets, **by(max(skew) <= EXACT, why), seed=seed)
    gets = f"‖HᵀH − 1‖ / ‖1‖ = {spread(unitary)} though H = Hᵀ, {draws}"
    why = "that is unitarity: this H is symmetric, so Hermitian, and not unitary"
    yield Finding("remark", "H†H = HH† = 1", "defines Hermitian", gets, **by(max(unitary) <= EXACT, why), seed=seed)


def nearest_mean(seed: int) -> Finding:
    """Two classes of 30 and 70 points; weights 1/n± a class make μ = 1/2n± the optimum of the limit C → 0."""
    rng = np.random.default_rng(seed)
    X = np.r_[rng.normal([1, 0], [2, 0.5], (30, 2)), rng.normal([-1, 1], 1, (70, 2))]
    y = np.repeat([1.0, -1.0], [30, 70])
    middle = 0.5 * (X[y > 0].mean(axis=0) + X[y < 0].mean(axis=0))
    weight = np.where(y > 0, N / 60, N / 140)
    new = middle + rng.normal(0, 2, (5000, 2))
    truth, different, angles = NearestCentroid().fit(X, y).predict(new), [], []
    for small in (1.0, 1e-6):
        gram = Gram(X - middle, kernel="linear")
        problem = problems.svc(gram, y, C=small, loss="squared_hinge", sample_weight=weight)
        mu = solve(problem, "gradient-flow", tol=1e-9, refine=True).alpha
        w, means = (mu * y) @ (X - middle), X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)
        different.append(int(np.sum(np.where((new - middle) @ w + mu @ y >= 0, 1, -1) != truth)))
        angles.append(float(np.arccos(min(1.0, w @ means / np.linalg.norm(w) / np.linalg.norm(means)))))
    gets = (
        f"C = 1e-6: {different[1]} of 5000 points differ, angle {angles[1]:.0e}; C = 1: {different[0]}, {angles[0]:.2f}"
    )
    return Finding("outlook", "nearest mean, as the flow's rest for C → 0", "a simplex problem too", gets,
                   **by(different[1] == 0, "the flow's rest has another normal or threshold"), seed=seed)  # fmt: skip


def find(options: argparse.Namespace) -> list[Finding]:
    draws = QUICK if options.quick else DRAWS
    flows = {kernel: [Flow(seed, kernel) for seed in range(draws)] for kernel in KERNELS}
    cubic = flows["polynomial"]
    found = [*figure_1(cubic), *rates(flows), *equations(cubic), nearest_mean(0)]
    if options.plot:
        from benchmarks.lib.flow_plots import draw_figure_1, draw_rates

        draw_figure_1(cubic[0], options.plot)
        draw_rates(flows, options.plot)
    return found


if __name__ == "__main__":
    sys.exit(main(TITLE, __doc__, find))
