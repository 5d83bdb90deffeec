"""Plot dual variables as species of a Lotka-Volterra system: survivors, extinct variables, and their interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ._axes import GREEN, GREY, MARKERS, SIGNS, VERMILION, axes_for, class_name, legend_below, matplotlib_part, titled
from ._scene import dense_rows, kernel_coordinates, plane_of

#: Links are searched among this number of the largest survivors.
MAX_LINKED_SURVIVORS = 500
#: Variables that are drawn, at most; of more, a sample with equal steps between the indices, and those with links.
MAX_DRAWN = 5000
#: With more survivors than this, links are drawn above the points, which would hide them.
MAX_SURVIVORS_ABOVE_LINKS = 60


class EcosystemDisplay:
    """The dual variables as species of a Lotka-Volterra system, ȧᵢ = αᵢ(pᵢ − Σⱼ Qᵢⱼαⱼ) up to constraints.

    Survivors (α > 0) are large, with area by α; extinct variables are small. Links show the sign of Qᵢⱼ between
    survivors: competition (Qᵢⱼ > 0, each reduces the growth of the other) and mutualism (Qᵢⱼ < 0, each increases it).
    The strongest links are drawn, by |Qᵢⱼ|αᵢαⱼ, which is also their width; the legend gives the number of all.

    Positions are the two features; with more features the first two principal components; for a regression with one
    feature the feature and the target; for a precomputed kernel, or one feature, the principal coordinates of the
    kernel.

    Parameters
    ----------
    problem : DualProblem
    alpha : array of shape (n,)
    support : array of int
        The survivors.
    names : tuple of str, optional
        Names of the variables with sign −1 and +1.
    features : tuple of str, optional
        Labels of the axes, if there are two features.
    title : str, optional

    Attributes
    ----------
    figure_, ax_
    positions_ : array of shape (n, 2)
    drawn_ : array of int
        Indices of the variables that are drawn: all up to 5000, of more a sample.
    links_ : tuple of LineCollection
        Competition, mutualism.
    pairs_ : tuple of int arrays of shape (k, 2)
        Indices of the linked variables.
    survivors_ : list of PathCollection
        One for each sign.
    extinct_ : PathCollection
    legend_ : Legend or None

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dualflow import EcosystemDisplay, Gram, problems, solve
    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 0.0]]
    >>> solution = solve(problems.svc(Gram(X, "linear"), [-1, 1, 1, 1], C=10.0))
    >>> display = EcosystemDisplay.from_solution(solution, ax=Figure().subplots())
    >>> [len(pairs) for pairs in display.pairs_]  # Q = yyᵀK is 0 here
    [0, 0]
    >>> print(display.ax_.get_title())
    hinge: 3 of 4 survive
    """

    def __init__(
        self,
        problem: Any,
        alpha: NDArray,
        support: NDArray,
        *,
        names: tuple[str, str] | None = None,
        features: tuple[str, str] | None = None,
        title: str | None = None,
    ) -> None:
        self.problem, self.alpha, self.support = problem, np.asarray(alpha, dtype=float), np.asarray(support, dtype=int)
        self.names, self.features, self.title = names, features, title

    @classmethod
    def from_solution(
        cls,
        solution: Any,
        *,
        raw: bool = False,
        names: tuple[str, str] | None = None,
        features: tuple[str, str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> EcosystemDisplay:
        """Draw the answer of a `Solution`.

        Parameters
        ----------
        raw : bool
            Draw the solver's own answer and not the refined one; survivors are then weights above 1e-8 of the largest.
        names : tuple of str, optional
            Names of the variables with sign −1 and +1.
        features : tuple of str, optional
            Labels of the axes, if there are two features.
        ax, **options
            As for `plot`.

        Raises
        ------
        ProblemError
            ``solution`` is of another type.
        """
        if not all(hasattr(solution, name) for name in ("problem", "raw_alpha", "support", "refined")):
            raise ProblemError(f"solution must be what dualflow.solve returns, found {type(solution).__name__}")
        alpha = solution.raw_alpha if raw else solution.alpha
        support = solution.support
        if raw:
            support = np.flatnonzero(np.abs(alpha) > 1e-8 * np.abs(alpha).max(initial=0.0))
        kind = ", raw" if raw else ", refined" if solution.refined else ""
        title = f"{solution.problem.model}{kind}: {len(support)} of {len(alpha)} survive"
        title = titled(title, [solution.raw_summary()] if solution.ran_circuits else [])
        return cls(solution.problem, alpha, support, names=names, features=features, title=title).plot(ax, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> EcosystemDisplay:
        """Draw a fitted model that is one solution: two classes, or none.

        Raises
        ------
        ProblemError
            The model holds several solutions, or none; the message says how to draw one.
        """
        from sklearn.utils.validation import check_is_fitted

        if not hasattr(type(estimator), "solution_"):
            raise ProblemError(
                f"{type(estimator).__name__} has no solution_; if it is a pipeline or search, give its model"
            )
        check_is_fitted(estimator)
        try:
            solutions = estimator.solutions_
        except AttributeError as error:  # the property of a class may raise for this model
            raise ProblemError(str(error)) from None
        if len(solutions) != 1:
            raise ProblemError(
                f"{type(estimator).__name__} holds {len(solutions)} solutions, one for each pair of classes; draw one "
                "with EcosystemDisplay.from_solution(model.solutions_[0])"
            )
        given: dict[str, Any] = {}
        classes = getattr(estimator, "classes_", None)
        if classes is not None and len(classes) == 2:
            given["names"] = tuple(class_name(one) for one in classes)
        found = getattr(estimator, "feature_names_in_", None)
        if found is not None and len(found) == 2:
            given["features"] = tuple(str(one) for one in found)
        return cls.from_solution(solutions[0], ax=ax, **given | options)

    def plot(
        self, ax: Any = None, *, max_links: int = 40, legend: bool = True, **scatter_kwargs: Any
    ) -> EcosystemDisplay:
        """Draw the ecosystem.

        Parameters
        ----------
        ax : Axes, optional
            A new figure by default.
        max_links : int
            Maximum number of links, half of them of each sign.
        legend : bool
            Show a legend below the axes.
        **scatter_kwargs
            Passed to ``Axes.scatter`` for the survivors.

        Raises
        ------
        ProblemError
            ``ax`` or ``max_links`` is not valid.
        SolverUnavailable
            matplotlib is not installed; the message has the pip line.
        """
        if isinstance(max_links, bool) or not isinstance(max_links, int | np.integer) or max_links < 0:
            raise ProblemError(f"max_links={max_links!r} must be a whole number ≥ 0")
        self.figure_, axes = axes_for(ax, 1, 1, (6.0, 5.0))
        self.ax_ = place = axes[0]
        self.positions_, labels = self._positions()
        self.pairs_, press, counts = self._links(int(max_links))
        self.drawn_ = self._drawn_variables()
        handles = self._draw_species(place, scatter_kwargs)
        handles += self._draw_links(place, press, counts)
        place.set(xlabel=labels[0], ylabel=labels[1], title=self.title or "")
        self.legend_ = legend_below(place, handles) if legend else None
        return self

    # --- positions and links --------------------------------------------------------------------------

    def _positions(self) -> tuple[NDArray, tuple[str, str]]:
        """Return the positions of all variables, shape (n, 2), and the labels of the axes."""
        problem, gram = self.problem, self.problem.gram
        at = np.arange(problem.n) if problem.idx is None else problem.idx
        if gram.kernel == "precomputed" or (gram.X.shape[1] == 1 and problem.model != "svr"):
            return kernel_coordinates(gram)[at], ("1st coordinate in feature space", "2nd coordinate in feature space")
        X = dense_rows(gram.X)
        if X.shape[1] == 1:
            # p = ±z − ε for the two variables of a point, so their signed mean is the target z.
            z = np.bincount(at, problem.sigma * problem.p, minlength=len(X)) / np.bincount(at, minlength=len(X))
            return np.column_stack([X[:, 0], z])[at], self.features or ("feature", "target")
        if X.shape[1] == 2:
            return X[at], self.features or ("first feature", "second feature")
        plane = plane_of(X)
        return plane.places(X)[at], plane.labels

    def _links(self, most: int) -> tuple[tuple[NDArray, NDArray], list[NDArray], list[int]]:
        """Return for each sign the strongest pairs of survivors, their |Qᵢⱼ|αᵢαⱼ, and the number of all pairs."""
        weight = np.abs(self.alpha)
        J = self.support[np.argsort(-weight[self.support], kind="stable")[:MAX_LINKED_SURVIVORS]]
        Q = self.problem.block(J, J) if len(J) else np.zeros((0, 0))
        first, second = np.triu_indices(len(J), 1)
        entries = Q[first, second]
        press = np.abs(entries) * weight[J[first]] * weight[J[second]]
        zero = 1e-12 * np.abs(np.diag(Q)).max(initial=0.0)
        found, pressed, counts = [], [], []
        for sign in (1, -1):
            (which,) = np.nonzero(sign * entries > zero)
            counts.append(len(which))
            which = which[np.argsort(-press[which], kind="stable")[: most // 2]]
            pressed.append(press[which])
            found.append(np.column_stack([J[first[which]], J[second[which]]]))
        return (found[0], found[1]), pressed, counts

    def _drawn_variables(self) -> NDArray:
        """Return the variables that are drawn: all, or a sample and those with links."""
        n = self.problem.n
        if n <= MAX_DRAWN:
            return np.arange(n)
        sample = np.linspace(0, n - 1, MAX_DRAWN).astype(np.intp)
        return np.unique(np.concatenate([sample, *(pairs.ravel() for pairs in self.pairs_)]))

    def _draw_species(self, ax: Any, style: dict[str, Any]) -> list[Any]:
        n, line = self.problem.n, matplotlib_part("lines").Line2D
        alive = np.zeros(n, dtype=bool)
        alive[self.support] = True
        weight = np.abs(self.alpha)
        largest = 230.0 * min(1.0, 40.0 / max(1, len(self.support))) + 20.0
        area = 15.0 + largest * weight / max(float(weight.max(initial=0.0)), np.finfo(float).tiny)
        P, signs = self.positions_, self.problem.sigma
        drawn = np.zeros(n, dtype=bool)
        drawn[self.drawn_] = True
        gone = ~alive
        if self.problem.idx is not None:  # a point is extinct if all of its variables are
            gone &= ~np.isin(self.problem.idx, self.problem.idx[alive])
        self.extinct_ = ax.scatter(*P[gone & drawn].T, s=9, color=GREY, linewidths=0, zorder=2)
        regression = self.problem.model == "svr"
        tube = ("on or below the tube", "on or above the tube")
        names = self.names or (tube if regression else ("class −1", "class +1"))
        both = bool((signs > 0).any() and (signs < 0).any())
        self.survivors_, handles = [], []
        for sign, marker, name in zip((-1, 1), MARKERS, names, strict=False):
            colour = SIGNS[sign] if both else SIGNS[-1]
            kept = alive & (np.sign(signs) == sign)
            if not kept.any():
                continue
            own: dict[str, Any] = {
                "color": colour,
                "marker": marker,
                "edgecolors": "white",
                "linewidths": 0.6,
                "zorder": 3,
            }
            shown = kept & drawn
            self.survivors_.append(ax.scatter(*P[shown].T, s=area[shown], **own | style))
            label = f"{name}: {kept.sum()} survive" if both else f"{kept.sum()} survive"
            handles.append(
                line([], [], color=colour, marker=marker, linestyle="", markersize=8, label=f"{label} (area: α)")
            )
        if gone.any():
            handles.append(
                line([], [], color=GREY, marker="o", linestyle="", markersize=3, label=f"{gone.sum()} extinct")
            )
        if len(self.drawn_) < n:
            handles.append(line([], [], linestyle="", label=f"{len(self.drawn_)} of {n} are drawn"))
        return handles

    def _draw_links(self, ax: Any, press: list[NDArray], counts: list[int]) -> list[Any]:
        collection, line = matplotlib_part("collections").LineCollection, matplotlib_part("lines").Line2D
        drawn, handles = [], []
        kinds = (("competition, $Q_{ij}>0$", VERMILION, "-"), ("mutualism, $Q_{ij}<0$", GREEN, "--"))
        most = max((float(values.max(initial=0.0)) for values in press), default=0.0)
        above = 2.5 if len(self.support) <= MAX_SURVIVORS_ABOVE_LINKS else 3.5
        among = f" of the {MAX_LINKED_SURVIVORS} largest" if len(self.support) > MAX_LINKED_SURVIVORS else ""
        for pairs, values, count, (name, colour, dash) in zip(self.pairs_, press, counts, kinds, strict=True):
            widths = 0.5 + 2.0 * values / most if most > 0 else np.full(len(values), 0.5)
            segments = self.positions_[pairs] if len(pairs) else np.empty((0, 2, 2))
            drawn.append(
                collection(segments, colors=colour, linestyles=dash, linewidths=widths, alpha=0.7, zorder=above)
            )
            ax.add_collection(drawn[-1], autolim=False)
            few = f"{len(pairs)} of {count}{among}" if len(pairs) < count else f"{count}{among}"
            handles.append(line([], [], color=colour, linestyle=dash, label=f"{name}: {few}"))
        self.links_ = (drawn[0], drawn[1])
        return handles
