"""Exponential concentration: compares the spread of a quantum kernel's entries with the noise of their shots."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from ...core.kernel_functions import as_matrix
from ...exceptions import ProblemError
from ..devices import check_shots
from .base import QuantumKernel


@dataclass(frozen=True)
class Concentration:
    """The spread of a kernel's entries and the noise of shots, the result of `concentration`.

    Attributes
    ----------
    mean, variance : float
        Mean and variance of the entries of distinct points. For a sampled kernel the variance that comes from its own
        shots is subtracted.
    shots : int
    shot_variance : float
        Mean variance of an entry with that number of shots.
    pairs : int
        Number of pairs of distinct points, each counted once.
    scale : float
        Bandwidth of the kernel.

    Examples
    --------
    >>> from dualflow import Concentration
    >>> found = Concentration(mean=0.02, variance=1e-4, shots=1000, shot_variance=2e-5, pairs=190)
    >>> print(found)
    distinguishable: entries 0.02 ± 0.01, noise of 1000 shots 0.0045; about 200 shots leave as much noise as spread
    """

    mean: float
    variance: float
    shots: int
    shot_variance: float
    pairs: int
    scale: float = 1.0

    @property
    def concentrated(self) -> bool:
        """Whether the entries differ by less than the noise of the shots."""
        return self.variance < self.shot_variance

    @property
    def shots_needed(self) -> float:
        """Number of shots whose noise equals the spread, roughly; ∞ if there is no spread."""
        return math.ceil(self.shots * self.shot_variance / self.variance) if self.variance > 0 else math.inf

    def __str__(self) -> str:
        at = "" if self.scale == 1.0 else f" at scale {self.scale:g}"
        verdict = "concentrated" if self.concentrated else "distinguishable"
        return (
            f"{verdict}{at}: entries {self.mean:.3g} ± {math.sqrt(self.variance):.2g}, noise of {self.shots} shots "
            f"{math.sqrt(self.shot_variance):.2g}; about {self.shots_needed:.3g} shots leave as much noise as spread"
        )


def concentration(kernel: QuantumKernel, X: ArrayLike, *, shots: int | None = None) -> Concentration:
    """Compare the spread of a quantum kernel's off-diagonal entries with the noise of shots.

    As circuits become wide, deep or entangled, or their angles large, all entries converge exponentially to one value
    (Thanasilp, Wang, Cerezo, Holmes, Nat. Commun. 15, 5200 (2024)): 1/2^q for fidelities. If shots do not distinguish
    the entries, the matrix does not depend on the data, and the estimator predicts by chance.

    Parameters
    ----------
    kernel : FidelityKernel or ProjectedKernel
        Exact or sampled. It computes or measures the entries of X that it does not know yet.
    X : array of shape (n, m)
        At least three different points; a few dozens are enough.
    shots : int ≥ 1, optional
        Number of shots to compare with; by default the kernel's own, or 1000 if it is exact.

    Returns
    -------
    Concentration
        ``concentrated``, ``variance``, ``shot_variance``, ``shots_needed``. The pairs share points, and the variance is
        an estimate: near the border another X can give another verdict.

    Raises
    ------
    ProblemError
        X is no finite matrix, has not three different points, or ``shots`` is out of range.
    TypeError
        The kernel is none of dualflow's quantum kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import FidelityKernel, concentration
    >>> X = np.random.default_rng(0).uniform(0, 2 * np.pi, (30, 8))
    >>> concentration(FidelityKernel("zz"), X, shots=100).concentrated
    True
    """
    if not isinstance(kernel, QuantumKernel):
        raise TypeError(f"kernel must be a FidelityKernel or a ProjectedKernel, found {type(kernel).__name__}")
    shots = check_shots(shots) or kernel.shots or 1000
    points = as_matrix(X, "X")
    K = kernel(points, points)
    numbers = kernel._numbers(kernel._scaled(points, "X"))
    spread = kernel._spread(numbers, numbers, K, shots)
    if spread is None:
        raise ProblemError("X: a spread needs at least three different points")
    mean, variance, noise, pairs = spread
    return Concentration(mean, variance, shots, noise, pairs, kernel.scale)
