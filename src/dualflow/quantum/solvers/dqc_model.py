"""Differentiable quantum circuits: a trajectory as expectation values of a circuit whose angle is the time.

Kyriienko, Paine, Elfving, "Solving nonlinear differential equations with differentiable quantum circuits", PRA 103,
052416 (2021). On a window of length h that starts in y₀,

    y(t) = y₀ + W (F(x) − F(x₀)),   F_j(x) = ⟨Z_j⟩ of `ChebyshevCircuit` at φ = arccos x,   x = s·ξ, ξ ∈ [−1, 1],

so that the initial value holds exactly (their floating boundary). The angles θ and the weights W of the read-out (equal
weights are their total magnetisation) minimise the mean square of (h/2)(ẏ − rate(y)) at the collocation points.

Derivatives are exact, by shift rules, from circuits that any device runs:

- in θ, ∂F = ½[F(θ + π/2) − F(θ − π/2)];
- in φ, F is a trigonometric polynomial of degree R = q(q + 1)/2, so that F on 2R + 1 equispaced φ gives F and dF/dφ
  anywhere (the shift rule for equidistant frequencies with its points shared: Wierichs, Izaac, Wang, Lin, Quantum 6,
  677 (2022), eq. 20). The check on the dense grid does not use this: it shifts each feature gate by itself.

With the first, training is a least-squares problem whose Jacobian comes from one batch of circuits
(Levenberg-Marquardt). The second shows that the model is a classical trigonometric polynomial, fitted through a
circuit: no advantage is claimed. JAX is not used: it saves milliseconds an iteration, but compiles for seconds, longer
than most runs take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.runtime.threads import cached_property
from ..circuits.chebyshev import ChebyshevCircuit
from ..runs.laboratory import Account, Laboratory, Ledger

COLLOCATIONS = ("chebyshev-lobatto", "uniform")
#: s, the share of [−1, 1] that a window takes; dφ/dx is infinite at the ends of [−1, 1].
WINDOW_SHARE = 0.8
#: Points of the dense grid per collocation point.
DENSE_POINTS_PER_COLLOCATION = 10
#: Levenberg-Marquardt: first damping ...
FIRST_DAMPING = 1e-3
#: ... its factor after an accepted trial ...
DAMPING_DECREASE = 0.2
#: ... its factor after a rejected trial ...
DAMPING_INCREASE = 5.0
#: ... and the largest number of trials in an iteration.
MAX_TRIALS = 6


class Flow(Protocol):
    """A flow: its `rate` and `jacobian` for states of shape (k, size)."""

    def rate(self, y: NDArray) -> NDArray: ...

    def jacobian(self, y: NDArray) -> NDArray: ...


@dataclass(frozen=True)
class Fit:
    """The parameters that training changes, and its progress."""

    theta: NDArray  # shape (P,)
    weights: NDArray  # W; shape (size, q)
    damping: float  # damping of the next Levenberg-Marquardt iteration
    rms: float  # root mean square of (h/2)(ẏ − rate(y)) at the collocation points
    stalled: bool  # no trial of the last iteration lowered ``rms``


class Executor(Ledger):
    """Measures a circuit's expectation values, and counts its bindings, each of which is a circuit on hardware."""

    def __init__(self, lab: Laboratory, account: Account, circuit: ChebyshevCircuit) -> None:
        super().__init__(lab, account)
        self.circuit = circuit
        bits = np.arange(2**circuit.n_qubits)[:, None] >> np.arange(circuit.n_qubits) & 1
        self._signs = 1.0 - 2.0 * bits

    def run(self, parameters: NDArray) -> NDArray:
        """Return the exact ⟨Z_j⟩ of every qubit, shape (k, q), for parameters of shape (k, q + P)."""
        return self.measure(self.circuit, parameters, None) @ self._signs


def collocation_points(points: int, collocation: str) -> NDArray:
    """Return ξ in [−1, 1], ascending, ends included, shape (points,)."""
    k = np.arange(points)
    return -np.cos(np.pi * k / (points - 1)) if collocation == COLLOCATIONS[0] else -1.0 + 2.0 * k / (points - 1)


