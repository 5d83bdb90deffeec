"""Training of quantum kernels: weights of a feature map by kernel-target alignment and adjoint gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import type_of_target

from ...core.kernel_functions import check_number
from ...core.options import Number
from ...core.runtime.random import generator_of
from ...core.runtime.warn import warn_user
from ...exceptions import ProblemError
from ..circuits.adjoint import angle_gradients
from .alignment import alignment_between, alignment_slopes, target_matrix
from .base import MAX_CACHED_AMPLITUDES, QuantumKernel
from .maps import StepsMap

#: Largest p-value at which the held-out points confirm the training.
MAX_P_VALUE = 0.05


@dataclass(frozen=True, eq=False)
class KernelTraining:
    """The result of `train_kernel`.

    Attributes
    ----------
    kernel : FidelityKernel or ProjectedKernel
        A new kernel at the weights found, with the device and shots of the given one.
    weights : array of shape (W,)
    alignment : array of shape (steps + 1,)
        Alignment on the training points before the first and after each step.
    held_out : tuple of two floats, or None
        Alignment before and after, of the kernel *between* held-out and training points, from which predictions are
        made. This block has no diagonal, and random labels give 0 in the mean. None if no points were held out.
    p_value : float or None
        (k + 1)/1000, where k of 999 permutations of the held-out labels give at least the alignment after training.
    n_trained, n_held_out : int
    evaluations : int
        Evaluations of the alignment with its gradient.
    message : str
        SciPy's reason for the end.

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
            return f"{text}; no points held out, so that it is not checked on new points"
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
    """Find weights of a kernel's feature map that maximise its alignment with labels, by L-BFGS-B with exact gradients.

    The alignment (`kernel_alignment`) is that of the exact kernel, computed from states, also if the kernel has another
    device or shots. Its gradient comes from one backward sweep through the circuit (Jones & Gacon, arXiv:2009.02823),
    at the cost of three circuits for all weights together. The maximum found is a local one.

    The alignment on the training points grows with the number of weights, also if new points do not share it. Therefore
    a part of the points is held out, and a warning is given if the alignment with them fell, or is no higher than with
    permuted labels (p > 0.05). A high alignment does not guarantee accuracy, nor an accuracy above a classical
    kernel's: search C (and γ) afterwards, on points that were not trained on, and compare with an RBF kernel.

    Parameters
    ----------
    kernel : FidelityKernel or ProjectedKernel
        A kernel with free weights: a `Reuploading` map, or a Qiskit circuit with ``weights={…}``. Training starts at
        its weights; the kernel is not changed.
    X : array of shape (n, m)
    y : array of shape (n,)
        Labels of two or more classes, or real targets.
    steps : int ≥ 1, default=100
        Largest number of iterations.
    held_out : float in [0, 1), default=0.25
        Share of the points that is not trained on, drawn with the proportions of the classes kept.
    random_state : int, numpy.random.Generator or None, default=0
        Seed of this draw.

    Returns
    -------
    KernelTraining

    Raises
    ------
    ProblemError
        The map has no weights, an angle has no derivative, y does not fit, or a parameter is out of range.
    TypeError
        The kernel is none of dualflow's quantum kernels.

    Warns
    -----
    UserWarning
        The held-out points do not confirm the training.

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
        raise ProblemError(f"held_out={held_out!r} must be in [0, 1): at least one point must be trained on")
    X = kernel._scaled(X, "X")
    feature_map = kernel._map_for(X.shape[1])
    if not isinstance(feature_map, StepsMap) or not len(feature_map.weights):
        raise ProblemError(
            "kernel: its feature map has no weights; use Reuploading(), or a Qiskit circuit with weights={parameter: "
            "value}"
        )
    if len(X) * 2**feature_map.n_qubits > MAX_CACHED_AMPLITUDES:
        raise ProblemError(
            f"X: the states of {len(X)} points on {feature_map.n_qubits} qubits take more than {MAX_CACHED_AMPLITUDES} "
            "amplitudes; train on fewer points"
        )
    y = np.asarray(y)
    target_matrix(y, len(X))
    train, rest = _split(y, share, generator_of(random_state))
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
        (first, _), (last, p) = (_held_out_alignment(losses, w, X, y, train, rest) for w in (begin, found.x))
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
    if outside is not None and p is not None and (outside[1] < outside[0] or p > MAX_P_VALUE):
        warn_user(
            f"train_kernel: {trained}: the points held out do not confirm the training. Take more points, fewer "
            "weights (layers), or fewer steps"
        )
    return trained


class Losses:
    """The loss −alignment and its gradient as functions of the weights, for fixed points."""

    def __init__(self, kernel: QuantumKernel, feature_map: StepsMap, X: NDArray, target: NDArray) -> None:
        self.kernel, self.map, self.X, self.target = kernel, feature_map, X, target

    def value(self, weights: NDArray) -> float:
        """Return −alignment without its gradient."""
        return -alignment_slopes(self.matrix(weights, self.X), self.target)[0]

    def matrix(self, weights: NDArray, X: NDArray) -> NDArray:
        """Return the exact kernel matrix of points X."""
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


def _held_out_alignment(
    losses: Losses, weights: NDArray, X: NDArray, y: NDArray, train: NDArray, rest: NDArray
) -> tuple[float, float]:
    """Return the alignment between held-out and training points at some weights, and its p-value."""
    K = losses.matrix(weights, X[np.concatenate([rest, train])])
    return alignment_between(K[: len(rest), len(rest) :], y[rest], y[train])


def _split(y: NDArray, share: float, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Return the numbers of the training points, and of the held-out ones."""
    numbers = np.arange(len(y))
    if share == 0:
        return numbers, numbers[:0]
    groups = None if type_of_target(y) == "continuous" else y
    try:
        train, rest = train_test_split(numbers, test_size=share, stratify=groups, random_state=int(rng.integers(2**31)))
    except ValueError as error:
        raise ProblemError(f"held_out={share} of {len(y)} points: {error}; give more points, or held_out=0") from error
    return np.sort(train), np.sort(rest)
