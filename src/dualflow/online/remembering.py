"""One growing problem: its points, their names, and the engine that keeps it at its optimum."""

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
from .incremental import Engine
from .state import PathError

__all__ = ["Stream"]

#: Points made known to the engine at a time; more of them share kernel blocks, fewer are carried along unlearned.
AT_ONCE = 64


class _SignedKernel:
    """Q = s σσᵀ∘K[idx, idx] as an engine asks for it; point i has the variables per·i … per·i + per − 1."""

    def __init__(self, gram: GrowingGram, per: int, scale: float) -> None:
        self.gram, self.per, self.scale = gram, per, scale
        self.sigma = np.zeros(0)

    def column(self, k: int, start: int, stop: int) -> NDArray:
        values = self.gram.part_of_row(k // self.per, start // self.per, stop // self.per)
        values = values if self.per == 1 else np.repeat(values, self.per)
        return (self.scale * self.sigma[k]) * values * self.sigma[start:stop]

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        values = self.gram.block(rows // self.per, J // self.per)
        values *= self.scale * self.sigma[J]
        values *= self.sigma[rows][:, None]
        return values

    def product(self, alpha: NDArray) -> NDArray:
        weights = (self.sigma * alpha).reshape(-1, self.per).sum(axis=1)
        return self.scale * self.sigma * np.repeat(self.gram.matvec(weights), self.per)


class Stream:
    """A problem whose points come and go.

    Parameters
    ----------
    model : Growing
    gram : GrowingGram
        Without points.

    Attributes
    ----------
    lost : PathError or None
        Why the path of the optimum broke off; `settle` finds it again.
    """

    def __init__(self, model: Growing, gram: GrowingGram) -> None:
        self.model, self.gram = model, gram
        self.ids = np.zeros(0, dtype=np.int64)
        self.targets = np.zeros(0)
        self.matrix = _SignedKernel(gram, model.per, model.scale)
        self.engine = Engine(self.matrix, bordered=True)
        self.engine.has_rescue = True
        self.lost: PathError | None = None

    @property
    def n(self) -> int:
        """Points that are remembered."""
        return len(self.ids)

    # --- learning and forgetting ---------------------------------------------------------------

    def learn(self, X: NDArray, targets: NDArray, ids: NDArray) -> None:
        """Learn points one at a time; ``targets`` are ±1, or the numbers to be regressed on."""
        for start in range(0, len(X), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            self._append(X[part], targets[part], ids[part])
            if not self.lost:
                with self.on_the_path():
                    self._follow(self.n - len(ids[part]))
        if len(X) >= AT_ONCE and not self.lost:
            with self.on_the_path():
                self.engine.tidy(exact=True)

    def _follow(self, first: int) -> None:
        """Learn the points from ``first`` on, which the engine knows."""
        with self.engine.looking_seldom():
            for i in range(first, self.n):
                for k in range(self.model.per * i, self.model.per * (i + 1)):
                    self.engine.learn(k)
                self._move_d(i + 1)
        self.engine.tidy()

    @contextlib.contextmanager
    def on_the_path(self) -> Iterator[None]:
        """Where the path breaks off within, the state is `lost`, and `settle` has to find the optimum."""
        try:
            yield
        except PathError as error:
            self.lost = error

    def _append(self, X: NDArray, targets: NDArray, ids: NDArray) -> None:
        model, old = self.model, self.gram.n
        self.gram.append(X)
        diag = self.gram.diag()[old:]
        p, sigma, upper = self.variables(targets, diag)
        self.matrix.sigma = np.concatenate([self.matrix.sigma, sigma])
        self.engine.append(p, upper, sigma, model.scale * np.repeat(diag, model.per))
        self.ids = np.concatenate([self.ids, ids])
        self.targets = np.concatenate([self.targets, targets])

    def variables(self, targets: NDArray, diag: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """p, signs and bounds of the variables of some points."""
        p, sigma, upper = self.model.variables(targets, diag)
        return self.engine.d * p if self.model.counted else p, sigma, np.full(len(p), upper)

    def unlearn(self, points: NDArray) -> None:
        """Take points, given by their positions, out of the model; they stay known until `keep`."""
        left, per = self.n, self.model.per
        with self.on_the_path():
            for i in points:
                left -= 1
                self._move_d(left)
                for k in range(per * int(i), per * (int(i) + 1)):
                    self.engine.unlearn(k)
                self.engine.pool.evict(self.engine.margin)
            self.engine.tidy(exact=len(points) >= AT_ONCE)

    def keep(self, points: NDArray) -> None:
        """Drop all points but these, which must be all that have weight."""
        per = self.model.per
        variables = (per * points[:, None] + np.arange(per)).ravel()
        self.engine.keep(variables)
        self.gram.keep(points)
        self.matrix.sigma = self.matrix.sigma[variables]
        self.ids, self.targets = self.ids[points], self.targets[points]

    def _move_d(self, points: int) -> None:
        d = self.model.total(points)
        if d != self.engine.d:
            self.engine.move_d(d, self.gram.diag())

    def twin(self) -> Stream:
        """A stream of the same points, whose engine moves on its own."""
        other = Stream(self.model, self.gram)
        other.ids, other.targets, other.matrix = self.ids, self.targets, self.matrix
        other.engine = self.engine.twin()
        other.engine.has_rescue = True
        return other

    def empty_copy(self) -> Stream:
        """A stream without points, with this one's kernel."""
        return Stream(self.model, self.gram.without_points())

    # --- undoing -------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Where the stream stands, to be put back by `restore` unless points were dropped since."""
        return {"n": self.n, "engine": self.engine.snapshot()}

    def restore(self, kept: dict[str, Any]) -> None:
        """Back to a snapshot."""
        n, per = kept["n"], self.model.per
        self.gram.truncate(n)
        self.ids, self.targets = self.ids[:n], self.targets[:n]
        self.matrix.sigma = self.matrix.sigma[: per * n]
        self.engine.restore(kept["engine"])
        self.lost = None

    # --- reading -------------------------------------------------------------------------------

    @property
    def unit(self) -> float:
        """What variables, and their p and g, are in units of."""
        return self.engine.d if self.model.counted and self.engine.d else 1.0

    @property
    def coefficients(self) -> NDArray:
        """Weight of every point in the expansion, shape (n,)."""
        return (self.matrix.sigma * self.engine.alpha).reshape(-1, self.model.per).sum(axis=1) / self.unit

    @property
    def bias(self) -> float:
        """b, in `unit`; the middle of its interval where no margin point fixes it."""
        low, high = self.engine.bias_interval()
        if low > high:  # none is optimal to the last digit: that of the gap that is known
            return self.engine.b
        if np.isfinite(low) and np.isfinite(high):
            return 0.5 * (low + high)
        return low if np.isfinite(low) else high if np.isfinite(high) else 0.0

    @property
    def moved(self) -> float:
        """What expansions lack as the kernel is that of centred points, and `bias` has too much; weights sum to 0."""
        return self.gram.constant(self.coefficients)

    def problem(self) -> DualProblem:
        """The batch problem over all remembered points."""
        return self.problem_of(np.arange(self.n))

    def problem_of(self, points: NDArray) -> DualProblem:
        """The batch problem over some points."""
        problem = self.model.problem(Gram.of(self.gram, self.gram.X[points]), self.targets[points])
        if self.model.counted and self.engine.d != self.model.total(len(points)):
            # With a reserve, points have been counted that are not there.
            problem = replace(problem, upper=np.full(problem.n, self.engine.u[0] / self.unit))
        return problem

    def alpha(self) -> NDArray:
        """The variables of `problem`."""
        return self.alpha_of(np.arange(self.n))

    def alpha_of(self, points: NDArray) -> NDArray:
        """The variables of that."""
        return self.engine.alpha[self.variables_of(points)] / self.unit

    def variables_of(self, points: NDArray) -> NDArray:
        """The engine's numbers of their variables, in the order of the batch problem."""
        return (self.model.per * points[:, None] + np.arange(self.model.per)).T.ravel()

    # --- files ---------------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """All that the next bits depend on."""
        arrays, facts = self.engine.pack()
        arrays |= {"X": self.gram.X.copy(), "ids": self.ids.copy(), "targets": self.targets.copy()}
        arrays["sigma"] = self.matrix.sigma.copy()
        if self.gram.center is not None:
            arrays["center"] = np.array(self.gram.center)
        return arrays, facts | {"gamma": self.gram.gamma}

    @classmethod
    def unpack(
        cls, model: Growing, kernel: dict[str, Any], arrays: dict[str, NDArray], facts: dict[str, Any]
    ) -> Stream:
        """The stream that was packed; ``kernel`` holds the parameters of the kernel but its width.

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
        expected = np.tile([1.0, -1.0], n) if model.per == 2 else targets
        if sigma.dtype != np.float64 or not np.array_equal(sigma, expected) or not (np.abs(sigma) == 1).all():
            raise ValueError("its signs are not those of its targets")
        if len(arrays["alpha"]) != len(sigma) or not np.array_equal(arrays["e"], sigma):
            raise ValueError("its variables are not those of its points")
        center = arrays.get("center", np.zeros(X.shape[1]))  # older files hold one for the radial kernel only
        if center.shape != (X.shape[1],) or not np.isfinite(center).all():
            raise ValueError("its centre is no point")
        some = X if n else np.zeros((1, X.shape[1]))
        gram = GrowingGram(some, **kernel, gamma=float(facts["gamma"]), center=center)
        gram.truncate(n)
        stream = cls(model, gram)
        stream.ids, stream.targets, stream.matrix.sigma = ids.copy(), targets.copy(), sigma.copy()
        stream.engine.unpack(arrays, facts)
        return stream
