"""Error mitigation: one confusion matrix for each qubit, measured on the device and inverted.

Methods "confusion" and "mthree" calibrate the read-out alone. Method "circuit" runs the circuit itself at angles with a
known outcome. Its matrices also contain gate errors that flip a qubit with the same probability at all angles, as
depolarising errors do; compare Urbanek, Nachman, Pascuzzi, He, Bauer, de Jong, PRL 127, 270502 (2021), whose estimation
circuit keeps the two-qubit gates only. Errors of several qubits together, and errors that depend on the state, are not
mitigated.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import DeviceError, ProblemError, SolverUnavailable
from ..circuits import ParametricCircuit
from ..circuits.calibration import CalibrationCircuit
from ..devices import Readout
from ..devices.confusion import apply_tensored, nearest_distribution

#: Method that calibrates the circuit itself.
CIRCUIT = "circuit"
METHODS = ("confusion", "mthree", CIRCUIT)
#: Fewest shots of each calibration circuit.
CALIBRATION_SHOTS = 10_000
#: A confusion matrix is singular if its determinant 1 − P(1|0) − P(0|1) is within this many standard deviations of 0.
SINGULAR_SIGMAS = 5.0


def check_method(mitigation: str | None, exact: bool) -> None:
    """Raise `ProblemError` if the option ``mitigation`` is not known, or distributions are exact."""
    if mitigation is None:
        return
    if mitigation not in METHODS:
        raise ProblemError(f"mitigation={mitigation!r} is not one of {', '.join(map(repr, METHODS))}, or None")
    if exact:
        raise ProblemError(
            f"mitigation={mitigation!r} corrects counts and needs shots; set shots, for example "
            "shots=10_000, or mitigation=None"
        )


def check_installed(mitigation: str | None) -> None:
    """Raise `SolverUnavailable` with the pip command if a method's package is missing."""
    if mitigation == "mthree" and importlib.util.find_spec("mthree") is None:
        raise SolverUnavailable(
            "mitigation='mthree' needs mthree, which is not installed: pip install 'dualflow[mitigation]' "
            "(mitigation='confusion' needs no package)"
        )


def calibrations(method: str, circuit: ParametricCircuit) -> list[tuple[ParametricCircuit, NDArray]]:
    """Return the circuits that calibrate a circuit, each with two bindings, those of its `ends`.

    If there are two, the second one replaces matrices of the first one by better ones.

    Raises
    ------
    ProblemError
        The method is "circuit", and the circuit has no ends.
    """
    plain_circuit = CalibrationCircuit(circuit.n_qubits, circuit)
    if method != CIRCUIT:
        return [(plain_circuit, plain_circuit.ends[0])]
    if circuit.ends is None:
        raise ProblemError(
            f"mitigation={method!r} needs a circuit that can prepare all 0 and all 1, and {circuit.name!r} has no "
            "known angles for that; use mitigation='confusion'"
        )
    angles, prepared = circuit.ends
    return (
        [(circuit, angles)]
        if len(prepared) == circuit.n_qubits
        else [(plain_circuit, plain_circuit.ends[0]), (circuit, angles)]
    )


def confusion_matrices(distributions: NDArray, shots: int, qubits: Iterable[int] | None = None) -> NDArray:
    """Return P(measured | prepared) of each qubit from the read-outs of a calibration circuit.

    Parameters
    ----------
    distributions : array of shape (2, 2^q)
        Little-endian; with every qubit prepared in 0, and in 1.
    shots : int
        Of each distribution.
    qubits : iterable of int, optional
        The k qubits that were prepared; all by default.

    Returns
    -------
    array of shape (k, 2, 2)

    Raises
    ------
    DeviceError
        The read-outs of a qubit prepared in 0 and in 1 differ by less than 5 standard deviations.
    """
    outcomes = np.arange(distributions.shape[1])
    factors = []
    for k in range(int(np.log2(len(outcomes)))) if qubits is None else qubits:
        up, stays = distributions[:, (outcomes >> k) & 1 == 1].sum(axis=1)  # P(1 | 0), P(1 | 1)
        spread = np.sqrt((up * (1 - up) + stays * (1 - stays)) / shots)
        if abs(stays - up) <= SINGULAR_SIGMAS * spread or stays == up:
            raise DeviceError(
                f"mitigation: qubit {k} reads 1 with probability {up:.3f} prepared in 0 and {stays:.3f} prepared in 1; "
                f"with {shots} shots its confusion matrix is singular and cannot be inverted; calibrate the device, or "
                "use mitigation=None"
            )
        factors.append([[1 - up, 1 - stays], [up, stays]])
    return np.array(factors)


def mitigate(method: str, readout: Readout, factors: ArrayLike) -> NDArray:
    """Return a read-out's distributions with inverted confusion, projected to the nearest distributions.

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
        Times the shots, the entries are no longer whole numbers.
    """
    if method == "mthree":
        assert readout.counts is not None  # mitigation needs shots
        rows = [_mthree(counts, np.asarray(factors, dtype=float)) for counts in np.atleast_2d(readout.counts)]
        return np.array(rows).reshape(readout.counts.shape)
    return nearest_distribution(apply_tensored(np.linalg.inv(np.asarray(factors, dtype=float)), readout.probabilities))


def overhead(factors: ArrayLike) -> float:
    """Return ‖C⁻¹‖₁², the largest factor by which mitigation multiplies the variance of a mean of outcomes."""
    inverse = np.linalg.inv(np.asarray(factors, dtype=float))
    return float(np.prod(np.abs(inverse).sum(axis=1).max(axis=1)) ** 2)


def _mthree(counts: NDArray, factors: NDArray) -> NDArray:
    """Return the mitigated distribution of one row of counts by mthree."""
    import mthree

    qubits = len(factors)
    corrector: Any = mthree.M3Mitigation()
    corrector.cals_from_matrices(list(factors))
    seen = {format(i, f"0{qubits}b"): int(counts[i]) for i in np.flatnonzero(counts)}
    quasi = np.zeros(len(counts))
    for outcome, value in corrector.apply_correction(seen, range(qubits)).items():
        quasi[int(outcome, 2)] = value
    # Project over the outcomes that were measured; M3 leaves the others at 0.
    measured = counts > 0
    quasi[measured] = nearest_distribution(quasi[measured])
    return quasi
