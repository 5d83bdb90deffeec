"""Fidelity of a device's read-outs to the distributions of its circuits: linear cross-entropy and Pearson's χ².

Both compare a read-out f with the circuit's distribution p, which `ParametricCircuit.distribution` computes without
the device. With d = p − 1/N for N outcomes, the linear cross-entropy slope is Σ d·f / Σ d², summed over circuits. It
is 1 for a correct device, 0 for one that ignores the circuit, and the circuit's fidelity under depolarising noise
(Arute et al., Nature 574, 505 (2019), eq. 1; in the least-squares form of Rinott, Shoham and Kalai, 2022). χ² over its
degrees of freedom is 1 for a correct device and grows with the shots for any other. For exact read-outs the total
variation distance ½ Σ |f − p| replaces χ²; it is 0 for a correct device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.runtime.warn import warn_user
from ...exceptions import FidelityWarning

#: Most qubits of a circuit whose distribution is computed for the comparison.
MAX_QUBITS = 24
#: Most circuits of a solver's batch that are compared; a run has many batches.
MAX_ROWS = 4
#: Most circuits of a kernel's batch that are compared; a kernel often has only one batch.
MAX_KERNEL_PAIRS = 20
#: A run or a kernel warns if the slope is below this.
WARN_BELOW = 0.5
#: Fewest expected counts of a cell of χ²; rarer outcomes are merged into one cell, else χ² has another distribution.
MIN_EXPECTED = 5.0
#: If Σ d² per circuit is at most this, distributions are uniform within rounding, and the slope is undefined.
MIN_NORM = 1e-9
#: Largest slope of exact read-outs that counts as 0.
MAX_ROUND_OFF = 1e-6
#: If the p-value of χ² is below this, the read-outs do not follow the circuits' distributions.
MIN_P_VALUE = 1e-9
#: Largest total variation distance of exact read-outs of a correct device, single precision included.
MAX_DISTANCE = 1e-4
#: Standard deviations of shot noise below the limit at which a slope counts as low: one false alarm in 3 · 10⁵.
DEVIATIONS = 4.5


@dataclass(frozen=True)
class Fidelity:
    """Sums over the compared circuits, which a solver's state keeps.

    Attributes
    ----------
    cross : float
        Σ d·f.
    norm : float
        Σ d².
    variance : float
        Variance of ``cross`` by the shots of a correct device; 0 for exact distributions.
    chi_square : float
        Pearson's statistic over all circuits with shots.
    degrees : int
        Its degrees of freedom.
    circuits : int
        Number of compared circuits.
    distance : float
        Largest total variation distance of exact read-outs; 0 if all were sampled.
    noiseless : bool
        Whether the device's capabilities say that it has no noise.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow.quantum.runs.fidelity import Fidelity
    >>> ideal = np.array([[0.7, 0.1, 0.1, 0.1]])
    >>> right = Fidelity().with_batch(ideal, ideal, None)
    >>> ignoring = Fidelity().with_batch(np.full((1, 4), 0.25), ideal, None)
    >>> round(right.slope, 12), abs(round(ignoring.slope, 12))
    (1.0, 0.0)
    """

    cross: float = 0.0
    norm: float = 0.0
    variance: float = 0.0
    chi_square: float = 0.0
    degrees: int = 0
    circuits: int = 0
    distance: float = 0.0
    noiseless: bool = False

    def with_batch(self, found: NDArray, ideal: NDArray, shots: int | None, noisy: bool = True) -> Fidelity:
        """Return the sums with a batch added.

        Parameters
        ----------
        found, ideal : array of shape (k, N)
            Read-outs as frequencies, and the circuits' own distributions.
        shots : int or None
            Of each circuit; None if ``found`` is exact.
        noisy : bool, default=True
            Whether the device's capabilities say that it has noise.
        """
        d = ideal - 1.0 / ideal.shape[1]
        cross, norm = float((d * found).sum()), float((d * d).sum())
        variance, chi_square, degrees, distance = 0.0, 0.0, 0, 0.0
        if shots is None:
            distance = 0.5 * float(np.abs(found - ideal).sum(axis=1).max(initial=0.0))
        else:
            variance = float(((ideal * d * d).sum(axis=1) - ((ideal * d).sum(axis=1)) ** 2).clip(min=0).sum()) / shots
            for f, p in zip(found, ideal, strict=True):
                statistic, cells = _chi_square(f * shots, p * shots)
                chi_square, degrees = chi_square + statistic, degrees + cells - 1
        return Fidelity(
            self.cross + cross,
            self.norm + norm,
            self.variance + variance,
            self.chi_square + chi_square,
            self.degrees + degrees,
            self.circuits + len(ideal),
            max(self.distance, distance),
            not noisy,
        )

    @property
    def is_sound(self) -> bool:
        """Whether the sums are finite numbers in their ranges; a checkpoint file may contain any values."""
        sums = (self.cross, self.norm, self.variance, self.chi_square, self.degrees, self.circuits, self.distance)
        return (
            type(self.noiseless) is bool
            and all(type(s) in (int, float) and math.isfinite(s) for s in sums)
            and min(sums[1:]) >= 0
        )

    @property
    def is_known(self) -> bool:
        """Whether any circuit was compared whose distribution is not uniform."""
        return self.norm > MIN_NORM * max(1, self.circuits)

    @property
    def slope(self) -> float:
        """The linear cross-entropy slope over all circuits: 1 for a correct device; NaN if it is not known."""
        return self.cross / self.norm if self.is_known else np.nan

    @property
    def deviation(self) -> float:
        """Standard deviation of `slope` by the shots of a correct device; NaN if it is not known."""
        return self.variance**0.5 / self.norm if self.is_known else np.nan

    def is_below(self, least: float) -> bool:
        """Return whether the slope is below ``least`` by more than shot noise explains."""
        return bool(self.is_known and self.slope + DEVIATIONS * self.deviation < least)

    def is_zero(self) -> bool:
        """Return whether the slope is 0 within shot noise, and the shots suffice to distinguish it from 1."""
        if not self.is_known:
            return False
        allowed = DEVIATIONS * self.deviation
        return bool(2 * allowed < 1.0 and abs(self.slope) <= max(allowed, MAX_ROUND_OFF))

    @property
    def p_value(self) -> float | None:
        """Probability of a χ² at least as large for a correct device; None if no read-out was sampled."""
        if self.degrees <= 0:
            return None
        from scipy.special import chdtrc  # its import takes 0.06 s, which exact runs do not need

        return float(chdtrc(self.degrees, self.chi_square))

    @property
    def differs(self) -> bool:
        """Whether the read-outs do not follow the circuits' distributions, by noise or by a fault."""
        return (self.p_value is not None and self.p_value < MIN_P_VALUE) or self.distance > MAX_DISTANCE

    @property
    def difference(self) -> str:
        """The difference of the read-outs from the circuits' distributions, in words."""
        if self.distance > MAX_DISTANCE:
            return f"exact read-outs are up to {self.distance:.2g} from their circuits' distributions (total variation)"
        return f"χ² is {self.chi_square / max(1, self.degrees):.3g} a degree of freedom, which shots do not explain"

    @property
    def is_fault(self) -> bool:
        """Whether the read-outs differ from the circuits' distributions although the device is declared noiseless."""
        return self.noiseless and self.differs

    def report(self) -> dict[str, Any]:
        """Return the values for provenance as plain numbers, None where not known."""
        known = self.is_known
        return {
            "slope": self.slope if known else None,
            "deviation": self.deviation if known else None,
            "chi_square_per_degree": self.chi_square / self.degrees if self.degrees > 0 else None,
            "p_value": self.p_value,
            "distance": self.distance if self.circuits and not self.degrees else None,
            "low": self.is_below(WARN_BELOW),
            "fault": self.is_fault,
            "circuits": self.circuits,
        }


