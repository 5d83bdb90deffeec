"""The streams of Howell et al., "Machine Learning as Ecology" (1908.00868), and the rules by which they are learned.

Boundaries are those of the published scripts, on points uniform in [0, 1]^p: B₁, x₁ < ½; B₂, x₁ < ½ + ε Π sin 2πxⱼ
(j = 2 … p) with ε = 0.1. The first points are solved as a batch, then they arrive one at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from benchmarks.lib import data
from dualflow import SVC, SVDD, EcoSVC, EcoSVDD

#: Strength of the nonlinearity of B₂, and σ of the balls.
EPSILON, SIGMA = 0.1, 1.0
#: Between two looks at a stream of a boundary or a ball.
LOOK = 20
#: The scripts' threshold: a weight below it is none.
THRESHOLD = 1e-3
#: The MNIST script's C, and N_s.
DIGITS_C, DIGITS_FIRST = 5.321, 5


class Corrected:
    """EcoSVM as the paper writes it: x₀ invades if t₀f(x₀) < 1 (17, 19), and who loses its weight goes extinct."""

    reserve = 0.0

    def __init__(self, first: int, parameters: dict[str, Any]) -> None:
        self.model = EcoSVC(**parameters, n_init=first, reserve=self.reserve)
        self.C = float(self.model.C)

    def begin(self, X: NDArray, y: NDArray) -> None:
        with warnings.catch_warnings():  # the scripts' N_s is below p
            warnings.simplefilter("ignore", UserWarning)
            self.model.partial_fit(X, y, classes=[-1, 1])

    def meet(self, X: NDArray, y: NDArray) -> None:
        """One point."""
        self.model.partial_fit(X, y)

    def values(self, Z: NDArray) -> NDArray:
        found: NDArray = self.model.decision_function(Z)
        return found

    def counts(self) -> tuple[int, int]:
        """Survivors, and those of them that are active, 0 < α < C."""
        alpha = np.abs(self.model.dual_coef_[0])
        return int((alpha > THRESHOLD).sum()), int(((alpha > THRESHOLD) & (alpha < self.C - THRESHOLD)).sum())


class Reserve(Corrected):
    """The same that remembers as many near-survivors as survivors: our default."""

    reserve = 1.0


class Published(Corrected):
    """EcoSVM as the nonlinear and the MNIST script have it, without their loops.

    Their invasion test leaves αᵢ out: with k the survivor whose α is nearest to C/2, x₀ invades if
    1 − t₀t_k + t₀ Σ tᵢ(k_ik − k_i0) ≥ 0. Whom it admits without need gets no weight in the new equilibrium, so that
    it is a sieve before `EcoSVC`, which asks again. Their b is the mean over all survivors, those at C included. They
    also forget weights below 1e-3, which is not done here.

    Attributes
    ----------
    wrong, met : int
        Points turned away that (17) admits, and points met.
    """

    def __init__(self, first: int, parameters: dict[str, Any]) -> None:
        super().__init__(first, parameters)
        self.gamma, self.wrong, self.met = parameters.get("gamma"), 0, 0

    def begin(self, X: NDArray, y: NDArray) -> None:
        super().begin(X, y)
        self._read()

    def _read(self) -> None:
        model = self.model
        self.V, self.weights = model.support_vectors_, model.dual_coef_[0]
        self.sign, self.invasions = np.sign(self.weights), model.n_invasions_
        self.squares = np.einsum("ij,ij->i", self.V, self.V)
        k = int(np.argmin((np.abs(self.weights) - self.C / 2) ** 2))
        self.b = float((self.sign - self.kernel(self.V) @ self.weights).mean())
        self.true_b = float(model.intercept_[0])
        self.sign_k, self.sum_k = self.sign[k], float(self.kernel(self.V[k : k + 1])[0] @ self.sign)

    def kernel(self, Z: NDArray) -> NDArray:
        """Values between points and the survivors, shape (len(Z), survivors)."""
        product: NDArray = Z @ self.V.T
        if self.model.kernel == "linear":
            return product
        return np.exp(self.gamma * (2 * product - self.squares - np.einsum("ij,ij->i", Z, Z)[:, None]))

    def meet(self, X: NDArray, y: NDArray) -> None:
        row, t = self.kernel(X)[0], float(y[0])
        self.met += 1
        if 1 - t * self.sign_k + t * (self.sum_k - row @ self.sign) >= 0:
            self.model.partial_fit(X, y)
            if self.model.n_invasions_ != self.invasions:
                self._read()
        else:
            self.wrong += bool(t * (row @ self.weights + self.true_b) < 1 - 1e-9)

    def values(self, Z: NDArray) -> NDArray:
        found: NDArray = self.kernel(Z) @ self.weights + self.b
        return found


RULES: dict[str, type[Corrected]] = {"corrected": Corrected, "published": Published, "with a reserve": Reserve}


def learned(
    learner: Corrected, X: NDArray, y: NDArray, first: int, looks: Sequence[int], Z: NDArray, t: NDArray
) -> NDArray:
    """Learn a stream; rows of T, accuracy on Z, survivors, active ones, before the point after T is met."""
    wanted, rows = set(looks), []
    learner.begin(X[:first], y[:first])
    for k in range(first, len(X) + 1):
        if k in wanted:
            rows.append((k, float(((learner.values(Z) > 0) == (t > 0)).mean()), *learner.counts()))
        if k < len(X):
            learner.meet(X[k : k + 1], y[k : k + 1])
    return np.array(rows)


# --- boundaries: figures 2, 4 and 5 --------------------------------------------------------------


def below(X: NDArray, epsilon: float) -> NDArray:
    """+1 where x₁ < ½ + ε Π sin 2πxⱼ, −1 elsewhere: B₁ for ε = 0, B₂ for ε > 0."""
    return np.where(X[:, 0] < 0.5 + epsilon * np.sin(2 * np.pi * X[:, 1:]).prod(axis=1), 1, -1)


@dataclass(frozen=True)
class Stream:
    """A boundary in p dimensions, n points of which the first are a batch, and the model's parameters."""

    name: str
    figure: int
    epsilon: float
    p: int
    n: int
    first: int
    tests: int
    parameters: dict[str, Any]

    def points(self, seed: int, n: int) -> tuple[NDArray, NDArray]:
        X = np.random.default_rng([seed, self.figure, self.p, n]).uniform(size=(n, self.p))
        return X, below(X, self.epsilon)


