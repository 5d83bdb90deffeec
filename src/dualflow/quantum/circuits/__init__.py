"""Circuit builders, one family a file; each stands beside its own ideal distribution in plain numpy.

A file is all that a family needs: the classes with a `family` that a file of this folder names in its ``__all__`` are
public here.
"""

import importlib
import pkgutil
from typing import Any

from .base import ParametricCircuit


def _families() -> dict[str, type[ParametricCircuit]]:
    """The families of this folder, by the names of their classes."""
    files = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
    public = [getattr(file, name) for file in files for name in file.__all__]
    classes = [item for item in public if isinstance(item, type) and issubclass(item, ParametricCircuit)]
    return {family.__name__: family for family in classes if family.family}


_FAMILIES = _families()
globals().update(_FAMILIES)
__all__ = sorted([ParametricCircuit.__name__, *_FAMILIES])


def __getattr__(name: str) -> Any:
    """Nothing that is not there already; type checkers read it as that there are more names."""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
