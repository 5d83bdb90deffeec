"""Newcomers to a community of the hinge, met a block at a time: who wants in makes all who are there be solved anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.kept import KeptGram
from ..direct.pairs import solve_pair
from ..online.newcomers import Equilibrium, Standing, equilibrium_of
from ..online.stream import BLOCK, Community, are_distinct, meet_at_once
from ._ecology import Ecology

__all__ = ["MeetsAtOnce"]

#: How many newcomers who want in are sooner led in one by one, where no compiled call goes on from where others are.
LEAD = 8


class MeetsAtOnce(Ecology):
    """Base of those whose newcomers leave the others' bounds alone: who stays out leaves an equilibrium one.

    Where one wants in, all who are there are solved by the compiled call that solves two classes for `SVC`, from where
    they are: sooner done than leading in a single one. Without an intercept there is none, and few are led in. What
    neither finds is left to invasion.
    """

    #: The community that was met last as newcomers find it, and what it was made of: a function of these, for speed.
    _standing: tuple[tuple[Any, ...], Standing]
    #: What the kernel was in the last call, which made the gradients.
    _kernel_then: tuple[Any, ...]

    def _begin(self, X: NDArray, count: int) -> None:
        if not self.__sklearn_is_fitted__():
            self.__dict__.pop("_standing", None)  # of another stream
        super()._begin(X, count)
        if self.__dict__.get("_kernel_then", self._kernel_now()) != self._kernel_now():
            self._communities = [self._under_this_kernel(c) if len(c.X) else c for c in self._communities]
        self._kernel_then = self._kernel_now()

    def _kernel_now(self) -> tuple[Any, ...]:
        kept = self._as_fitted
        return kept.kernel, kept.degree, kept.coef0, self._sum_is_fixed()

    def _under_this_kernel(self, c: Community) -> Community:
        """A community whose equilibrium is another kernel's."""
        c = replace(c, h=self._pose(c.X, c.sign, c.cap, c.seen).gradient(c.alpha))
        found = None
        if self._meets_at_once():
            found = self._meet_at_once(c, c.X[:0], c.sign[:0], c.cap[:0], c.ids[:0])
        return c if found is None else found

    def _meet(self, c: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community:
        if not self._meets_at_once():
            return super()._meet(c, X, sign, cap, ids)
        for start in range(0, len(X), BLOCK):
            part = slice(start, start + BLOCK)
            newcomers = X[part], sign[part], cap[part], ids[part]
            found = self._meet_at_once(c, *newcomers)
            c = super()._meet(c, *newcomers) if found is None else found
        return c

    def _meets_at_once(self) -> bool:
        return not callable(self._as_fitted.kernel) and self.reequilibrate == "working-set"

    def _meet_at_once(self, c: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community | None:
        return meet_at_once(
            c,
            X,
            sign,
            cap,
            ids,
            standing=self._standing_of,
            optimum=self._optimum,
            lead=0 if self._sum_is_fixed() else LEAD,
            reserve=self._room,
            n_init=self._first_points(),
        )

    def _standing_of(self, c: Community) -> Standing:
        """A community as newcomers find it."""
        facts = (*self._kernel_now(), self.tol)
        known, at = self.__dict__.get("_standing", (None, None))
        if at is None or known != facts or at.alpha is not c.alpha:
            same = at is not None and known[:-1] == facts[:-1]  # what is known of a kernel need not be asked again
            gram = KeptGram.of(at.gram, c.X) if same else self._kernel_of(c.X)
            at = Standing(gram, c.sign, c.cap, c.alpha, c.h, **self._rests())
            self._standing = facts, at
        return at

    def _rests(self) -> dict[str, Any]:
        """What an equilibrium is."""
        return {"bordered": self._sum_is_fixed(), "enough": 0.1 * self.tol}

    def _optimum(self, c: Community) -> Equilibrium | None:
        """Of all who are there, by one compiled call or a run; None where many are the same, whose weights are found
        together by invasion, or nobody can say that it is one."""
        gram = self._kernel_of(c.X)
        negative, positive = np.flatnonzero(c.sign < 0), np.flatnonzero(c.sign > 0)
        if not (gram.is_psd_by_kernel and np.isfinite(c.cap).all() and len(negative) and len(positive)):
            return None
        if not are_distinct(c.X, c.sign, gram.squares):
            return None
        alpha = sums = None
        if self._sum_is_fixed():
            groups, order = (negative, positive), np.concatenate([negative, positive])
            pair = solve_pair(gram, groups, c.cap[order], 0.1 * self.tol, start=c.alpha[order])
            if pair is not None:
                alpha = np.empty(len(order))
                alpha[order] = pair.point
                sums = pair.sums
        if alpha is None:  # from nothing: a run that begins elsewhere looks at all first, which takes what it saves
            alpha = self._equilibrate(self._pose(c.X, c.sign, c.cap, c.seen), np.zeros(len(c.X)))
        if sums is None:
            h = c.sign * gram.matvec(c.sign * alpha) - 1.0
        else:
            h = np.empty(len(order))
            h[order] = c.sign[order] * sums - 1.0
        return equilibrium_of(alpha, h, c.sign, c.cap, float(gram.diag().max()), **self._rests())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_standing"}  # as `_pack`

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        self.__dict__.pop("_standing", None)  # it is made again, to the same bits
        return super()._pack()

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        super()._unpack(arrays, facts)
        self._kernel_then = self._kernel_now()