HARD = {"kernel": "linear", "C": np.inf}
RBF = {"gamma": 2.0, "C": 100.0}
STREAMS = (
    Stream("B1, 2-D, hard margin", 4, 0.0, 2, 300, 10, 1000, HARD),
    Stream("B1, 20-D, hard margin", 4, 0.0, 20, 1000, 30, 1000, HARD),
    Stream("B2, 2-D, linear, C = 10", 5, EPSILON, 2, 800, 10, 600, {"kernel": "linear", "C": 10.0}),  # the script's
    Stream("B2, 2-D, RBF, C = 100", 5, EPSILON, 2, 600, 10, 1000, RBF),
    Stream("B2, 5-D, RBF, C = 100", 5, EPSILON, 5, 1000, 30, 1000, RBF),
)


def followed(stream: Stream, seed: int, rule: str) -> dict[str, Any]:
    """One realisation: T, A(T), N(T), and the batch's accuracy and number of support vectors."""
    (X, y), (Z, t) = stream.points(seed, stream.n), stream.points(seed + 1000, stream.tests)
    learner = RULES[rule](stream.first, stream.parameters)
    looks = [*range(stream.first, stream.n, LOOK), stream.n]
    rows = learned(learner, X, y, stream.first, looks, Z, t)[:, :3]
    batch = SVC(**stream.parameters).fit(X, y)
    ends = batch.score(Z, t), len(batch.support_)
    return {"looks": rows, "batch": ends, "learner": learner, "batch_model": batch, "data": (X, y)}


# --- digits: figure 3 ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Digits:
    """Ones (+1) against fours, train and test, with the script's γ = 1/p."""

    X: NDArray
    y: NDArray
    Z: NDArray
    t: NDArray
    what: str

    def scaled(self, how: str) -> tuple[NDArray, NDArray]:
        """Train and test "standardised" by the training set, as in the script, or as "pixels in [0, 1]"."""
        if how != "standardised":
            top = max(float(self.X.max()), 1.0)
            return self.X / top, self.Z / top
        mean, spread = self.X.mean(axis=0), self.X.std(axis=0)
        spread[spread == 0] = 1.0
        return (self.X - mean) / spread, (self.Z - mean) / spread

    @property
    def parameters(self) -> dict[str, Any]:
        return {"C": DIGITS_C, "gamma": 1.0 / self.X.shape[1]}

    def order(self, seed: int, n: int) -> NDArray:
        """The first n of the training points in a random order, drawn again while the first few are of one class."""
        rng = np.random.default_rng([seed, 3])
        while True:
            found: NDArray = rng.permutation(len(self.y))[:n]
            if len(set(self.y[found[:DIGITS_FIRST]])) == 2:
                return found


