"""Study: what quantum kernels, trained or not, give on held-out data beside RBF. No claim beyond its table.

Data, all bundled with scikit-learn: moons (noise 0.2), circles (noise 0.15, factor 0.5), iris, wine, breast cancer and
digits 1 against 4; more than 4 features become their 4 first principal components. 20 stratified splits, 100 points to
train on, 50 held out; components and scales are those of the training points. Each kernel has 9 shapes, and C = 1, 10,
100, all chosen by 3 folds of the training points; then it is fitted to all of those, by `SVC`:

- rbf: 9 widths about scikit-learn's "scale";
- fidelity angle, fidelity zz: 9 factors of the standardised features, 1/64 to 4 and 1/256 to 1: products of features
  turn "zz" about 2π as fast, and above 1/4 its entries have concentrated;
- projected zz: 3 factors, 1/64 to 1/8, and 3 γ about 1 by the mean distance of the training points' projections;
- re-uploading, fidelity and projected: two layers at the weights they begin with, 9 factors as of "angle", or 3, 0.2 to
  1, and 3 γ as above;
- trained: the same after 20 steps of `train_kernel` on the training points, at 3 factors (and 3 γ where it is
  projected): the fidelity kernel has fewer shapes than the others.

The table: accuracy, mean ± standard deviation. RBF beside every other kernel on every data set: t-test on the paired
accuracies, their variance corrected for training sets that overlap (Nadeau & Bengio, Machine Learning 52, 239 (2003)),
p-values corrected by Holm over all tests of the run. All is shown, nothing is asked.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_circles, make_moons
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, train_test_split

from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from benchmarks.quantum.indefinite_kernels import holm
from dualflow import SVC, FidelityKernel, ProjectedKernel, Reuploading, train_kernel

TITLE = "quantum/kernel_accuracy"
SETS = ("moons", "circles", "iris", "wine", "breast cancer", "digits")
TRAIN, TEST, COMPONENTS, SPLITS, QUICK, FOLDS, LEVEL = 100, 50, 4, 20, 2, 3, 0.05
CS, STEPS = (1.0, 10.0, 100.0), 20
FINE, COARSE, GAMMAS = tuple(2.0 ** np.arange(-6, 3)), (0.2, 0.5, 1.0), (0.25, 1.0, 4.0)
FINE_ZZ, COARSE_ZZ = tuple(2.0 ** np.arange(-8, 1)), tuple(2.0 ** np.array([-6.0, -4.5, -3.0]))
RBF = "rbf"
KERNELS = (
    RBF,
    "fidelity angle",
    "fidelity zz",
    "projected zz",
    "fidelity re-uploading",
    "projected re-uploading",
    "fidelity trained",
    "projected trained",
)


def data(name: str) -> tuple[NDArray, NDArray]:
    """All points and labels of a data set."""
    if name == "moons":
        return make_moons(300, noise=0.2, random_state=0)
    if name == "circles":
        return make_circles(300, noise=0.15, factor=0.5, random_state=0)
    loaders = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
    X, y = loaders[name](return_X_y=True)
    keep = np.isin(y, (1, 4)) if name == "digits" else np.ones(len(y), dtype=bool)
    return X[keep], y[keep]


def split(name: str, seed: int) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Standardised components of the points to train on and of those held out, and their labels."""
    X, y = data(name)
    A, B, a, b = train_test_split(X, y, train_size=TRAIN, stratify=y, random_state=seed)
    B, b = B[:TEST], b[:TEST]
    scale = np.where(A.std(axis=0) > 0, A.std(axis=0), 1.0)
    mean = A.mean(axis=0)
    A, B = (A - mean) / scale, (B - mean) / scale
    if A.shape[1] > COMPONENTS:
        axes = PCA(COMPONENTS, random_state=0).fit(A)
        A, B = axes.transform(A), axes.transform(B)
        scale = A.std(axis=0)
        A, B = A / scale, B / scale
    return A, B, a, b