class Window:
    """The ansatz on a window: the quantities that do not depend on θ, W and the flow.

    Parameters
    ----------
    circuit : ChebyshevCircuit
    points : int
        Number of collocation points.
    collocation : {"chebyshev-lobatto", "uniform"}
    """

    def __init__(self, circuit: ChebyshevCircuit, points: int, collocation: str = COLLOCATIONS[0]) -> None:
        self.circuit = circuit
        self.xi = collocation_points(points, collocation)
        self.dense = np.linspace(-1.0, 1.0, DENSE_POINTS_PER_COLLOCATION * points)

    @cached_property
    def grid(self) -> NDArray:
        """The 2R + 1 equispaced φ that determine F."""
        count = 2 * self.circuit.degree + 1
        return 2 * np.pi * np.arange(count) / count

    @cached_property
    def readers(self) -> tuple[NDArray, NDArray]:
        """Matrices from F on the grid to F(x) − F(x₀) and dF/dξ at the collocation points, shape (points, 2R + 1)."""
        count, k = len(self.grid), np.arange(1, self.circuit.degree + 1)
        arc = np.arccos(WINDOW_SHARE * self.xi)
        angle = (arc[:, None] - self.grid)[..., None] * k
        values = (1.0 + 2.0 * np.cos(angle).sum(axis=-1)) / count
        slopes = -2.0 / count * (np.sin(angle) @ k)
        return values - values[0], slopes * (-WINDOW_SHARE / np.sin(arc))[:, None]

    def begin(self, run: Executor, flow: Flow, y0: NDArray, h: float, theta: NDArray) -> Fit:
        """Return the first fit: the given angles, and W by linear least squares from the slope at y₀."""
        slopes = self.readers[1]
        F = run.run(self.circuit.angles(self.grid, theta))
        first = np.tile(flow.rate(y0[None]), (len(self.xi), 1))
        # The cut-off keeps weights small along directions that F's slopes hardly determine.
        weights = np.linalg.lstsq(slopes @ F * (2.0 / h), first, rcond=1e-3)[0].T
        return Fit(theta, weights, FIRST_DAMPING, _rms(self._residual(flow, F, weights, y0, h)), False)

    def improve(self, run: Executor, flow: Flow, y0: NDArray, h: float, fit: Fit) -> Fit:
        """Return the fit after one Levenberg-Marquardt iteration.

        The Jacobian takes (2P + 1)(2R + 1) circuits, each trial 2R + 1.
        """
        J, residual = self._linearise(run, flow, y0, h, fit)
        A, b, n_angles, damping = J.T @ J, J.T @ residual, len(fit.theta), fit.damping
        scale = np.diag(np.diag(A) + 1e-8)
        for _ in range(MAX_TRIALS):
            change = np.linalg.solve(A + damping * scale, -b)
            theta = fit.theta + change[:n_angles]
            weights = fit.weights + change[n_angles:].reshape(fit.weights.shape)
            F = run.run(self.circuit.angles(self.grid, theta))
            with np.errstate(over="ignore", invalid="ignore"):  # a trial far away may overflow; it is rejected
                rms = _rms(self._residual(flow, F, weights, y0, h))
            if rms < _rms(residual):
                return Fit(theta, weights, max(DAMPING_DECREASE * damping, 1e-12), rms, False)
            damping *= DAMPING_INCREASE
        return Fit(fit.theta, fit.weights, damping, fit.rms, True)

    def check(self, run: Executor, flow: Flow, y0: NDArray, h: float, fit: Fit) -> tuple[NDArray, float, float]:
        """Return the trajectory on the dense grid and its residual; each point takes 2q + 1 circuits of its own.

        Returns
        -------
        y : array of shape (10·points, size)
        residual : float
            Root mean square of (h/2)(ẏ − rate(y)) there.
        size : float
            Root mean square of (h/2) rate(y) there, with which the residual is compared.
        """
        q, arc = self.circuit.n_qubits, np.arccos(WINDOW_SHARE * self.dense)
        at = self.circuit.angles(arc, fit.theta)
        shifts = 0.5 * np.pi * np.eye(q, at.shape[1])
        F = run.run(np.concatenate([at, *(at + shift for shift in shifts), *(at - shift for shift in shifts)]))
        F = F.reshape(2 * q + 1, len(arc), q)
        by_gate = 0.5 * (F[1 : q + 1] - F[q + 1 :])
        slopes = np.tensordot(self.circuit.frequencies, by_gate, axes=1) * (-WINDOW_SHARE / np.sin(arc))[:, None]
        y = y0 + (F[0] - F[0, 0]) @ fit.weights.T
        rate = flow.rate(y)
        return y, _rms(slopes @ fit.weights.T - 0.5 * h * rate), _rms(0.5 * h * rate)

    def _residual(self, flow: Flow, F: NDArray, weights: NDArray, y0: NDArray, h: float) -> NDArray:
        """Return (h/2)(ẏ − rate(y)) at the collocation points, shape (points, size), from F on the grid."""
        values, slopes = self.readers
        return slopes @ F @ weights.T - 0.5 * h * flow.rate(y0 + values @ F @ weights.T)

    def _linearise(self, run: Executor, flow: Flow, y0: NDArray, h: float, fit: Fit) -> tuple[NDArray, NDArray]:
        """Return the residual's Jacobian in (θ, W), shape (points·size, P + size·q), and the residual, flat."""
        values, slopes = self.readers
        n_angles, W = len(fit.theta), fit.weights
        shift = 0.5 * np.pi * np.eye(n_angles)
        thetas = np.concatenate([fit.theta[None], fit.theta + shift, fit.theta - shift])
        F = run.run(self.circuit.angles(self.grid, thetas)).reshape(len(thetas), len(self.grid), -1)
        dF = 0.5 * (F[1 : n_angles + 1] - F[n_angles + 1 :])
        inner = 0.5 * h * flow.jacobian(y0 + values @ F[0] @ W.T)
        change = np.einsum("am,pmj,ij->aip", values, dF, W, optimize=True)
        by_theta = np.einsum("am,pmj,ij->aip", slopes, dF, W, optimize=True) - inner @ change
        by_weight = np.einsum("aj,ib->aibj", slopes @ F[0], np.eye(len(W)))
        by_weight -= np.einsum("aib,aj->aibj", inner, values @ F[0])
        rows = len(self.xi) * len(W)
        J = np.hstack([by_theta.reshape(rows, -1), by_weight.reshape(rows, -1)])
        return J, self._residual(flow, F[0], W, y0, h).ravel()


def _rms(values: NDArray) -> float:
    return float(np.sqrt(np.mean(values**2)))
