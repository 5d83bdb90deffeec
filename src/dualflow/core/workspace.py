"""`Workspace`: a dual problem with the caches of one run. The driver makes it for a solver and drops it afterwards."""

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
from .runtime.memory import arena_array
from .runtime.threads import cached_property
from .sparse_points import SparsePoints

_FIELDS = tuple(field.name for field in fields(DualProblem))
_given = attrgetter(*_FIELDS)
#: Immutable types.
_PLAIN = (float, int, str, bool, type(None), Kind)

#: Up to this many variables, the dense Q is factorised.
MAX_N_FACTOR = 5000
#: With more variables, a low rank of Q is used instead.
MIN_N_LOW_RANK = 1024

#: Up to this many variables, single columns are taken from the dense Q (128 MB).
MAX_N_DENSE_COLUMNS = 4000
#: Number of cached products. Solvers and refinement request the same few vectors, which cost nSV kernel columns each.
MAX_PRODUCTS_CACHED = 4


class Workspace(DualProblem):
    """A problem with caches: kernel rows, the dense Q, the last few products, evidence on the spectrum.

    The workspace of a solver is made of an `isolated_copy` of the problem, and certificates are made from another
    workspace: a solver that writes to its caches cannot change them.

    Parameters
    ----------
    problem : DualProblem
    gram : KeptGram, optional
        The kernel matrix of the problem's points, with its caches.
    evidence : SpectrumEvidence, optional
        That of the problem, if known.

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
            gram = problem.gram if isinstance(problem.gram, KeptGram) else KeptGram(problem.gram, problem.n)
        self.__dict__["gram"] = gram
        if evidence is not None:
            self.__dict__["_evidence"] = evidence

    @cached_property
    def _products(self) -> deque[tuple[bytes, NDArray]]:
        """The last vectors, as bytes, and their products with Q."""
        return deque(maxlen=MAX_PRODUCTS_CACHED)

    @cached_property
    def _scratch(self) -> dict[str, NDArray]:
        """The buffers, by name."""
        return {}

    @cached_property
    def _dense(self) -> NDArray:
        Q = super().dense()
        Q.flags.writeable = False
        return Q

    @cached_property
    def _inverse(self) -> Callable[[NDArray], NDArray] | None:
        if self.n > MIN_N_LOW_RANK and self.ridge.all() and (L := thin_factor(self)) is not None:
            return LowRankSystem(L, self.ridge).solve
        if self.n > MAX_N_FACTOR:
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
        """Return the evidence that Q is positive semidefinite, computed once."""
        return self._evidence

    def dense(self) -> NDArray:
        """Return the dense Q, shape (n, n), computed once; read-only."""
        return self._dense

    def inverse(self) -> Callable[[NDArray], NDArray] | None:
        """Return a function that computes Q⁻¹v of a v of shape (n,), or None if Q is singular or too large."""
        return self._inverse

    @property
    def uses_dense_columns(self) -> bool:
        """Whether `cached_columns` reads columns of the dense Q."""
        return self.n <= MAX_N_DENSE_COLUMNS

    def cached_columns(self) -> Callable[[int], NDArray]:
        """Return a function that returns column j of Q, shape (n,): from the dense Q, or `kept_column` for large n."""
        return self.dense().__getitem__ if self.uses_dense_columns else self.kept_column  # Q is symmetric

    def kept_column(self, j: int) -> NDArray:
        """Return column j of Q, shape (n,), from cached kernel rows."""
        k = j if self.idx is None else int(self.idx[j])
        row = self.gram.kept_row(k)
        Q = (self.scale * self.sigma[j]) * self.sigma * ((row if self.idx is None else row[self.idx]) + self.offset)
        Q[j] += self.ridge[j]
        return Q

    def matvec(self, v: ArrayLike) -> NDArray:
        """Return Q v, shape (n,); the last few products are cached."""
        v = np.array(v, dtype=float)
        key = v.tobytes()
        for known, product in self._products:
            if known == key:
                return product.copy()
        product = self.product(v)
        self._products.appendleft((key, product))
        return product.copy()

    def scratch(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray:
        """Return a buffer with arbitrary entries, from the memory of this name, which grows if it is too small.

        The next call with this name returns the same memory. Parts of a problem (`part`) share its buffers.
        """
        size, known = prod(shape) * np.dtype(dtype).itemsize, self._scratch.pop(name, None)
        if known is None or known.nbytes < size:
            room = size if known is None else max(size, 2 * known.nbytes)
            known = None  # free it before more is taken
            known = arena_array((room,), np.uint8)
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
        """Return the workspace of the problem of variables J alone, with all others at 0.

        Parameters
        ----------
        J : int array of shape (k,)
        gram : KeptGram
            The kernel matrix of their points.
        idx : int array of shape (k,), optional
            The point of ``gram`` that each variable belongs to; by default one point per variable, in order.
        upper : array of shape (k,), optional
            Their upper bounds, if not those of this problem.
        d : float, optional
            Their right-hand side of the equality, if not that of this problem.
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
        evidence = self.__dict__.get("_evidence")  # a principal block of a positive semidefinite matrix is one too
        work = Workspace(part, evidence=evidence if evidence is not None and evidence.is_psd else None)
        work.__dict__["_scratch"] = self._scratch
        return work


def isolated_copy(problem: DualProblem) -> DualProblem:
    """Return an equal problem of new objects for a solver: changes to its attributes do not reach ``problem``.

    Shared are numbers, read-only memory, and the code of a callable kernel.
    """
    gram = problem.gram
    copied_gram = object.__new__(type(gram))
    copied_gram.__dict__.update({name: _isolated(value) for name, value in vars(gram).items()})
    other = object.__new__(DualProblem)
    reading = problem.reading
    plain = all(type(value) in _PLAIN for value in vars(reading).values())
    given = {"gram": copied_gram, "reading": copy(reading) if plain else deepcopy(reading)}
    other.__dict__.update(given)
    rest = ((name, value) for name, value in zip(_FIELDS, _given(problem), strict=True) if name not in given)
    other.__dict__.update({name: _isolated(value) for name, value in rest})
    return other


def _isolated(value: Any) -> Any:
    """Return a new object for a mutable value; its memory may be shared if that is read-only."""
    if isinstance(value, np.ndarray):
        return value.view()  # shape and dtype of an array can be set even if its memory is read-only
    if type(value) in _PLAIN:
        return value
    if isinstance(value, RadialPoints):
        return value.view()
    if isinstance(value, SparsePoints):
        return value.view()
    if callable(value):
        return lambda *points: value(*points)  # a callable object may have attributes that can be set
    return value
