"""The support vectors of a model, and their kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ..core.forks import cached_property
from ..core.kept import KeptGram
from ..core.kernels import Gram

__all__ = ["Support"]


class Support:
    """Some points of a Gram, copied out of it when they are first asked for: who fits need not predict.

    Parameters
    ----------
    gram : Gram
    rows : int array of shape (n_SV,)
    """

    def __init__(self, gram: Gram, rows: NDArray) -> None:
        self._gram, self._rows = gram, rows

    @classmethod
    def of(cls, gram: Gram) -> Support:
        """All points of a Gram."""
        support = object.__new__(cls)
        support.gram = KeptGram(gram)
        return support

    @cached_property
    def gram(self) -> KeptGram:
        """Theirs."""
        return KeptGram(self._gram).subset(self._rows)

    def __getstate__(self) -> dict[str, Any]:
        return {"gram": self.gram}  # without the other points
