"""What the papers' plots share: a canvas that needs no screen, and a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def subplots(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure and its axes, in one row a flat array."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
    return figure, axes.ravel()


def saved(figure: Any, path: Path) -> None:
    """The figure as PNG."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