def mnist(folder: str | None) -> Digits:
    """MNIST's ones and fours, from mnist_1_4.npz or mnist.npz in the folder, or from OpenML."""
    where = data.data_folder(folder)
    if where and (where / "mnist_1_4.npz").is_file():
        with np.load(where / "mnist_1_4.npz") as archive:
            parts = [(archive[f"x_{part}"], archive[f"y_{part}"]) for part in ("train", "test")]
    else:
        parts = [data.load_mnist_part(part, folder) for part in ("train", "test")]
    found: list[NDArray] = []
    for images, digits in parts:
        rows = (digits == 1) | (digits == 4)
        found += [images[rows].reshape(rows.sum(), -1).astype(float), np.where(digits[rows] == 1, 1, -1)]
    return Digits(*found, what="MNIST")


def small_digits() -> Digits:
    """scikit-learn's 8 × 8 ones and fours, every third held out."""
    X, digits = load_digits(return_X_y=True)
    rows = np.isin(digits, (1, 4))
    X, y = X[rows], np.where(digits[rows] == 1, 1, -1)
    test = np.arange(len(y)) % 3 == 0
    return Digits(X[~test], y[~test], X[test], y[test], "8 x 8 digits")


# --- balls: figures 7 and 8 ----------------------------------------------------------------------


def ball(seed: int, p: int, n: int, first: int) -> dict[str, Any]:
    """One realisation of figures 7 and 8: T, R(T), S(T), and the batch's radius."""
    X = np.random.default_rng([seed, 7, p]).normal(0.5, 0.1, (n, p))
    parameters = {"nu": None, "gamma": 1 / (2 * SIGMA**2)}
    batch = SVDD(**parameters).fit(X)
    model = EcoSVDD(**parameters, n_init=first, reserve=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.partial_fit(X[:first])
    looks = []
    for k in range(first, n):
        if (k - first) % LOOK == 0:
            looks.append((k, model.radius_, similarity(model, batch)))
        model.partial_fit(X[k : k + 1])
    looks.append((n, model.radius_, similarity(model, batch)))
    return {"looks": np.array(looks), "batch": batch.radius_}


def similarity(one: EcoSVDD | SVDD, other: EcoSVDD | SVDD) -> float:
    """⟨a, a′⟩/(‖a‖‖a′‖) of two centres (31)."""

    def product(a: Any, b: Any) -> float:
        return float(a.dual_coef_[0] @ gaussian(a.support_vectors_, b.support_vectors_) @ b.dual_coef_[0])

    return product(one, other) / np.sqrt(product(one, one) * product(other, other))


def gaussian(A: NDArray, B: NDArray, sign: float = -1.0) -> NDArray:
    """exp(−‖x − z‖²/2σ²); with sign = 1 as the caption of figure 7 prints it."""
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
    found: NDArray = np.exp(sign * np.maximum(squares, 0.0) / (2 * SIGMA**2))
    return found


def linear_ball(seed: int, n: int, first: int, halved: bool, spread: float = 0.1) -> float:
    """Least R² that holds all points over that of a stream, linear kernel in the plane, by the script's test or (28).

    The script tests K₀₀ − K_kk − Σaᵢ(K₀ᵢ − K_kᵢ) ≥ 0, which lacks the factor 2 before the sum.
    """
    X = np.random.default_rng([seed, 28]).normal(0.5, spread, (n, 2))
    model = EcoSVDD(nu=None, kernel="linear", n_init=first, reserve=0).partial_fit(X[:first])
    for x in X[first:]:
        V, a = model.support_vectors_, model.dual_coef_[0]
        growth = x @ x - V[0] @ V[0] - (1 if halved else 2) * (a @ (V @ x - V @ V[0]))
        if growth >= 0:
            model.partial_fit(x[None])
    return float(model.radius_ / SVDD(nu=None, kernel="linear").fit(X).radius_)
