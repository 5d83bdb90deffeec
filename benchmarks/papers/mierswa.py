"""Mierswa, "Evolutionary Learning with Kernels" (GECCO 2006): Table 2 and its F-tests, Fig. 4, the bound (5).

Six data sets, C = 1, 0.1, 0.01, stratified 20-fold cross validation, γ of the paper's Table 1, features unscaled.
EvoSVM-G, -S, -H and PSO by the paper's preset (b = 0, stop after 5 generations without improvement); scikit-learn's SVC
stands for mySVM and LibSVM. Beside them "long", evolution that stops later, with the mutation of the paper's outlook,
and "memetic", our default. `benchmarks.lib.mierswa_cells` says which variants are tried where a figure is missed.

Rules of the verdicts:

- a cell is the paper's if the two-sample z of the means over the folds is within ± 2; a row of Table 2 if all its are;
- the reason of a miss is the first variant, in the order of `VARIANTS`, whose z is within ± 2, or that none is;
- the EvoSVM of a C are the paper's if ≥ 14 of their 18 cells are;
- F-tests agree if those of the paper's means and deviations (20 folds) and ours are on one side of p = 0.05 everywhere;
- an error is the default error if it differs from the majority's by ≤ 0.5 points;
- evolution solves the dual if its answers have ≥ 0.99 of the optimum, the mean of the folds, in every cell;
- times agree if the same method is the slowest, and the same (of the two SVMs, either) the fastest;
- (5) holds if it is ≥ the held-out error in every cell; it guides to C if the C of its least value has the least error,
  within 0.5 points, on every set;
- our mutation is Fig. 4's if tests (χ²; Kolmogorov and Smirnov) tell no difference from its loop, p ≥ 0.01.

The paper's text of (5) is read as Vapnik's bound with h = R²‖w‖² + 1 and η = 0.05. The paper's figures are not kept
here: give them as a CSV with the columns set, C, method (EvoSVM-G, EvoSVM-S, EvoSVM-H, PSO, mySVM, LibSVM), error, sd,
seconds, by --paper or as mierswa_table_2.csv in the data folder; without them the rows that compare are left out,
and so are sets that neither the folder nor OpenML has.
``--quick`` is 75 points of iris, 5 folds, C = 1 and 0.01, without evolution that stops late.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chisquare, ks_2samp

from benchmarks.lib import data
from benchmarks.lib.claims import csv_path, write_csv
from benchmarks.lib.command import chosen
from benchmarks.lib.findings import Finding, by, main
from benchmarks.lib.mierswa_cells import BUNDLED, GAMMAS, SEED, Cell, cell, load, read_paper
from benchmarks.lib.mierswa_table import CS, DEFAULT, FOLDS, findings, rows, stand_in
from dualflow.evolution import generations

TITLE = "papers/mierswa"
QUICK_CS, QUICK_FOLDS, ALIKE = (1.0, 0.01), 5, 0.01


def bound_rows(cells: Sequence[Cell]) -> Iterator[Finding]:
    """(5) on the data: whether it holds, says anything, and finds C."""
    bounds, errors = [c.bound for c in cells], [c.mean("b = 0") / 100 for c in cells]
    held, counted = ([b >= e for b, e in zip(which, errors, strict=True)]
                     for which in (bounds, [c.margin_bound for c in cells]))  # fmt: skip
    gets = f"{min(bounds):.2f} to {max(bounds):.2f}, errors {min(errors):.2f} to {max(errors):.2f}; "
    gets += f"above them in {sum(held)} of {len(held)} cells" + stand_in(cells)
    tells = sum(c.margin_bound < 1 for c in cells)
    why = f"errors count from the margin on (yf < 1): so it holds in {sum(counted)} of {len(counted)}, < 1 in {tells}"
    yield Finding("equation 5", "the bound of the risk", "bounds it, probability 0.95", gets,
                  **by(all(held), why), seed=SEED)  # fmt: skip
    names = list(dict.fromkeys(c.name for c in cells))
    right = least = 0
    for name in names:
        those = [c for c in cells if c.name == name]
        best = min(those, key=lambda c: c.bound)
        right += best.mean("b = 0") <= min(c.mean("b = 0") for c in those) + DEFAULT
        least += min(c.C for c in those) == best.C
    capacity = np.median([c.square + 1 for c in cells if max(CS) == c.C])
    why = f"h = R²‖w‖² + 1 (median {capacity:.0f} at C = 1) outweighs errors: least at the least C in {least}"
    yield Finding("equation 5", "the C of its least value", "the guide to capacity",
                  f"also that of the least error in {right} of {len(names)} sets" + stand_in(cells),
                  **by(right == len(names), why), seed=SEED)  # fmt: skip


def figure_4(alpha: NDArray, C: float, rng: np.random.Generator) -> NDArray:
    """The paper's loop: each αᵢ > 0 becomes 0, and each αᵢ = 0 uniform on [0, C], with probability 1/n."""
    child = alpha.copy()
    for i in range(len(child)):
        if rng.random() < 1 / len(child):
            child[i] = 0.0 if child[i] > 0 else rng.uniform(0.0, C)
    return child


