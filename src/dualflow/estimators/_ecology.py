"""What `EcoSVC` and `EcoSVDD` share: the stream, the new equilibria, the certificates, the state that is saved."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .._solve import solve
from ..core.certificate import Certificate, certify
from ..core.kernels import Gram
from ..core.problem import DualProblem
from ..core.solution import Status
from ..core.support import refine, snap
from ..exceptions import ProblemError
from ..online.invasion import interval, middle
from ..online.stream import Community, learn
from ..registry import make_solver
from ._base import FitError, KernelMachine, _reject_mixed_labels, _reject_unfit, is_plain
from ._packing import stored

__all__ = ["Ecology"]

#: Howell's N_s: points solved as a batch before anybody is forgotten.
FIRST_POINTS = 30
#: Up to so many variables the refinement alone is faster than a solver and the refinement.
SMALL = 64


class Ecology(KernelMachine):
    """Base of the estimators that learn by invasion; subclasses declare the parameters used here."""

    reequilibrate: str
    n_init: int | None
    reserve: float
    n_seen_: int
    _gamma: float
    _certificates: list[Certificate] | None
    _communities: list[Community]

    def _pose(self, X: NDArray, sign: NDArray, cap: NDArray, seen: int) -> DualProblem:
        """The dual problem of some points."""
        raise NotImplementedError

    def _limits(self, community: Community) -> tuple[NDArray | None, NDArray]:
        """e and u of the community's dual problem."""
        raise NotImplementedError

    def _read(self) -> None:
        """Set what prediction needs from the communities."""
        raise NotImplementedError

    # --- learning --------------------------------------------------------------------------------

    def _as_a_whole(self, task: Callable[[], None], afresh: bool = False) -> Self:
        """Run a task that changes the model; whatever ends it early, Ctrl-C included, leaves the model as it was."""
        before = self.__dict__.copy()
        try:
            if afresh:
                for name in ("_communities", "classes_", "n_features_in_", "feature_names_in_"):
                    self.__dict__.pop(name, None)
            task()
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _check_batch(self, X: ArrayLike, *y: ArrayLike, least: int = 1) -> tuple[NDArray, ...]:
        """Validated X of at least so many points, and y if it is given; the first batch fixes the features."""
        first, named = not hasattr(self, "_communities"), hasattr(self, "feature_names_in_")
        # What scikit-learn's validation takes for a point is what the model takes for twenty.
        if (
            not named
            and is_plain(X, 2, finite=True)
            and (len(X) >= least if first else X.shape[1] == self.n_features_in_)
        ):
            labels = [array for array in y if is_plain(array, 1) and len(array) == len(X)]
            if len(labels) == len(y):
                self.n_features_in_: int = X.shape[1]
                return X, *labels
        _reject_unfit(X, "X")
        for array in y:
            _reject_mixed_labels(array)
        wanted: dict[str, Any] = {"dtype": np.float64, "order": "C", "ensure_min_samples": least, "reset": first}
        checked = validate_data(self, X, *y, **wanted)
        return checked if y else (checked,)

    def _begin(self, X: NDArray, count: int) -> None:
        """Check parameters; on the first batch, fix the kernel's width and start with empty communities."""
        self._check_parameters()
        if hasattr(self, "_communities"):
            return
        if self.kernel == "precomputed":
            raise ProblemError("kernel='precomputed' has no points to stream; give a kernel's name or a callable")
        self._gamma = self._gram(X).gamma
        self.n_seen_ = 0
        self._communities = [Community.empty(X.shape[1])] * count
        if self._first_points() < X.shape[1]:
            warnings.warn(
                f"n_init={self.n_init} is smaller than the {X.shape[1]} features: so few points are nearly all "
                "support vectors, and whom they let in says little (Howell's SI asks for more). Raise n_init",
                UserWarning,
                stacklevel=5,
            )

    def _check_parameters(self) -> None:
        if self.reequilibrate not in ("working-set", "lotka-volterra"):
            raise ProblemError(f"reequilibrate={self.reequilibrate!r} is not one of 'working-set', 'lotka-volterra'")
        n_init, reserve = self.n_init, self.reserve
        if n_init is not None and (isinstance(n_init, bool) or not isinstance(n_init, (int, np.integer)) or n_init < 1):
            raise ProblemError(f"n_init={n_init!r} must be an integer ≥ 1, or None")
        numeric = isinstance(reserve, (int, float, np.integer, np.floating)) and not isinstance(reserve, bool)
        if not numeric or not reserve >= 0:
            raise ProblemError(f"reserve={reserve!r} must be a number of points, or a float times the survivors, ≥ 0")

    def _first_points(self) -> int:
        return max(FIRST_POINTS, self.n_features_in_ + 1) if self.n_init is None else int(self.n_init)

    def _room(self, survivors: int) -> float:
        """How many points without weight are remembered beside so many survivors."""
        return self.reserve if isinstance(self.reserve, (int, np.integer)) else self.reserve * survivors

    def _meet(self, k: int, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community:
        """What becomes of community k when it meets newcomers."""
        return learn(
            self._communities[k],
            X,
            sign,
            cap,
            ids,
            pose=self._pose,
            equilibrate=self._equilibrate,
            reserve=self._room,
            n_init=self._first_points(),
        )

    def _kernel_of(self, X: NDArray) -> Gram:
        """The Gram of some points, with the width that the first batch fixed."""
        return Gram(X, self.kernel, gamma=self._gamma, degree=self.degree, coef0=self.coef0)

    def _equilibrate(self, problem: DualProblem, alpha: NDArray) -> NDArray:
        """The minimum of a small problem, from a feasible start, with zeros where species are extinct."""
        if self.reequilibrate == "lotka-volterra":
            # Putting variables on their bounds costs the square root of the gap.
            solution = solve(problem, "lotka-volterra", tol=1e-4 * self.tol, warm=alpha)
        elif problem.n <= SMALL and problem.psd.is_psd and not problem.is_hard_margin:
            return refine(problem, alpha).alpha
        else:
            engine = make_solver("working-set").to_be_refined()
            solution = solve(problem, engine, refine=True, tol=self.tol, warm=alpha)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # the driver keeps what it has; half a batch must not become a model
        if solution.status in (Status.BROKEN, Status.NOT_SEPARABLE):
            found = "C=inf" if solution.status is Status.NOT_SEPARABLE else f"reequilibrate={self.reequilibrate!r}"
            raise FitError(f"{found}: {solution.status.text} The model is left as it was.", solution)
        gap = solution.certificate.relative_gap
        if gap is None:
            _warn(
                f"kernel: the problem's matrix is {solution.certificate.psd}. The equilibrium the solver reached is "
                "used as it is, and certificates are withheld. A positive semidefinite kernel has a certified optimum."
            )
        elif solution.status is not Status.OPTIMAL and gap > self.tol:
            _warn(
                f"A new equilibrium was reached to relative gap {gap:.3g} only, not tol={self.tol:.3g}: "
                f"{solution.status.text} Scale the features, or lower C."
            )
        # A flow ends near the bounds, not on them.
        return solution.alpha if solution.refined else snap(problem, solution.alpha, solution.certificate)

    def _multiplier(self, community: Community) -> float:
        """ν of the community's equilibrium."""
        e, upper = self._limits(community)
        return 0.0 if e is None else middle(*interval(community.h, e, community.alpha, upper))

    # --- what there is to say --------------------------------------------------------------------

    @property
    def survivors_(self) -> NDArray:
        """Which points of the stream (0 is the first) have weight, ascending."""
        check_is_fitted(self)
        return np.unique(np.concatenate([c.ids[c.survivors] for c in self._communities]))

    @property
    def reserve_(self) -> NDArray:
        """Which points are remembered without weight, ascending."""
        check_is_fitted(self)
        remembered = np.unique(np.concatenate([c.ids for c in self._communities]))
        return np.setdiff1d(remembered, self.survivors_, assume_unique=True)

    @property
    def n_invasions_(self) -> int:
        """Points that ever got in, over all pairs of classes."""
        check_is_fitted(self)
        return sum(c.invasions for c in self._communities)

    @property
    def n_extinctions_(self) -> int:
        """Points that got in and lost their weight again; invasions less these are the survivors."""
        check_is_fitted(self)
        return sum(c.extinctions for c in self._communities)

    @property
    def certificates_(self) -> list[Certificate]:
        """How far each pair's model is from the optimum over the points it remembers; made when asked for."""
        check_is_fitted(self)
        if self._certificates is None:
            made = [self._pose(c.X, c.sign, c.cap, c.seen) if len(c.X) else None for c in self._communities]
            met = zip(made, self._communities, strict=True)
            self._certificates = [certify(problem, c.alpha) for problem, c in met if problem is not None]
        return self._certificates

    @property
    def certificate_(self) -> Certificate:
        """The certificate of a model of two classes, or of a ball, on the points it remembers."""
        found = self.certificates_
        if len(found) != 1:
            raise AttributeError(f"{len(found)} pairs of classes were solved: see certificates_")
        return found[0]

    def _certify_all(self, k: int, X: NDArray, sign: NDArray, cap: NDArray) -> Certificate:
        """The certificate of community k on all points it has met: the survivors are looked for among them."""
        community = self._communities[k]
        wanted: defaultdict[bytes, list[float]] = defaultdict(list)
        for j in community.survivors:
            wanted[_key(community.X[j], community.sign[j], community.cap[j])].append(community.alpha[j])
        alpha = np.zeros(len(X))
        for i in range(len(X)):
            if waiting := wanted.get(_key(X[i], sign[i], cap[i])):
                alpha[i] = waiting.pop()
        if lost := sum(map(len, wanted.values())):
            raise ProblemError(
                f"X: {lost} of {len(community.survivors)} survivors are not among its rows (with their labels and "
                "weights); certify needs all points that were learned"
            )
        return certify(self._pose(X, sign, cap, len(X)), alpha)

    # --- the state -------------------------------------------------------------------------------

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays: dict[str, NDArray] = {}
        counts = []
        for k, c in enumerate(self._communities):
            arrays |= {f"community.{k}.{name}": getattr(c, name) for name in ("X", "sign", "cap", "alpha", "h", "ids")}
            counts.append([c.seen, c.invasions, c.extinctions])
        return arrays, {"gamma": self._gamma, "communities": counts, "n_seen": self.n_seen_}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        self._gamma, self.n_seen_, self._communities = facts["gamma"], facts["n_seen"], []
        if type(self._gamma) is not float or not 0 <= self._gamma < np.inf or type(self.n_seen_) is not int:
            raise ValueError(f"its facts 'gamma' and 'n_seen' are {self._gamma!r} and {self.n_seen_!r}")
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
            self._communities.append(Community(X, sign, cap, alpha, h, ids, *counts))
        self._read()


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _key(x: NDArray, sign: float, cap: float) -> bytes:
    return (np.append(x, [sign, cap]) + 0.0).tobytes()  # −0 is 0
