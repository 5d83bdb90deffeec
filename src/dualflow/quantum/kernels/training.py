"""Trainable kernels: free parameters of a feature map, found by kernel-target alignment with adjoint gradients."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import type_of_target

from ...core.kernel_functions import as_matrix, check_number
from ...core.options import Number
from ...core.runtime.random import generator_of
from ...exceptions import ProblemError
from ..circuits.adjoint import angle_gradients
from .alignment import alignment_between, alignment_slopes, target_matrix
from .base import KEPT_AMPLITUDES, QuantumKernel
from .maps import StepsMap

__all__ = ["KernelTraining", "Losses", "train_kernel"]

#: Above which p what was learnt is not seen in the points held out.
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class KernelTraining:
    """What `train_kernel` found.

    Attributes
    ----------
    kernel : FidelityKernel or ProjectedKernel
        A new one at the weights found, on the device and with the shots of the one that was given.
    weights : array of shape (W,)
    alignment : array of shape (steps + 1,)
        On the points it was trained on, from the beginning to the end.
    held_out : tuple of two floats, or None
        Before and after, of the kernel *between* points that no step has seen and those trained on: what predictions
        are made of. It has no diagonal, and labels that mean nothing give 0 in the mean. None if none were held out.
    p_value : float or None
        Share of 999 permutations of the labels held out, and one, that give an alignment as high as the one after.
    n_trained, n_held_out : int
    evaluations : int
        Of the alignment and its gradient together.
    message : str
        Why it ended, in scipy's words.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import ProjectedKernel, Reuploading, train_kernel
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 2))
    >>> found = train_kernel(ProjectedKernel(Reuploading(layers=1)), X, np.sign(X[:, 0] * X[:, 1]), held_out=0)
    >>> bool(found.alignment[-1] > found.alignment[0]), found.held_out
    (True, None)
    """

    kernel: Any
    weights: NDArray
    alignment: NDArray
    held_out: tuple[float, float] | None
    p_value: float | None
    n_trained: int
    n_held_out: int
    evaluations: int
    message: str

    def __str__(self) -> str:
        first, last = self.alignment[0], self.alignment[-1]
        text = f"alignment {first:.3f} → {last:.3f} on {self.n_trained} points"
        if self.held_out is None:
            return f"{text}; none held out, which says nothing of new points"
        outside = f"{self.held_out[0]:.3f} → {self.held_out[1]:.3f} between them and {self.n_held_out} held out"
        return f"{text}, {outside} (p = {self.p_value:.2g})"


def train_kernel(
    kernel: QuantumKernel,
    X: ArrayLike,
    y: ArrayLike,
    *,
    steps: int = 100,
    held_out: float = 0.25,
    random_state: int | np.random.Generator | None = 0,
) -> KernelTraining:
    """Find weights of a kernel's feature map that align it with labels, by L-BFGS-B with exact gradients.

    The alignment (`kernel_alignment`) is that of the exact kernel, computed from states, whatever device and shots the
    kernel has; its gradient comes from one sweep back through the circuit (Jones & Gacon, arXiv:2009.02823), at the
    price of three circuits for all weights together. A maximum found so is a local one.

    Alignment on the points it was trained on rises with the number of weights, whether or not it means anything: it
    is a figure about those points. Hence a part is held out, and a warning says where the alignment with it fell, or
    is no higher than labels in another order give (p > 0.05). A high one is no promise of accuracy either, nor of one
    above a classical kernel's: search C (and γ) afterwards, on points that were not trained on, and hold an RBF kernel
    beside it.

    Parameters
    ----------
    kernel : FidelityKernel or ProjectedKernel
        With free weights: a `Reuploading` map, or a Qiskit circuit with ``weights={…}``. Where they stand is where it
        begins; it is not changed.
    X : array of shape (n, m)
    y : array of shape (n,)
        Labels of two or more classes, or real targets.
    steps : int ≥ 1, default=100
        Iterations at most.
    held_out : float in [0, 1), default=0.25
        Share of the points that no step sees, drawn with the classes' shares kept.
    random_state : int, numpy.random.Generator or None, default=0
        Draws those points.

    Returns
    -------
    KernelTraining

    Raises
    ------
    ProblemError
        The map has no weights, an angle no derivative, y does not fit, or a parameter is out of range.
    TypeError
        The kernel is none of dualflow's quantum kernels.

    Warns
    -----
    UserWarning
        What was learnt is not seen in the points held out.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from dualflow import SVC, ProjectedKernel, Reuploading, train_kernel
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> found = train_kernel(ProjectedKernel(Reuploading(layers=2)), X, y, steps=20)
    >>> bool(found.held_out[1] > found.held_out[0])
    True
    >>> SVC(kernel=found.kernel, C=10).fit(X, y).score(X, y) > 0.9
    True
    """
    if not isinstance(kernel, QuantumKernel):
        raise TypeError(f"kernel must be a FidelityKernel or a ProjectedKernel, found {type(kernel).__name__}")
    Number(at_least=1, whole=True).check("steps", steps)
    share = check_number(held_out, "held_out", lower=0.0)
    if share >= 1:
        raise ProblemError(f"held_out={held_out!r} must be in [0, 1): something is to be trained on")
    X = as_matrix(X, "X")
    feature_map = kernel._settle(X.shape[1])
    if not isinstance(feature_map, StepsMap) or not len(feature_map.weights):
        raise ProblemError(
            "kernel: its feature map has no weights; use Reuploading(), or a Qiskit circuit with weights={parameter: "
            "value}"
        )
    if len(X) * 2**feature_map.n_qubits > KEPT_AMPLITUDES:
        raise ProblemError(
            f"X: the states of {len(X)} points on {feature_map.n_qubits} qubits take more than {KEPT_AMPLITUDES} "
            "amplitudes; train on fewer points"
        )
    y = np.asarray(y)
    target_matrix(y, len(X))
    train, rest = _parts(y, share, generator_of(random_state))
    losses = Losses(kernel, feature_map, X[train], target_matrix(y[train], len(train)))
    begin = feature_map.weights
    history = [-losses(begin)[0]]
    found = minimize(
        losses,
        begin,
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: history.append(-float(intermediate_result.fun)),
        options={"maxiter": int(steps)},
    )
    best = kernel.with_weights(found.x)
    outside, p = None, None
    if len(rest):
        parts = np.concatenate([rest, train])
        (first, _), (last, p) = (
            alignment_between(losses.matrix(w, X[parts])[: len(rest), len(rest) :], y[rest], y[train])
            for w in (begin, found.x)
        )
        outside = (first, last)
    trained = KernelTraining(
        best,
        found.x.copy(),
        np.array(history),
        outside,
        p,
        len(train),
        len(rest),
        int(found.nfev) + 1,
        str(found.message),
    )
    if outside is not None and p is not None and (outside[1] < outside[0] or p > LEVEL):
        warnings.warn(
            f"train_kernel: {trained}: that what was learnt holds for new points is not seen. Take more points, fewer "
            "weights (layers), or fewer steps",
            UserWarning,
            stacklevel=2,
        )
    return trained


class Losses:
    """−alignment and its gradient as a function of the weights, at fixed points."""

    def __init__(self, kernel: QuantumKernel, feature_map: StepsMap, X: NDArray, target: NDArray) -> None:
        self.kernel, self.map, self.X, self.target = kernel, feature_map, X, target

    def value(self, weights: NDArray) -> float:
        """−alignment alone."""
        return -alignment_slopes(self.matrix(weights, self.X), self.target)[0]

    def matrix(self, weights: NDArray, X: NDArray) -> NDArray:
        """The exact kernel matrix of any points."""
        return self.kernel._matrix_of(self.map.with_weights(weights).states(X))

    def __call__(self, weights: NDArray) -> tuple[float, NDArray]:
        here = self.map.with_weights(np.asarray(weights, dtype=float))
        states = here.states(self.X)
        K = self.kernel._matrix_of(states)
        value, slopes = alignment_slopes(K, self.target)
        cotangents = self.kernel._cotangents(states, K, slopes)
        angles = here.angles_of(self.X)
        gradients = angle_gradients(here.n_qubits, here.steps, angles, states, cotangents)
        return -value, -here.angles.pull(self.X, here.weights, gradients)


def _parts(y: NDArray, share: float, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Numbers of the points to train on, and of those held out."""
    everything = np.arange(len(y))
    if share == 0:
        return everything, everything[:0]
    groups = None if type_of_target(y) == "continuous" else y
    try:
        train, rest = train_test_split(
            everything, test_size=share, stratify=groups, random_state=int(rng.integers(2**31))
        )
    except ValueError as error:
        raise ProblemError(f"held_out={share} of {len(y)} points: {error}; give more points, or held_out=0") from error
    return np.sort(train), np.sort(rest)
