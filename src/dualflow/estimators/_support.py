"""The support vectors of a model, and their kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.forks import cached_property
from ..core.kept import KeptGram
from ..core.kernels import Gram
from ..core.values import in_parts

__all__ = ["Support"]


class Support:
    """Some points of a Gram, copied out of it when they are first asked for: who fits need not predict.

    Parameters
    ----------
    gram : Gram
    rows : int array of shape (n_SV,)
    moved : bool
        Whether their kernel is of what they are less their mean.
    """

    def __init__(self, gram: Gram, rows: NDArray, moved: bool = False) -> None:
        self._gram, self._rows, self._moved = gram, rows, moved

    @cached_property
    def gram(self) -> KeptGram:
        """Theirs."""
        if self._moved:
            return KeptGram(self._gram.subset(self._rows).centred())
        return KeptGram(self._gram).subset(self._rows)

    @cached_property
    def center(self) -> NDArray | None:
        """That of `gram`, which of dense points of several features is not made for it."""
        if "gram" in self.__dict__ or not self._moved or not self._gram.is_linear or self._gram.X.shape[1] < 2:
            return self.gram.center if "gram" in self.__dict__ or self._moved else self._gram.center
        total = np.zeros((1, self._gram.X.shape[1]))
        for part in in_parts(self._gram.X, self._rows):  # numpy adds row to row, and so do parts: the bits are the same
            total = np.add.reduce(np.concatenate((total, self._gram.X[part])), axis=0, keepdims=True)
        center: NDArray = total[0] / len(self._rows)
        return center

    def combined(self, weights: NDArray) -> NDArray:
        """Weights of shape (r, n_SV) as weights of the features, (r, n_features), of dense points less `center`."""
        known = "gram" in self.__dict__
        X, rows = (self.gram.X, slice(None)) if known else (self._gram.X, self._rows)
        found, done = np.zeros((len(weights), X.shape[1])), 0
        for part in in_parts(X, rows):
            points = X[part] if self.center is None else X[part] - self.center
            found += weights[:, done : done + len(points)] @ points
            done += len(points)
        return found

    @property
    def is_linear(self) -> bool:
        """That of `gram`."""
        return self.gram.is_linear if "gram" in self.__dict__ else self._gram.is_linear

    def __getstate__(self) -> dict[str, Any]:
        return {"gram": self.gram}  # without the other points
