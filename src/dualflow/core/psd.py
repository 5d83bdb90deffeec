"""What is known of the spectrum of a symmetric matrix: without it, no duality gap is a bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["CHECK_UP_TO", "SpectrumEvidence", "examine"]

#: Largest n whose spectrum is looked at unasked: one Cholesky factorisation, a second at most.
CHECK_UP_TO = 4096


@dataclass(frozen=True)
class SpectrumEvidence:
    """Evidence that Q is positive semidefinite.

    Attributes
    ----------
    kind : {"by kernel", "checked", "unknown", "indefinite"}
        "by kernel": Mercer's condition holds for the kernel. "checked": factorised, no eigenvalue below
        −n·ε·‖Q‖. "unknown": too large to look at. "indefinite": an eigenvalue below that was found.
    smallest_eigenvalue : float or None
        Given for "indefinite".
    """

    kind: str
    smallest_eigenvalue: float | None = None

    @property
    def is_psd(self) -> bool:
        """Whether a duality gap bounds anything."""
        return self.kind in ("by kernel", "checked")

    def __str__(self) -> str:
        if self.kind == "indefinite":
            return f"indefinite: smallest eigenvalue {self.smallest_eigenvalue:.3g}, no bound exists"
        if self.kind == "unknown":
            return f"unknown: more than {CHECK_UP_TO} points of a kernel without guarantee, no bound given"
        return f"positive semidefinite ({self.kind})"


def examine(Q: NDArray) -> SpectrumEvidence:
    """Look at the spectrum of a symmetric Q of shape (n, n).

    "Indefinite" means λ_min < −n·ε·‖Q‖: round-off alone puts duplicate rows of an RBF Gram at −1.6e-14.
    """
    n = len(Q)
    norm = float(np.abs(Q).sum(axis=1).max())
    slack = n * np.finfo(float).eps * norm
    if norm == 0.0:
        return SpectrumEvidence("checked")
    try:
        # Cholesky of Q + slack·I succeeds when λ_min ≥ −slack, at a tenth of the price of eigenvalues.
        scipy.linalg.cholesky(Q + slack * np.eye(n), lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        smallest = float(scipy.linalg.eigvalsh(Q, subset_by_index=[0, 0], check_finite=False)[0])
        if smallest < -slack:
            return SpectrumEvidence("indefinite", smallest)
    return SpectrumEvidence("checked")
