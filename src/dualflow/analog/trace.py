"""The waveforms of a simulated circuit."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray


@dataclass(frozen=True)
class Trace:
    """The waveforms of a circuit in the problem's units, at k times that the simulator chose.

    Attributes
    ----------
    seconds : array of shape (k,)
        Time of the circuit from its start.
    t : array of shape (k,)
        Time of the flow, in the units of `dualflow.flows`.
    alpha : array of shape (k, n)
        α from the voltages; it may be infeasible.
    multiplier : array of shape (k,)
        ν, or λ of Lotka-Volterra, in the sign of ρ = Qα − p − νe; 0 without an equality.
    held : array of shape (k, m)
        Volts on the capacitors, from which another run can continue: one for each variable with u > 0, and that of the
        multiplier.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow.analog import Trace
    >>> Trace(np.zeros(1), np.zeros(1), np.array([[0.5, 0.5]]), np.zeros(1), np.array([[2.5, 2.5]])).alpha.shape
    (1, 2)
    """

    seconds: NDArray
    t: NDArray
    alpha: NDArray
    multiplier: NDArray
    held: NDArray