def shapes(kernel: str, A: NDArray, B: NDArray, a: NDArray) -> Iterator[tuple[NDArray, NDArray]]:
    """Of every shape, the training matrix and the rows of the points held out."""
    if kernel == RBF:
        for width in FINE:
            gamma = 4.0 * width / (A.shape[1] * A.var())
            yield rbf_kernel(A, gamma=gamma), rbf_kernel(B, A, gamma=gamma)
        return
    kind, what = kernel.split()
    feature_map = Reuploading() if what in ("re-uploading", "trained") else what
    fine, coarse = (FINE_ZZ, COARSE_ZZ) if what == "zz" else (FINE, COARSE)
    if kind == "fidelity":
        made = [(s, FidelityKernel(feature_map)) for s in (coarse if what == "trained" else fine)]
    else:
        widths = [(s, 1.0 / mean_distance(feature_map, s * A)) for s in coarse]
        made = [(s, ProjectedKernel(feature_map, gamma=g * width)) for s, width in widths for g in GAMMAS]
    for factor, k in made:
        used = train_kernel(k, factor * A, a, steps=STEPS).kernel if what == "trained" else k
        yield used(factor * A, factor * A), used(factor * B, factor * A)


def mean_distance(feature_map: str | Reuploading, X: NDArray) -> float:
    """Of the projections of two points, Σ ‖ρ − ρ′‖²: what γ is measured against, as scikit-learn's "scale" is."""
    K = ProjectedKernel(feature_map)(X, X)
    return float(-np.log(K[~np.eye(len(X), dtype=bool)]).mean())


def score(K: NDArray, columns: NDArray, y: NDArray, z: NDArray, C: float) -> float:
    """Accuracy on the points held out."""
    return float(SVC(C=C, kernel="precomputed").fit(K, y).score(columns, z))


def accuracy(kernel: str, A: NDArray, B: NDArray, a: NDArray, b: NDArray) -> float:
    """Held-out accuracy of the shape and C that were best in the folds; of equals, the first."""
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(A, a))
    best, found = -1.0, None
    for K, columns in shapes(kernel, A, B, a):
        for C in CS:
            inner = np.mean([score(K[np.ix_(i, i)], K[np.ix_(j, i)], a[i], a[j], C) for i, j in folds])
            if inner > best:
                best, found = float(inner), (K, columns, C)
    assert found is not None
    return score(found[0], found[1], a, b, found[2])


def corrected(difference: NDArray, share: float) -> float:
    """Two-sided p of the paired t-test, variance times 1/k + (held out / trained on), k splits; 1 without a spread."""
    k, variance = len(difference), float(np.var(difference, ddof=1))
    if np.ptp(difference) < 1e-9:
        return 1.0
    return float(2 * student.sf(abs(difference.mean()) / np.sqrt(variance * (1 / k + share)), k - 1))


def main() -> int:
    options = command_line(__doc__, "only")
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread")
    warnings.simplefilter("ignore")
    splits = QUICK if options.quick else SPLITS
    table, tests = Rows(f"{TITLE}_rows", options), []
    for name in SETS:
        if not chosen(name, options.only):
            continue
        parts = [split(name, seed) for seed in range(splits)]
        rates = {kernel: np.array([accuracy(kernel, *part) for part in parts]) for kernel in KERNELS}
        for kernel, found in rates.items():
            mean, sd = 100 * float(found.mean()), 100 * float(found.std(ddof=1))
            table.add(f"{name}: {kernel}", accuracy=mean, sd=sd, splits=splits)
            if kernel != RBF:
                away = np.round(found - rates[RBF], 12)
                tests.append((name, kernel, float(away.mean()), corrected(away, len(parts[0][1]) / TRAIN)))
    verdicts, adjusted = [], holm(np.array([p for *_, p in tests]))
    for (name, kernel, mean, _), p in zip(tests, adjusted, strict=True):
        note = f"p = {p:.2g} after Holm, {splits} splits" + ("" if p < LEVEL else ": no difference shown")
        verdicts.append(
            Verdict("shown", f"{name}: {kernel}", "accuracy less RBF's", 100 * mean, "", unit="points", note=note)
        )
    better = sum(mean > 0 and p < LEVEL for (*_, mean, _), p in zip(tests, adjusted, strict=True))
    worse = sum(mean < 0 and p < LEVEL for (*_, mean, _), p in zip(tests, adjusted, strict=True))
    for word, count in (("better", better), ("worse", worse)):
        verdicts.append(Verdict("shown", "quantum kernels", f"{word} than RBF at {LEVEL:g}, of {len(tests)}", count))
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
