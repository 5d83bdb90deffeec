"""`Ecology`, the base class of `EcoSVC` and `EcoSVDD`: stream, new equilibria, certificates, and saved state.

In the terms of ecology a point is a species, its α an abundance, the remembered points of a pair of classes a
community, and the optimum its equilibrium. A violator of its KKT condition invades; a point whose α becomes 0 is
extinct.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ..core.certificate import Certificate, Certifier, certify
from ..core.gram import Gram
from ..core.kernel_functions import mean_of
from ..core.options import Number, OneOf
from ..core.problem import DualProblem
from ..core.runtime.warn import warn_user
from ..core.solution import Solution, Status
from ..driver.solve import solve
from ..exceptions import FitError, ProblemError
from ..online.invasion import round_off_gap
from ..online.stream import Community, learn
from ..refinement.refine import refine, snap
from ..solvers.registry import DEFAULT_SOLVER
from ._base import fitted
from ._streaming import StreamMachine, remembered
from ._verify import agree, round_off, stored

#: Howell's N_s: points solved as a batch before any point is forgotten.
MIN_FIRST_POINTS = 30
#: Up to this many variables, the refinement alone is faster than a solver followed by the refinement.
MAX_VARIABLES_REFINE_ONLY = 64


class Ecology(StreamMachine):
    """Base class of the estimators that learn by invasion; subclasses declare the parameters used here."""

    _rules = {
        "reequilibrate": OneOf(words=("working-set", "lotka-volterra")),
        "n_init": Number(at_least=1, whole=True, none=True),
        "reserve": Number(at_least=0, infinite=True, note="(an integer counts points, a float times the survivors)"),
        "tol": Number(above=0, note="(a relative gap)"),
    }
    _fitted_by: ClassVar[str] = "_communities"
    _kept = (*StreamMachine._kept, "tol")

    reequilibrate: str
    n_init: int | None
    tol: float
    n_seen_: int
    _communities: list[Community]
    #: The mean of the first batch, which a kernel that allows translation subtracts from all points.
    _center: NDArray | None

    def _pose(self, X: NDArray, sign: NDArray, cap: NDArray, seen: int) -> DualProblem:
        """Return the dual problem of the points X, remembered of ``seen`` points in all."""
        raise NotImplementedError

    def _read(self) -> None:
        """Set what prediction needs from the communities."""
        raise NotImplementedError

    # --- learning --------------------------------------------------------------------------------

    def _begin(self, X: NDArray, count: int) -> None:
        """On the first batch, fix the kernel's width and start with empty communities."""
        params = self._as_fitted
        if isinstance(params.kernel, str) and params.kernel == "precomputed":
            raise ProblemError("kernel='precomputed' has no points to stream; give a kernel's name or a callable")
        if self.__sklearn_is_fitted__():
            return
        gram = Gram(X, params.kernel, gamma=params.gamma, degree=params.degree, coef0=params.coef0)
        self._gamma, self._center = gram.gamma, mean_of(X) if gram.is_translatable else None
        self.n_seen_ = 0
        self._communities = [Community.empty(X.shape[1])] * count
        if self._first_points() < X.shape[1]:
            warn_user(
                f"n_init={self.n_init} is smaller than the {X.shape[1]} features: nearly all of the first points are "
                "then support vectors, and tell little about the next (Howell's SI asks for more). Raise n_init"
            )

    def _first_points(self) -> int:
        """Return the number of points that are solved as a batch before any is forgotten."""
        return max(MIN_FIRST_POINTS, self.n_features_in_ + 1) if self.n_init is None else int(self.n_init)

    def _reserve_size(self, survivors: int) -> float:
        """Return how many points without weight are remembered beside this number of survivors."""
        return float(self.reserve if isinstance(self.reserve, (int, np.integer)) else self.reserve * survivors)

    def _learn_block(self, c: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community:
        """Return the community after it has learned new points, point by point where they violate."""
        community = learn(
            c,
            X,
            sign,
            cap,
            ids,
            pose=self._pose,
            equilibrate=self._equilibrate,
            reserve=self._reserve_size,
            n_init=self._first_points(),
            gap_tol=0.1 * self.tol,
        )
        if len(X):
            self._warn_unless_equilibrium(community)
        return community

    def _warn_unless_equilibrium(self, community: Community) -> None:
        """Warn if a community is not at its equilibrium within ``tol``, or cannot be certified."""
        problem = self._pose(community.X, community.sign, community.cap, community.seen)
        certifier = Certifier(problem)
        if certifier.psd.is_psd:
            gap, _ = certifier.appraise(community.alpha, community.h + problem.p)
            if gap <= 0.1 * self.tol and round_off_gap(problem, community.alpha, community.h) <= 0.1 * self.tol:
                return
        # A new certifier: the one above has built the whole matrix for its spectrum, and its gap may differ by
        # round-off from the one that `certificate_` will show.
        certificate = certify(problem, community.alpha)
        if certificate.relative_gap is None:
            _warn(
                f"kernel: the problem's matrix is {certificate.psd}. The equilibrium the solver reached is "
                "used as it is, and certificates are withheld. A positive semidefinite kernel has a certified optimum."
            )
        elif not certificate.within(self.tol):
            lost = certificate.relative_rounding or 0.0
            _warn(
                f"A new equilibrium was reached to relative gap {certificate.relative_gap:.3g} and rounding "
                f"{lost:.2g} only, not tol={self.tol:.3g}. Scale the features, or lower C."
            )

    def _kernel_of(self, X: NDArray) -> Gram:
        """Return the Gram of some points, with the width and the centre of the first batch."""
        center = self._center if self._sum_is_fixed() else None
        params = self._as_fitted
        return Gram(X, params.kernel, gamma=self._gamma, degree=params.degree, coef0=params.coef0, center=center)

    def _sum_is_fixed(self) -> bool:
        """Whether the problem fixes Σσα, so that a translation of the points does not change it."""
        return True

    def _equilibrate(self, problem: DualProblem, alpha: NDArray) -> NDArray:
        """Return the minimum of a problem from a feasible start; the α of extinct points is exactly 0."""
        uses_flow, certifier = self.reequilibrate == "lotka-volterra", Certifier(problem)
        if (
            not uses_flow
            and problem.n <= MAX_VARIABLES_REFINE_ONLY
            and certifier.psd.is_psd
            and not problem.is_hard_margin
        ):
            refined = refine(problem, alpha, certifier=certifier).alpha
            if certifier.certify(refined).reaches(self.tol):
                return refined
        if uses_flow:  # snapping variables to their bounds costs the square root of the gap
            solution = solve(problem, self.reequilibrate, tol=1e-4 * self.tol, warm=alpha)
        else:
            solution = solve(problem, DEFAULT_SOLVER, refine="early", tol=self.tol, warm=alpha)
        if solution.status in (Status.BROKEN, Status.NOT_SEPARABLE):
            found = "C=inf" if solution.status is Status.NOT_SEPARABLE else f"reequilibrate={self.reequilibrate!r}"
            raise FitError(f"{found}: {solution.status.text} The model is left as it was.", solution)
        if solution.refined:
            return solution.alpha
        # A flow ends near the bounds, not on them. Where a Qᵢᵢ is almost 0, `snap` may choose the wrong variables.
        snapped = snap(
            problem, solution.alpha, certifier.appraise(solution.alpha, certifier.compute(solution.alpha))[1]
        )
        before, after = solution.certificate.objective, certifier.certify(snapped).objective
        return snapped if after <= before + self.tol * abs(before) else solution.alpha

    # --- fitted attributes -----------------------------------------------------------------------

    @fitted
    def survivors_(self) -> NDArray:
        """Numbers of the points with weight, in the order of the stream (0 is the first)."""
        return np.unique(np.concatenate([c.ids[c.survivors] for c in self._communities]))

    @fitted
    def reserve_(self) -> NDArray:
        """Numbers of the points that are remembered without weight, ascending."""
        remembered_ids = np.unique(np.concatenate([c.ids for c in self._communities]))
        return np.setdiff1d(remembered_ids, self.survivors_, assume_unique=True)

    @fitted
    def n_invasions_(self) -> int:
        """How often a point gained weight, over all pairs of classes."""
        return sum(c.invasions for c in self._communities)

    @fitted
    def n_extinctions_(self) -> int:
        """How often a point lost its weight; invasions minus extinctions is the number of survivors."""
        return sum(c.extinctions for c in self._communities)

    @fitted
    def solutions_(self) -> list[Solution]:
        """The equilibrium of each pair that has points, as a `Solution` of the problem of the points it remembers."""
        nonempty = [c for c in self._communities if len(c.X)]
        return [
            remembered(self._pose(c.X, c.sign, c.cap, c.seen), c.alpha, "invasion", self._as_fitted.tol)
            for c in nonempty
        ]

    def _certify_all(self, k: int, X: NDArray, sign: NDArray, cap: NDArray) -> Certificate:
        """Return the certificate of community k over all points it has learned, in which its survivors are found."""
        community = self._communities[k]
        unplaced: defaultdict[bytes, list[float]] = defaultdict(list)
        for j in community.survivors:
            unplaced[_key(community.X[j], community.sign[j], community.cap[j])].append(community.alpha[j])
        alpha = np.zeros(len(X))
        for i in range(len(X)):
            if values := unplaced.get(_key(X[i], sign[i], cap[i])):
                alpha[i] = values.pop()
        if missing := sum(map(len, unplaced.values())):
            raise ProblemError(
                f"X: {missing} of {len(community.survivors)} survivors are not among its rows (with their labels and "
                "weights); certify needs all points that were learned"
            )
        return certify(self._pose(X, sign, cap, len(X)), alpha)

    # --- files -----------------------------------------------------------------------------------

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays: dict[str, NDArray] = {}
        counts = []
        for k, c in enumerate(self._communities):
            arrays |= {f"community.{k}.{name}": getattr(c, name) for name in ("X", "sign", "cap", "alpha", "h", "ids")}
            counts.append([c.seen, c.invasions, c.extinctions])
        if self._center is not None:
            arrays["center"] = self._center
        return arrays, {"gamma": self._gamma, "communities": counts, "n_seen": self.n_seen_}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        self._gamma, self.n_seen_, self._communities = facts["gamma"], facts["n_seen"], []
        if type(self._gamma) is not float or not 0 <= self._gamma < np.inf or type(self.n_seen_) is not int:
            raise ValueError(f"its facts 'gamma' and 'n_seen' are {self._gamma!r} and {self.n_seen_!r}")
        self._center = stored(arrays, "center", "f", (self.n_features_in_,)) if "center" in arrays else None
        if self._center is not None and not np.isfinite(self._center).all():
            raise ValueError("its centre is no point")
        for k, counts in enumerate(facts["communities"]):
            X = stored(arrays, f"community.{k}.X", "f", (None, self.n_features_in_))
            sign, cap, alpha, h = (
                stored(arrays, f"community.{k}.{name}", "f", (len(X),)) for name in ("sign", "cap", "alpha", "h")
            )
            ids = stored(arrays, f"community.{k}.ids", "i", (len(X),))
            if not all(np.isfinite(array).all() for array in (X, alpha, h)):
                raise ValueError(f"the numbers of its community {k} are not finite")
            if not ((np.abs(sign) == 1).all() and (cap > 0).all() and (alpha >= 0).all()):
                raise ValueError(f"signs, bounds or weights of its community {k} are out of range")
            if len(X) and not (ids[0] >= 0 and (np.diff(ids) > 0).all() and ids[-1] < self.n_seen_):
                raise ValueError(f"the ids of its community {k} are not ascending below {self.n_seen_}")
            if len(counts) != 3 or any(type(count) is not int or count < 0 for count in counts):
                raise ValueError(f"the counts of its community {k} are {counts!r}")
            community = Community(X, sign, cap, alpha, h, ids, *counts)
            if not len(X) <= counts[0] <= self.n_seen_ or counts[1] - counts[2] != len(community.survivors):
                raise ValueError(f"the counts of its community {k} are not those of its points")
            if len(X):
                problem = self._pose(X, sign, cap, counts[0])
                agree(f"alpha of community {k}", problem.infeasibility(alpha), 0.0, 1e-9 * float(alpha.sum()))
                agree(f"gradient of community {k}", h, problem.gradient(alpha), round_off(problem, alpha))
            self._communities.append(community)
        self._read()


def _warn(message: str) -> None:
    warn_user(message, ConvergenceWarning)


def _key(x: NDArray, sign: float, cap: float) -> bytes:
    """Return the bytes of a point with its sign and bound, by which equal points are found."""
    return (np.append(x, [sign, cap]) + 0.0).tobytes()  # −0 is 0