def mutated(alpha: NDArray, C: float, children: int, rng: np.random.Generator) -> NDArray:
    """Children of shape (children, n) by `EvolutionStrategy`'s hybrid mutation, without crossover."""
    n, order = len(alpha), np.zeros(children, dtype=np.int64)
    pool = np.tile(alpha, (2 * children, 1))
    (turned,) = generations.mutated_genes("hybrid", 1, children, np.full(n, C), rng)
    generations.mate(pool, order, order, np.zeros((children, n), dtype=np.uint8), *turned)
    return pool[children:]


def mutation_rows(children: int) -> Iterator[Finding]:
    """Fig. 4 against our vectorised mutation: how many change, which, and into what."""
    C, n = 1.0, 40
    alpha = np.where(np.arange(n) % 2 == 0, 0.0, 0.5)
    theirs = np.array([figure_4(alpha, C, np.random.default_rng((SEED, k))) for k in range(children)])
    ours = mutated(alpha, C, children, np.random.default_rng(SEED))
    counts = np.bincount((ours != alpha).sum(axis=1).clip(max=4), minlength=5)
    wanted = children * np.append(binom.pmf(range(4), n, 1 / n), binom.sf(3, n, 1 / n))
    p = float(chisquare(counts, wanted).pvalue)
    gets = f"mean {np.mean((ours != alpha).sum(axis=1)):.3f} of {n} change, χ² p = {p:.2f}, {children} children"
    yield Finding("figure 4", "how many αᵢ change", "binomial, probability 1/n", gets,
                  **by(p >= ALIKE, "another number of genes"), seed=SEED)  # fmt: skip
    zero = alpha == 0
    new, loop = (which[:, zero][which[:, zero] > 0] for which in (ours, theirs))
    p = float(ks_2samp(new, loop).pvalue)
    strange = int((~np.isin(ours[:, ~zero], (0.0, 0.5))).sum())
    gets = (
        f"{len(new)} new values against its loop's {len(loop)}: p = {p:.2f}; {strange} of αᵢ > 0 become another than 0"
    )
    yield Finding("figure 4", "what they become", "0 ↦ uniform on [0, C], > 0 ↦ 0", gets,
                  **by(p >= ALIKE and strange == 0, "another distribution"), seed=SEED)  # fmt: skip


def at_hand(names: Sequence[str], folder: str | None) -> Iterator[str]:
    """The sets that can be read; of the others a line is printed."""
    for name in names:
        try:
            load(name, folder)
        except OSError as error:
            print(f"{TITLE}: {name} is not at hand, its rows are left out: {error}", flush=True)
        else:
            yield name


def find(options: argparse.Namespace) -> list[Finding]:
    file = options.paper or (data.data_folder(options.data) or Path()) / "mierswa_table_2.csv"
    paper = {} if options.quick or not (options.paper or file.is_file()) else read_paper(file)
    if not paper:
        print(f"{TITLE}: the paper's figures were not given: what compares with Table 2 is left out")
    names = [BUNDLED] if options.quick else [name for name in GAMMAS if chosen(name, options.only)]
    names = list(at_hand(names, options.data))
    Cs, folds = (QUICK_CS, QUICK_FOLDS) if options.quick else (CS, FOLDS)
    cells = [cell(name, C, options.data, folds, short=options.quick) for C in Cs for name in names]
    if path := csv_path(f"{TITLE}_rows", options):
        write_csv(path, list(rows(cells, paper)))
    found = [*mutation_rows(400 if options.quick else 4000)]
    if cells:
        found += [*findings(cells, paper), *bound_rows(cells)]
    if options.plot:
        from benchmarks.lib.mierswa_plots import draw_bound, draw_mutation, draw_table

        draw_table(cells, paper, options.plot)
        draw_bound(cells, options.plot)
        draw_mutation(mutated(np.zeros(40), 1.0, 4000, np.random.default_rng(SEED)), options.plot)
    return found


if __name__ == "__main__":
    sys.exit(main(TITLE, __doc__, find, "only", "paper"))