def checked_rows(count: int, limit: int) -> NDArray:
    """Return the indices of up to ``limit`` circuits of a batch of ``count``: the first and others evenly spread."""
    checked = min(count, limit)
    return np.arange(checked) * count // checked


def warn_of_fault(fidelity: Fidelity, device: str) -> bool:
    """Warn if the slope is below 0.5 or the read-outs of a device declared noiseless differ; return whether it warned.

    The warning is a `FidelityWarning`.
    """
    if not (fidelity.is_below(WARN_BELOW) or fidelity.is_fault):
        return False
    found = "unknown, because its circuits are uniform"
    if fidelity.is_known:
        found = (
            f"{fidelity.slope:.2f} ± {fidelity.deviation:.2f} (1: a correct device, 0: one that ignores its circuits)"
        )
    if fidelity.is_fault:
        found += f"; it is declared noiseless (capabilities.noisy is False), and {fidelity.difference}"
    warn_user(
        f"device {device!r}: the fidelity of its read-outs to their circuits is {found}; over {fidelity.circuits} "
        "circuits. The result is not that of these circuits; calibrate or check the device",
        FidelityWarning,
    )
    return True


def _chi_square(counts: NDArray, expected: NDArray) -> tuple[float, int]:
    """Return Pearson's statistic and its number of cells; outcomes with few expected counts are merged into one."""
    common = expected >= MIN_EXPECTED
    observed, model = counts[common], expected[common]
    rare_observed, rare_model = float(counts[~common].sum()), float(expected[~common].sum())
    if rare_model >= MIN_EXPECTED or not len(model):
        observed, model = np.append(observed, rare_observed), np.append(model, rare_model)
    elif rare_observed > 0 or rare_model > 0:
        # Too few for a separate cell: merge them into the cell with the fewest expected counts.
        least = int(model.argmin())
        observed, model = observed.copy(), model.copy()
        observed[least] += rare_observed
        model[least] += rare_model
    return float(((observed - model) ** 2 / np.maximum(model, 1e-300)).sum()), len(model)
