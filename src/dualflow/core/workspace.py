"""A dual problem at work: what one run keeps of it, made by the driver, handed to a solver, and dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import fields
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from . import psd
from .kernel_cache import KeptGram
from .low_rank import LowRankSystem, thin_factor
from .problem import DualProblem, Kind
from .radial import RadialPoints
from .runtime.memory import borrowed
from .runtime.threads import cached_property
from .sparse_points import SparsePoints

__all__ = ["Workspace", "twin"]

_FIELDS = tuple(field.name for field in fields(DualProblem))
_given = attrgetter(*_FIELDS)
#: What has no parts that could be changed.
_PLAIN = (float, int, str, bool, type(None), Kind)

#: Variables up to which the whole Q is factorised, and from which on a low rank is made use of.
FACTOR_UP_TO, THIN_FROM = 5000, 1024

#: Variables up to which single columns are taken from the whole Q (128 MB).
DENSE_UP_TO = 4000


class Workspace(DualProblem):
    """A problem with memory: kernel rows, the whole Q, the last few products, evidence on the spectrum.

    A solver's is made of a `twin` of the problem. What it says comes from its own memory; no certificate of another
    does.

    Parameters
    ----------
    problem : DualProblem
    gram : KeptGram, optional
        Of the problem's points, with what is known of them.
    evidence : SpectrumEvidence, optional
        The problem's, where it has been looked for.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import Gram, Workspace, problems
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> Workspace(problem).gradient(np.zeros(4))  # Qα − p at 0
    array([-1., -1., -1., -1.])
    """

    if TYPE_CHECKING:
        gram: KeptGram  # type: ignore[assignment]

    def __init__(
        self, problem: DualProblem, gram: KeptGram | None = None, evidence: psd.SpectrumEvidence | None = None
    ) -> None:
        self.__dict__.update(zip(_FIELDS, _given(problem), strict=True))
        if gram is None:
            gram = problem.gram if isinstance(problem.gram, KeptGram) else KeptGram(problem.gram)
        self.__dict__["gram"] = gram
        if evidence is not None:
            self.__dict__["_evidence"] = evidence

    @cached_property
    def _products(self) -> deque[tuple[bytes, NDArray]]:
        # Solvers and refinement ask for the same few vectors, each nSV kernel columns' worth.
        return deque(maxlen=4)

    @cached_property
    def _scratch(self) -> dict[str, NDArray]:
        return {}

    @cached_property
    def _dense(self) -> NDArray:
        Q = super().dense()
        Q.flags.writeable = False
        return Q

    @cached_property
    def _inverse(self) -> Callable[[NDArray], NDArray] | None:
        if self.n > THIN_FROM and self.ridge.all() and (L := thin_factor(self)) is not None:
            return LowRankSystem(L, self.ridge).solve
        if self.n > FACTOR_UP_TO:
            return None
        try:
            factor = scipy.linalg.cho_factor(self.dense(), check_finite=False)
        except scipy.linalg.LinAlgError:
            return None
        return lambda v: scipy.linalg.cho_solve(factor, v)

    @cached_property
    def _evidence(self) -> psd.SpectrumEvidence:
        return super().psd

    @property
    def psd(self) -> psd.SpectrumEvidence:
        """Evidence that Q is positive semidefinite, looked for once."""
        return self._evidence

    def dense(self) -> NDArray:
        """The whole Q, shape (n, n); kept."""
        return self._dense

    def inverse(self) -> Callable[[NDArray], NDArray] | None:
        """What makes Q⁻¹v of a v of shape (n,), from a factor that is kept. None where Q is singular, or too large."""
        return self._inverse

    @property
    def keeps_dense(self) -> bool:
        """Whether `columns_at_hand` are those of the whole Q."""
        return self.n <= DENSE_UP_TO

    def columns_at_hand(self) -> Callable[[int], NDArray]:
        """Single columns of Q, shape (n,): of the whole Q where that is small, else as `kept_column` makes them."""
        return self.dense().__getitem__ if self.keeps_dense else self.kept_column  # Q is symmetric

    def kept_column(self, j: int) -> NDArray:
        """Column j of Q, shape (n,), from kernel rows that are kept."""
        k = j if self.idx is None else int(self.idx[j])
        row = self.gram.kept_row(k)
        Q = (self.scale * self.sigma[j]) * self.sigma * ((row if self.idx is None else row[self.idx]) + self.offset)
        Q[j] += self.ridge[j]
        return Q

    def matvec(self, v: ArrayLike) -> NDArray:
        """Q v, shape (n,); the last few products are kept."""
        v = np.array(v, dtype=float)
        key = v.tobytes()
        for known, product in self._products:
            if known == key:
                return product.copy()
        product = self.product(v)
        self._products.appendleft((key, product))
        return product.copy()

    def scratch(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray:
        """An array to work in, whose entries may be anything: the memory last asked for under this name, if it is large
        enough. Whoever asks next gets the same; the parts of a problem share theirs with it."""
        size, known = prod(shape) * np.dtype(dtype).itemsize, self._scratch.pop(name, None)
        if known is None or known.nbytes < size:
            room = size if known is None else max(size, 2 * known.nbytes)
            known = None  # given back before more is taken
            known = borrowed((room,), np.uint8)
        self._scratch[name] = known
        return known[:size].view(dtype).reshape(shape)

    def part(
        self,
        J: NDArray,
        gram: KeptGram,
        *,
        idx: NDArray | None = None,
        upper: NDArray | None = None,
        d: float | None = None,
    ) -> Workspace:
        """The problem of variables J alone, all others being 0, at work on the kernel matrix of their points.

        Parameters
        ----------
        J : int array of shape (k,)
        gram : KeptGram
        idx : int array of shape (k,), optional
            Which point each variable belongs to there; by default theirs are the points, one for one.
        upper : array of shape (k,), optional
            Their bounds, if others than here.
        d : float, optional
            Their share of the equality, if less than all of it.
        """
        part = DualProblem(
            gram,  # type: ignore[arg-type]
            p=self.p[J],
            lower=self.lower[J],
            upper=self.upper[J] if upper is None else upper,
            e=None if self.e is None else self.e[J],
            d=self.d if d is None else d,
            sigma=self.sigma[J],
            scale=self.scale,
            offset=self.offset,
            ridge=self.ridge[J],
            idx=idx,
            reading=self.reading,
            total=self.total,
        )
        evidence = self.__dict__.get("_evidence")  # a block on the diagonal is what the whole matrix is
        work = Workspace(part, evidence=evidence if evidence is not None and evidence.is_psd else None)
        work.__dict__["_scratch"] = self._scratch
        return work


def twin(problem: DualProblem) -> DualProblem:
    """An equal problem for a solver, of objects of its own: whatever it does to them, the problem stays.

    Shared are numbers, memory that is read-only for good, and the code of a kernel that is a callable.
    """
    gram = problem.gram
    own = object.__new__(type(gram))
    own.__dict__.update({name: _own(value) for name, value in vars(gram).items()})
    other = object.__new__(DualProblem)
    reading = problem.reading
    plain = all(type(value) in _PLAIN for value in vars(reading).values())
    given = {"gram": own, "reading": copy(reading) if plain else deepcopy(reading)}
    other.__dict__.update(given)
    rest = ((name, value) for name, value in zip(_FIELDS, _given(problem), strict=True) if name not in given)
    other.__dict__.update({name: _own(value) for name, value in rest})
    return other


def _own(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.view()  # shape and dtype of an array can be set, whoever owns its memory
    if type(value) in _PLAIN:
        return value
    if isinstance(value, RadialPoints):
        return value.view()
    if isinstance(value, SparsePoints):
        return value.view()
    if callable(value):
        return lambda *points: value(*points)  # the object behind it may have attributes
    return value
