"""Exponential concentration: whether a quantum kernel's entries differ by more than the noise of their shots."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from ...core.kernel_functions import as_matrix
from ...exceptions import ProblemError
from ..devices import check_shots
from .base import QuantumKernel

__all__ = ["Concentration", "concentration"]


@dataclass(frozen=True)
class Concentration:
    """How far a kernel's entries are apart, and what shots make of them; see `concentration`.

    Attributes
    ----------
    mean, variance : float
        Of the entries of distinct points; of a sampled kernel the shots' share of the variance is taken off.
    shots : int
    shot_variance : float
        That so many shots leave in an entry, in the mean.
    pairs : int
        Of distinct points, each counted once.

    Examples
    --------
    >>> from dualflow import Concentration
    >>> found = Concentration(mean=0.02, variance=1e-4, shots=1000, shot_variance=2e-5, pairs=190)
    >>> print(found)
    told apart: entries 0.02 ± 0.01, noise of 1000 shots 0.0045; about 200 shots leave as much noise as spread
    """

    mean: float
    variance: float
    shots: int
    shot_variance: float
    pairs: int

    @property
    def concentrated(self) -> bool:
        """Whether the entries differ by less than the noise of the shots."""
        return self.variance < self.shot_variance

    @property
    def shots_needed(self) -> float:
        """About how many shots leave as much noise as there is spread; ∞ where there is no spread."""
        return math.ceil(self.shots * self.shot_variance / self.variance) if self.variance > 0 else math.inf

    def __str__(self) -> str:
        told = "concentrated" if self.concentrated else "told apart"
        return (
            f"{told}: entries {self.mean:.3g} ± {math.sqrt(self.variance):.2g}, noise of {self.shots} shots "
            f"{math.sqrt(self.shot_variance):.2g}; about {self.shots_needed:.3g} shots leave as much noise as spread"
        )


def concentration(kernel: QuantumKernel, X: ArrayLike, *, shots: int | None = None) -> Concentration:
    """Hold the spread of a quantum kernel's off-diagonal entries against the noise of shots.

    As circuits grow wide, deep, entangled or their angles large, the entries of all pairs come exponentially near to
    one value (Thanasilp, Wang, Cerezo, Holmes, Nat. Commun. 15, 5200 (2024)): 1/2^q for fidelities. Shots that do not
    tell them apart give a matrix that does not depend on the data, and an estimator that predicts by chance.

    Parameters
    ----------
    kernel : FidelityKernel or ProjectedKernel
        Exact or sampled. It computes or measures what it does not know yet of X.
    X : array of shape (n, m)
        At least three different points; a few dozens tell enough.
    shots : int ≥ 1, optional
        Those asked about; the kernel's own by default, 1000 if it is exact.

    Returns
    -------
    Concentration
        ``concentrated``, ``variance``, ``shot_variance``, ``shots_needed``. A variance of pairs that share points is an
        estimate: of a kernel near the border another X may say another word.

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
    numbers = kernel._numbers(points)
    spread = kernel._spread(numbers, numbers, K, shots)
    if spread is None:
        raise ProblemError("X: a spread needs at least three different points")
    mean, variance, noise, pairs = spread
    return Concentration(mean, variance, shots, noise, pairs)
