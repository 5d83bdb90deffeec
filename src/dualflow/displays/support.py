"""Plot a decision surface or ball, its margins, and the support vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ._axes import BLUE, COLOURS, DARK, GREY, MARKERS, axes_for, class_name, legend_below, matplotlib_part, titled
from ._scene import Scene, paint, plane_of, scene_of_estimator, scene_of_solution

#: Maximum number of values (points times features) of the grid that are evaluated in one batch.
MAX_BATCH_VALUES = 2_000_000


class SupportDisplay:
    """The decision surface of a model, its margins and its support vectors.

    - Two classes: f = 0 and the margins f = ±1.
    - Several classes: their regions, without the margins of the pairs.
    - SVDD and one-class models: the boundary between inside and outside.
    - Regression: with one feature the function and its tube, with two features its levels.

    With one feature all other models are drawn as f(x) against x. With more than two features the plane of the first
    two principal components is drawn: the function is evaluated *on* the plane, and the points are projected onto it. A
    point may then lie on the wrong side; `text_` gives the percentage of points that lie on their own side.

    Use `from_estimator` or `from_solution`, which also draw it.

    Attributes
    ----------
    figure_, ax_
    surface_ : contour set; with several classes a list of them; with one feature None, or the tube of a regression
    line_ : contour set of f = 0 (and ±1); with one feature the line of f
    points_ : list of PathCollection
        One for each class.
    support_ : PathCollection
        Rings around the support vectors.
    text_ : Text or None
        The remark on the projection of more than two features.
    legend_ : Legend or None
    response_ : array
        Values of the function on the grid: shape (resolution, resolution), or (4 · resolution,) with one feature.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dualflow import SVC, SupportDisplay
    >>> X, y = [[0.0, 0.0], [1.0, 0.5], [2.0, 2.0], [3.0, 2.5]], ["no", "no", "yes", "yes"]
    >>> model = SVC(kernel="linear", C=10.0).fit(X, y)
    >>> display = SupportDisplay.from_estimator(model, X, y, ax=Figure().subplots())
    >>> display.response_.shape, len(display.support_.get_offsets()) == len(model.support_)
    ((120, 120), True)
    >>> [text.get_text() for text in display.legend_.get_texts()]
    ['no', 'yes', '2 support vectors', 'f = 0', 'margins, f = ±1']
    """

    def __init__(self, scene: Scene, *, grid_resolution: int = 120, title: str | None = None) -> None:
        whole = isinstance(grid_resolution, int | np.integer) and not isinstance(grid_resolution, bool)
        if not whole or grid_resolution < 2:
            raise ProblemError(f"grid_resolution={grid_resolution!r} must be a whole number ≥ 2")
        self.scene, self.grid_resolution, self.title = scene, int(grid_resolution), title

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, grid_resolution: int = 120, ax: Any = None, **options: Any
    ) -> SupportDisplay:
        """Draw a fitted model, a pipeline that ends in one, or a search.

        Parameters
        ----------
        estimator : SVC, SVR, SVDD, OneClassSVM, …, Pipeline or search
        X : array, sparse matrix or data frame of shape (n, m)
            The points of the fit.
        y : array of shape (n,), optional
            Their labels or targets; without them a regression with one feature shows no points.
        grid_resolution : int
            Number of grid points along each axis.
        ax, **options
            As for `plot`.

        Raises
        ------
        ProblemError
            The model has no support vectors or a precomputed kernel, or X and y are not those of the fit.
        sklearn.exceptions.NotFittedError
        """
        scene = scene_of_estimator(estimator, X, y)
        return cls(scene, grid_resolution=grid_resolution).plot(ax, **options)

    @classmethod
    def from_solution(
        cls, solution: Any, *, grid_resolution: int = 120, ax: Any = None, **options: Any
    ) -> SupportDisplay:
        """Draw the answer of a `Solution` on the points of its problem; parameters are those of `from_estimator`."""
        return cls(scene_of_solution(solution), grid_resolution=grid_resolution).plot(ax, **options)

    def plot(self, ax: Any = None, *, legend: bool = True, **scatter_kwargs: Any) -> SupportDisplay:
        """Draw the scene.

        Parameters
        ----------
        ax : Axes, optional
            A new figure by default.
        legend : bool
            Show a legend below the axes.
        **scatter_kwargs
            Passed to ``Axes.scatter`` for the points.

        Raises
        ------
        ProblemError
            ``ax`` is not an Axes.
        SolverUnavailable
            matplotlib is not installed; the message has the pip line.
        """
        scene = self.scene
        self.figure_, axes = axes_for(ax, 1, 1, (6.0, 4.6))
        self.ax_, self.text_ = axes[0], None
        self.surface_: Any = None
        self.line_: Any = None
        names = scene.features
        if scene.X.shape[1] == 1:
            self._curve(self.ax_)
            what = "prediction" if scene.kind == "value" else "class" if scene.kind == "classes" else "decision value f"
            labels: tuple[str, str] = (names[0] if names else "feature", what)
        else:
            plane = None if scene.X.shape[1] == 2 else plane_of(scene.X)
            self._surface(self.ax_, plane)
            labels = (names[0], names[1]) if names and plane is None else ("first feature", "second feature")
            labels = labels if plane is None else plane.labels
        handles = self._draw_points(self.ax_, scatter_kwargs)
        self.ax_.set(xlabel=labels[0], ylabel=labels[1])
        if self.title or scene.circuits:
            before = self.title or (self.text_.get_text() if self.text_ else "")
            small = {"fontsize": "small"} if scene.circuits else {}
            self.ax_.set_title(titled(before, scene.circuits), **small)
        self.legend_ = legend_below(self.ax_, handles + self._line_handles()) if legend else None
        return self

    # --- the function ----------------------------------------------------------------------------

    def _surface(self, ax: Any, plane: Any) -> None:
        """Draw the function of two features, or on the plane through more."""
        scene = self.scene
        self._places = scene.X if plane is None else plane.places(scene.X)
        self._support_places = scene.support if plane is None else plane.places(scene.support)
        low, high = self._places.min(axis=0), self._places.max(axis=0)
        edge = np.where(high > low, 0.08 * (high - low), 1.0)
        u, v = (np.linspace(low[k] - edge[k], high[k] + edge[k], self.grid_resolution) for k in (0, 1))
        places = np.column_stack([axis.ravel() for axis in np.meshgrid(u, v)])
        values = self._evaluated(places, plane)
        self.response_ = values.reshape(len(v), len(u))
        if plane is not None:
            caveat = "the points are projected onto it"
            if scene.kind != "value":
                caveat = f"{100 * self._agreement(plane):.0f} % of the points lie on their own side here"
            of = f"plane of the first 2 of {scene.X.shape[1]} principal components"
            self.text_ = ax.set_title(f"{of},\n{caveat}", fontsize="small")
        self.surface_, self.line_ = paint(ax, scene, u, v, self.response_)

    def _evaluated(self, places: NDArray, plane: Any) -> NDArray:
        m = self.scene.X.shape[1]
        size = max(1, MAX_BATCH_VALUES // m)
        parts = [places[k : k + size] for k in range(0, len(places), size)]
        return np.concatenate([self.scene.function(part if plane is None else plane.points(part)) for part in parts])

    def _agreement(self, plane: Any) -> float:
        """Return the fraction of points that get the same decision as their projections onto the plane."""
        if self.scene.kind == "value":
            return 1.0
        size = max(1, MAX_BATCH_VALUES // self.scene.X.shape[1])
        own = []
        for k in range(0, self.scene.X.shape[0], size):
            part = self.scene.X[k : k + size]
            own.append(self.scene.function(part.toarray() if hasattr(part, "toarray") else part))
        true, drawn = np.concatenate(own), self._evaluated(self._places, plane)
        if self.scene.kind == "classes":
            return float(np.mean(true == drawn))
        return float(np.mean((true >= 0) == (drawn >= 0)))

    def _curve(self, ax: Any) -> None:
        """Draw the function of one feature."""
        scene = self.scene
        x = scene.X[:, 0]
        edge = 0.08 * float(np.ptp(x)) or 1.0
        grid = np.linspace(x.min() - edge, x.max() + edge, 4 * self.grid_resolution)
        self.response_ = scene.function(grid[:, None])
        (self.line_,) = ax.plot(grid, self.response_, color=DARK, linewidth=1.2, zorder=1)
        if scene.kind == "value":
            if scene.epsilon:
                tube = (self.response_ - scene.epsilon, self.response_ + scene.epsilon)
                self.surface_ = ax.fill_between(grid, *tube, color=GREY, alpha=0.25, linewidth=0, zorder=0)
            self._places = np.column_stack([x, np.full(len(x), np.nan) if scene.y is None else scene.y])
            known = scene.support_y
            at = scene.function(scene.support) if known is None and len(scene.support) else known
            self._support_places = np.column_stack([scene.support[:, 0], at if at is not None else []])
            return
        levels = {"margin": (-1.0, 0.0, 1.0), "ball": (0.0,), "classes": ()}[scene.kind]
        for level in levels:
            ax.axhline(level, color=GREY, linestyle="-" if level == 0 else "--", linewidth=1.0, zorder=0)
        self._places = np.column_stack([x, scene.function(scene.X)])
        held = scene.function(scene.support) if len(scene.support) else np.empty(0)
        self._support_places = np.column_stack([scene.support[:, 0], held])
        if scene.kind == "classes":
            ax.set_yticks(range(len(scene.classes)), [str(one) for one in scene.classes])

    # --- the points ------------------------------------------------------------------------------

    def _draw_points(self, ax: Any, style: dict[str, Any]) -> list[Any]:
        scene, P, line = self.scene, self._places, matplotlib_part("lines").Line2D
        small = 22 if len(P) <= 300 else 8
        self.points_, handles = [], []
        own: dict[str, Any] = {"s": small, "edgecolors": "white", "linewidths": 0.4, "zorder": 2} | style
        if scene.kind == "value" or scene.y is None or not len(scene.classes):
            shown = own | {"color": BLUE if scene.kind != "ball" else COLOURS[0]}
            if scene.kind == "value" and scene.y is not None and self.scene.X.shape[1] > 1:
                shown = own | {"c": scene.y, "cmap": "cividis", "norm": self.surface_.norm}
            self.points_.append(ax.scatter(*P.T, **shown))
            plain = scene.kind != "value" or scene.X.shape[1] == 1 or scene.y is None
            tone, label = (BLUE, "points") if plain else (GREY, "points (colour: target)")
            handles.append(line([], [], color=tone, marker="o", linestyle="", markersize=5, label=label))
        else:
            for k, label in enumerate(scene.classes):
                mine, colour, marker = scene.y == label, COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
                if mine.any():
                    self.points_.append(ax.scatter(*P[mine].T, **({"color": colour, "marker": marker} | own)))
                    handles.append(
                        line([], [], color=colour, marker=marker, linestyle="", markersize=5, label=class_name(label))
                    )
        ring = {"s": 3.2 * small, "facecolors": "none", "edgecolors": DARK, "linewidths": 0.9, "zorder": 3}
        self.support_ = ax.scatter(*self._support_places.T, **ring)
        few = len(self._support_places)
        ring_label = f"{few} support vector{'' if few == 1 else 's'}"
        handles.append(
            line(
                [],
                [],
                markeredgecolor=DARK,
                markerfacecolor="none",
                marker="o",
                linestyle="",
                markersize=8,
                label=ring_label,
            )
        )
        return handles

    def _line_handles(self) -> list[Any]:
        scene, line = self.scene, matplotlib_part("lines").Line2D
        if scene.kind == "classes" or self.line_ is None:
            return []
        if scene.kind == "value":
            if scene.X.shape[1] > 1:
                return []
            patch = matplotlib_part("patches").Patch
            found = [line([], [], color=DARK, label="prediction")]
            if scene.epsilon:
                found.append(patch(color=GREY, alpha=0.25, linewidth=0, label=f"tube, ±{scene.epsilon:g}"))
            return found
        if scene.X.shape[1] == 1:
            return [line([], [], color=DARK, label="f")]
        label = "f = 0" if scene.kind == "margin" else "f = 0: inside is grey"
        found = [line([], [], color=DARK, label=label)]
        if scene.kind == "margin":
            found.append(line([], [], color=DARK, linestyle="--", label="margins, f = ±1"))
        return found
