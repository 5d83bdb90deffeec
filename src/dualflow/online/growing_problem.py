"""A problem whose points are added and removed, and the engine that keeps it at its optimum."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.growing import GrowingGram
from ..core.problem import DualProblem
from ..problems import Growing
from .engine import Engine
from .state import PathError

#: Points added to the engine in one batch: more share kernel blocks, fewer wait unlearned.
MAX_POINTS_PER_BATCH = 64


class _SignedKernel:
    """Q = s σσᵀ∘K[idx, idx] with the methods that `Engine` needs; point i has variables per·i to per·i + per − 1."""

    def __init__(self, gram: GrowingGram, per: int, scale: float) -> None:
        self.gram, self.per, self.scale = gram, per, scale
        self.sigma = np.zeros(0)

    def column(self, k: int, start: int, stop: int) -> NDArray:
        """Return Q[start:stop, k]."""
        values = self.gram.part_of_row(k // self.per, start // self.per, stop // self.per)
        values = values if self.per == 1 else np.repeat(values, self.per)
        return (self.scale * self.sigma[k]) * values * self.sigma[start:stop]

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        """Return Q[rows, J]."""
        values = self.gram.block(rows // self.per, J // self.per)
        values *= self.scale * self.sigma[J]
        values *= self.sigma[rows][:, None]
        return values

    def product(self, alpha: NDArray) -> NDArray:
        """Return Q α."""
        weights = (self.sigma * alpha).reshape(-1, self.per).sum(axis=1)
        return self.scale * self.sigma * np.repeat(self.gram.matvec(weights), self.per)


class Stream:
    """A problem whose points are added and removed, at its optimum.

    Parameters
    ----------
    model : Growing
    gram : GrowingGram
        Without points.

    Attributes
    ----------
    weights : array of shape (n,)
        Factors of the upper bounds. The variables of a point of weight 0 are never learned.
    path_error : PathError or None
        Why the path of the optimum broke off; `restore_optimum` restores the optimum.
    """

    def __init__(self, model: Growing, gram: GrowingGram) -> None:
        self.model, self.gram = model, gram
        self.ids = np.zeros(0, dtype=np.int64)
        self.targets = np.zeros(0)
        self.weights = np.zeros(0)
        self.matrix = _SignedKernel(gram, model.per, model.scale)
        self.engine = Engine(self.matrix, bordered=True)
        self.engine.has_fallback = True
        self.path_error: PathError | None = None

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.ids)

    # --- learning and unlearning ---------------------------------------------------------------

    @property
    def mass(self) -> float:
        """Sum of the points' weights."""
        return float(self.weights.sum())

    def learn(self, X: NDArray, targets: NDArray, ids: NDArray, weights: NDArray) -> None:
        """Learn points one at a time; ``targets`` are ±1, or the numbers of a regression."""
        for start in range(0, len(X), MAX_POINTS_PER_BATCH):
            part = slice(start, start + MAX_POINTS_PER_BATCH)
            self._append(X[part], targets[part], ids[part], weights[part])
            if not self.path_error:
                with self.catching_path_errors():
                    self._follow(self.n - len(ids[part]))
        if len(X) >= MAX_POINTS_PER_BATCH and not self.path_error:
            with self.catching_path_errors():
                self.engine.tidy(exact=True)

    def _follow(self, first: int) -> None:
        """Learn the points from position ``first`` on, which are added to the engine."""
        with self.engine.updating_rarely():
            for i in range(first, self.n):
                if self.weights[i] == 0:
                    continue
                for k in range(self.model.per * i, self.model.per * (i + 1)):
                    self.engine.learn(k)
                self._move_d(self.weights[: i + 1])
        self.engine.tidy()

    @contextlib.contextmanager
    def catching_path_errors(self) -> Iterator[None]:
        """Return a context that stores a `PathError` in ``path_error``; `restore_optimum` must follow then."""
        try:
            yield
        except PathError as error:
            self.path_error = error

    def _append(self, X: NDArray, targets: NDArray, ids: NDArray, weights: NDArray) -> None:
        """Add points to the engine without learning them."""
        model, old = self.model, self.gram.n
        self.gram.append(X)
        diag = self.gram.diag()[old:]
        p, sigma, upper = self.variables(targets, diag, weights)
        self.matrix.sigma = np.concatenate([self.matrix.sigma, sigma])
        self.engine.append(p, upper, sigma, model.scale * np.repeat(diag, model.per))
        self.ids = np.concatenate([self.ids, ids])
        self.targets = np.concatenate([self.targets, targets])
        self.weights = np.concatenate([self.weights, weights])

    def variables(self, targets: NDArray, diag: NDArray, weights: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Return p, signs and bounds of the variables of some points."""
        found = self.model.variables(targets, diag)
        return self.engine.d * found.p if self.model.counted else found.p, found.sigma, found.bounds(weights)

    def unlearn(self, points: NDArray) -> None:
        """Remove points, given by their positions, from the model; they stay stored until `keep`."""
        left, per = self.weights.copy(), self.model.per
        with self.catching_path_errors():
            for i in points:
                left[i] = 0.0
                self._move_d(left)
                for k in range(per * int(i), per * (int(i) + 1)):
                    self.engine.unlearn(k)
                self.engine.pool.evict(self.engine.margin)
            self.engine.tidy(exact=len(points) >= MAX_POINTS_PER_BATCH)

    def keep(self, points: NDArray) -> None:
        """Drop all points but these, which must include all with weight."""
        per = self.model.per
        variables = (per * points[:, None] + np.arange(per)).ravel()
        self.engine.keep(variables)
        self.gram.keep(points)
        self.matrix.sigma = self.matrix.sigma[variables]
        self.ids, self.targets, self.weights = self.ids[points], self.targets[points], self.weights[points]

    def _move_d(self, weights: NDArray) -> None:
        """Move d to its value for points of these weights."""
        d = self.model.total(float(weights.sum()) if self.model.counted else 0.0)
        if d != self.engine.d:
            self.engine.move_d(d, self.gram.diag())

    def isolated_copy(self) -> Stream:
        """Return a stream of the same points with an independent engine."""
        other = Stream(self.model, self.gram)
        other.ids, other.targets, other.matrix, other.weights = self.ids, self.targets, self.matrix, self.weights
        other.engine = self.engine.isolated_copy()
        other.engine.has_fallback = True
        return other

    def empty_copy(self) -> Stream:
        """Return a stream without points, with this one's kernel."""
        return Stream(self.model, self.gram.without_points())

    # --- undoing -------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the stream's position, for `restore`; it is valid until points are dropped."""
        return {"n": self.n, "engine": self.engine.snapshot()}

    def restore(self, kept: dict[str, Any]) -> None:
        """Return to a snapshot."""
        n, per = kept["n"], self.model.per
        self.gram.truncate(n)
        self.ids, self.targets, self.weights = self.ids[:n], self.targets[:n], self.weights[:n]
        self.matrix.sigma = self.matrix.sigma[: per * n]
        self.engine.restore(kept["engine"])
        self.path_error = None

    # --- reading -------------------------------------------------------------------------------

    @property
    def unit(self) -> float:
        """Factor between the engine's variables, p and g and those of the batch problem."""
        return self.engine.d if self.model.counted and self.engine.d else 1.0

    @property
    def coefficients(self) -> NDArray:
        """Weight of every point in the expansion, shape (n,)."""
        return (self.matrix.sigma * self.engine.alpha).reshape(-1, self.model.per).sum(axis=1) / self.unit

    @property
    def bias(self) -> float:
        """b, in `unit`; the middle of its interval if no margin point fixes it."""
        return self.engine.central_bias(0.0)

    @property
    def moved(self) -> float:
        """Constant by which the expansion is too small and `bias` too large, since the kernel is of centred points."""
        return self.gram.constant(self.coefficients)

    def problem(self) -> DualProblem:
        """Return the batch problem over all points."""
        return self.problem_of(np.arange(self.n))

    def problem_of(self, points: NDArray) -> DualProblem:
        """Return the batch problem over some points, of which one has a weight above 0."""
        weights = self.weights[points]
        problem = self.model.problem(Gram.of(self.gram, self.gram.X[points]), self.targets[points], weights)
        if self.model.counted and self.engine.d != self.model.total(float(weights.sum())):
            # With a reserve, the engine's d counts points that are no longer stored.
            problem = replace(problem, upper=self.engine.u[self.variables_of(points)] / self.unit)
        return problem

    def alpha(self) -> NDArray:
        """Return the variables of `problem`."""
        return self.alpha_of(np.arange(self.n))

    def alpha_of(self, points: NDArray) -> NDArray:
        """Return the variables of `problem_of`."""
        return self.engine.alpha[self.variables_of(points)] / self.unit

    def variables_of(self, points: NDArray) -> NDArray:
        """Return the engine's indices of the points' variables, in the order of the batch problem."""
        return (self.model.per * points[:, None] + np.arange(self.model.per)).T.ravel()

    # --- files ---------------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Return all that later bits depend on."""
        arrays, facts = self.engine.pack()
        arrays |= {"X": self.gram.X.copy(), "ids": self.ids.copy(), "targets": self.targets.copy()}
        arrays["sigma"] = self.matrix.sigma.copy()
        if (self.weights != 1).any():
            arrays["weights"] = self.weights.copy()
        if self.gram.center is not None:
            arrays["center"] = np.array(self.gram.center)
        return arrays, facts | {"gamma": self.gram.gamma}

    @classmethod
    def unpack(
        cls, model: Growing, kernel: dict[str, Any], arrays: dict[str, NDArray], facts: dict[str, Any]
    ) -> Stream:
        """Return the stream that was packed; ``kernel`` holds the parameters of the kernel except its width.

        Raises
        ------
        KeyError, ValueError
            An array is missing, or is not what `pack` would have made.
        """
        X, ids, targets, sigma = (arrays[name] for name in ("X", "ids", "targets", "sigma"))
        n = len(ids)
        sound = X.ndim == 2 and len(X) == n and X.dtype == np.float64 and ids.dtype == np.int64 and ids.ndim == 1
        if not sound or targets.shape != (n,) or targets.dtype != np.float64 or not np.isfinite(targets).all():
            raise ValueError("its points, ids and targets are not of one length, or not numbers")
        if (ids < 0).any() or len(np.unique(ids)) != n:
            raise ValueError("its ids are negative, or not distinct")
        weights = arrays.get("weights", np.ones(n))  # stored only if one of them is not 1
        if weights.dtype != np.float64 or weights.shape != (n,) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError("its weights are not one number ≥ 0 for each point")
        expected = np.tile([1.0, -1.0], n) if model.per == 2 else targets
        if sigma.dtype != np.float64 or not np.array_equal(sigma, expected) or not (np.abs(sigma) == 1).all():
            raise ValueError("its signs are not those of its targets")
        if len(arrays["alpha"]) != len(sigma) or not np.array_equal(arrays["e"], sigma):
            raise ValueError("its variables are not those of its points")
        center = arrays.get("center", np.zeros(X.shape[1]))  # a callable kernel has none
        if center.shape != (X.shape[1],) or not np.isfinite(center).all():
            raise ValueError("its centre is not a point with finite coordinates")
        some = X if n else np.zeros((1, X.shape[1]))
        gram = GrowingGram(some, **kernel, gamma=float(facts["gamma"]), center=center)
        gram.truncate(n)
        stream = cls(model, gram)
        stream.ids, stream.targets, stream.matrix.sigma = ids.copy(), targets.copy(), sigma.copy()
        stream.weights = weights.copy()
        stream.engine.unpack(arrays, facts)
        return stream
