"""Names beside points: each where it covers no other, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["place_labels"]

#: Letters are as much wider at another resolution, where they are hinted otherwise.
WIDER = 1.08
#: Of the letters, points.
SIZE = 7.5


def place_labels(ax: Any, points: NDArray, names: Sequence[str], level: float) -> tuple[list[Any], int]:
    """Write each name right or left of its point, as near its height as may be, clear of all and of the line at
    ``level``; the first first, and "" is none.

    Returns the texts, and how many names found no room. The axes must have their limits and their layout.
    """
    renderer = ax.figure._get_renderer() if hasattr(ax.figure, "_get_renderer") else ax.figure.canvas.get_renderer()
    at = ax.transData.transform(points)
    unit = ax.figure.dpi / 72.0
    box = ax.get_window_extent(renderer)
    taken = [(x - 4 * unit, y - 4 * unit, x + 4 * unit, y + 4 * unit) for x, y in at]
    across = float(ax.transData.transform((points[0, 0], level))[1])
    taken.append((box.x0, across - unit, box.x1, across + unit))
    texts: list[Any] = []
    left_out = 0
    for (x, y), point, name in zip(at, points, names, strict=True):
        if not name:
            continue
        text = ax.annotate(name, point, textcoords="offset points", xytext=(0, 0), fontsize=SIZE, va="center", zorder=4)
        extent = text.get_window_extent(renderer)
        width, height = WIDER * extent.width, extent.height
        # No farther than this: a name would be read as that of another mark.
        for shift, side in product((0.0, 0.5, -0.5, 0.9, -0.9), (1, -1)):
            middle = y + shift * height
            start = x + 6 * unit if side > 0 else x - 6 * unit - width
            block = (start, middle - height / 2, start + width, middle + height / 2)
            inside = box.x0 <= block[0] and block[2] <= box.x1 and box.y0 <= block[1] and block[3] <= box.y1
            if inside and not any(_overlap(block, other) for other in taken):
                text.set_position((side * 6, (middle - y) / unit))
                text.set_horizontalalignment("left" if side > 0 else "right")
                taken.append(block)
                texts.append(text)
                break
        else:
            text.remove()
            left_out += 1
    return texts, left_out


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return bool(np.min([a[2], b[2]]) > np.max([a[0], b[0]]) and np.min([a[3], b[3]]) > np.max([a[1], b[1]]))
