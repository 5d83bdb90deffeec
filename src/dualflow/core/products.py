"""Products Qα of one problem, one α after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .screening import Screen
from .values import immutable
from .workspace import Workspace

__all__ = ["Products"]

#: A product is made of the last one from scratch and the change since if that is one of at most this part of the
#: weights, and if another one from scratch takes more kernel values than this (half a millisecond).
CHANGED, AT_HAND = 0.5, 1 << 18
#: `CHANGED` where a product from scratch takes float32 for most of it.
CHANGED_SCREENED = 0.1


class Products:
    """Qα in float64; where a `Screen` shows that they are beyond doubt, entries of variables at 0 are those of float32.

    Parameters
    ----------
    workspace : Workspace
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.screen = workspace, Screen(workspace)
        self._alpha = self._product = self._base = self._base_product = np.empty(0)

    def of(self, alpha: NDArray) -> NDArray:
        """Qα, shape (n,), from scratch, or from the last that was and what changed; kept for exactly this α."""
        if not np.array_equal(alpha, self._alpha):
            product = self.screen.product(alpha)
            if product is None:
                product = self._by_change(alpha)
            elif not self.screen.applies:
                self._base_product, self._base = immutable(product), immutable(alpha)
            self.keep(alpha, immutable(product))
        return self._product

    @property
    def is_screened(self) -> bool:
        """Whether entries may be in float32."""
        return self.screen.is_in_use

    def keep(self, alpha: NDArray, product: NDArray) -> None:
        """Know the product of an α from elsewhere."""
        self._alpha, self._product = immutable(alpha), product

    def changes_little(self, change: NDArray, alpha: NDArray) -> bool:
        """Whether the product of a change that led to α is worth making in the place of one from scratch: not where
        entries are in float32, whose signs are certain for their own α alone."""
        if self.is_screened:
            return False
        moved, weights = (int(np.count_nonzero(v)) for v in (change, alpha))
        part = CHANGED_SCREENED if self.screen.serves(weights) else CHANGED
        return moved <= part * weights and len(alpha) * weights > AT_HAND

    def _by_change(self, alpha: NDArray) -> NDArray:
        if len(self._base):
            change = alpha - self._base
            # More than α itself would leave digits of its own.
            if self.changes_little(change, alpha) and np.abs(change).sum() <= np.abs(alpha).sum():
                return np.asarray(self._base_product + self.workspace.product(change))
        self._base_product, self._base = immutable(self.workspace.product(alpha)), immutable(alpha)
        return self._base_product
