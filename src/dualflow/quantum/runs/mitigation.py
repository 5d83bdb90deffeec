"""Error mitigation: one confusion matrix a qubit, measured on the device itself, and undone.

Of the read-out alone ("confusion", "mthree"), or "circuit": of the circuit itself, run at angles where the outcome is
known. Then gates' errors that flip a qubit are in it, too, as far as they do so at all angles alike, which depolarising
ones do: as in Urbanek, Nachman, Pascuzzi, He, Bauer, de Jong, PRL 127, 270502 (2021), whose estimation circuit keeps
the two-qubit gates and leaves out the rest. Errors of a state as a whole, and those that depend on it, stay.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import DeviceError, ProblemError, SolverUnavailable
from ..circuits import CalibrationCircuit, ParametricCircuit
from ..devices import Readout
from ..devices.confusion import apply_tensored, nearest_distribution

__all__ = [
    "CALIBRATION_SHOTS",
    "METHODS",
    "calibrations",
    "check_installed",
    "check_method",
    "confusion_matrices",
    "mitigate",
    "overhead",
]

METHODS = ("confusion", "mthree", CIRCUIT := "circuit")
#: Fewest shots of each calibration circuit.
CALIBRATION_SHOTS = 10_000
#: A determinant 1 − P(1|0) − P(0|1) within so many of its standard deviations of 0 is singular.
SINGULAR_SIGMAS = 5.0


def check_method(mitigation: str | None, exact: bool) -> None:
    """Raise `ProblemError` if the option ``mitigation`` is not known, or has no shots to work on."""
    if mitigation is None:
        return
    if mitigation not in METHODS:
        raise ProblemError(f"mitigation={mitigation!r} is not one of {', '.join(map(repr, METHODS))}, or None")
    if exact:
        raise ProblemError(
            f"mitigation={mitigation!r} corrects measured counts and needs shots; set shots, for example "
            "shots=10_000, or mitigation=None"
        )


def check_installed(mitigation: str | None) -> None:
    """Raise `SolverUnavailable` with the pip line if a method's package is missing."""
    if mitigation == "mthree" and importlib.util.find_spec("mthree") is None:
        raise SolverUnavailable(
            "mitigation='mthree' needs mthree, which is not installed: pip install 'dualflow[mitigation]' "
            "(mitigation='confusion' needs nothing)"
        )


def calibrations(method: str, circuit: ParametricCircuit) -> list[tuple[ParametricCircuit, NDArray]]:
    """What is run to calibrate a circuit: circuits with two bindings each, at their `ends`, the better one last.

    Raises
    ------
    ProblemError
        The method is "circuit", and the circuit has no ends.
    """
    bare = CalibrationCircuit(circuit.n_qubits, circuit)
    if method != CIRCUIT:
        return [(bare, bare.ends[0])]
    if circuit.ends is None:
        raise ProblemError(
            f"mitigation={method!r} needs a circuit that can prepare all 0 and all 1, and {circuit.name!r} knows no "
            "angles for that; use mitigation='confusion'"
        )
    angles, told = circuit.ends
    return [(circuit, angles)] if len(told) == circuit.n_qubits else [(bare, bare.ends[0]), (circuit, angles)]


def confusion_matrices(distributions: NDArray, shots: int, qubits: Iterable[int] | None = None) -> NDArray:
    """P(measured | prepared) of each qubit from the read-outs of a calibration circuit.

    Parameters
    ----------
    distributions : array of shape (2, 2^q)
        With every qubit prepared in 0, and in 1; little-endian.
    shots : int
        Behind each.
    qubits : iterable of int, optional
        Those that were so prepared, k of them; all by default.

    Returns
    -------
    array of shape (k, 2, 2)

    Raises
    ------
    DeviceError
        A qubit reads the same whatever it was prepared in, within 5 standard deviations of these shots.
    """
    outcomes = np.arange(distributions.shape[1])
    factors = []
    for k in range(int(np.log2(len(outcomes)))) if qubits is None else qubits:
        up, kept = distributions[:, (outcomes >> k) & 1 == 1].sum(axis=1)  # P(1 | 0), P(1 | 1)
        spread = np.sqrt((up * (1 - up) + kept * (1 - kept)) / shots)
        if abs(kept - up) <= SINGULAR_SIGMAS * spread or kept == up:
            raise DeviceError(
                f"mitigation: qubit {k} reads 1 with probability {up:.3f} prepared in 0 and {kept:.3f} prepared in 1; "
                f"with {shots} shots its confusion matrix is singular, and nothing can be undone"
            )
        factors.append([[1 - up, 1 - kept], [up, kept]])
    return np.array(factors)


def mitigate(method: str, readout: Readout, factors: ArrayLike) -> NDArray:
    """The distributions of a read-out with the confusion undone, projected to the nearest distributions.

    "confusion" and "circuit" invert the tensored matrix on all 2^q outcomes, O(q 2^q). "mthree" inverts it on the
    outcomes that were measured (Nation, Kang, Sundaresan, Gambetta, PRX Quantum 2, 040326 (2021)), in single precision.

    Parameters
    ----------
    readout : Readout
        Little-endian, with counts.
    factors : array of shape (q, 2, 2)
        Of `confusion_matrices`.

    Returns
    -------
    array of shape (2^q,) or (k, 2^q)
        No longer whole numbers of shots.
    """
    if method == "mthree":
        assert readout.counts is not None  # mitigation goes with shots
        rows = [_mthree(counts, np.asarray(factors, dtype=float)) for counts in np.atleast_2d(readout.counts)]
        return np.array(rows).reshape(readout.counts.shape)
    return nearest_distribution(apply_tensored(np.linalg.inv(np.asarray(factors, dtype=float)), readout.probabilities))


def overhead(factors: ArrayLike) -> float:
    """By how much mitigation multiplies the variance of a mean of outcomes at most: ‖C⁻¹‖₁²."""
    inverse = np.linalg.inv(np.asarray(factors, dtype=float))
    return float(np.prod(np.abs(inverse).sum(axis=1).max(axis=1)) ** 2)


def _mthree(counts: NDArray, factors: NDArray) -> NDArray:
    import mthree

    qubits = len(factors)
    corrector: Any = mthree.M3Mitigation()
    corrector.cals_from_matrices(list(factors))
    seen = {format(i, f"0{qubits}b"): int(counts[i]) for i in np.flatnonzero(counts)}
    quasi = np.zeros(len(counts))
    for outcome, value in corrector.apply_correction(seen, range(qubits)).items():
        quasi[int(outcome, 2)] = value
    # Projected over the outcomes M3 works on: those it never saw stay at 0.
    measured = counts > 0
    quasi[measured] = nearest_distribution(quasi[measured])
    return quasi
