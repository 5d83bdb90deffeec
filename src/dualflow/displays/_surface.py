"""Values on a grid as colours and lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._axes import COLOURS, DARK, GREY, SIGNS, matplotlib_part
from ._scene import Scene

__all__ = ["paint"]


def paint(ax: Any, scene: Scene, u: NDArray, v: NDArray, f: NDArray) -> tuple[Any, Any]:
    """Contour sets of the regions and of the lines between them, of values f of shape (len(v), len(u))."""
    low, high = float(f.min()), float(f.max())
    tint = matplotlib_part("colors").to_rgba
    if scene.kind == "classes":
        regions = []
        for k in np.unique(f).astype(int):
            tone = [tint(COLOURS[k % len(COLOURS)], 0.25)]
            if low == high:
                ax.axhspan(v[0], v[-1], color=tone[0], linewidth=0, zorder=0)
            else:
                regions.append(ax.contourf(u, v, (f == k).astype(float), levels=[0.5, 1.5], colors=tone, zorder=0))
        ax.set(xlim=(u[0], u[-1]), ylim=(v[0], v[-1]))
        return regions, None
    if scene.kind == "value":
        levels = 12 if high > low else np.array([low - 1.0, low + 1.0])
        surface = ax.contourf(u, v, f, levels=levels, cmap="cividis", zorder=0)
        ax.figure.colorbar(surface, ax=ax, label="prediction")
        return surface, None
    if scene.kind == "margin":
        bounds = [min(low, -1.0) - 1, -1.0, 0.0, 1.0, max(high, 1.0) + 1]
        tones = [tint(SIGNS[sign], depth) for sign, depth in ((-1, 0.32), (-1, 0.13), (1, 0.13), (1, 0.32))]
        lines = [(-1.0, "--"), (0.0, "-"), (1.0, "--")]
    else:
        bounds, tones = [min(low, 0.0) - 1, 0.0, max(high, 0.0) + 1], [tint("white", 0.0), tint(GREY, 0.25)]
        lines = [(0.0, "-")]
    surface = ax.contourf(u, v, f, levels=bounds, colors=tones, zorder=0)
    met = [line for line in lines if low < line[0] < high]
    if not met:
        return surface, None
    style: dict[str, Any] = {"colors": DARK, "linewidths": 1.0, "zorder": 1}
    return surface, ax.contour(
        u, v, f, levels=[level for level, _ in met], linestyles=[dash for _, dash in met], **style
    )
