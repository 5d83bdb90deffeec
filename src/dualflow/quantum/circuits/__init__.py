"""Circuit families, one in each file: a builder, and the ideal distribution in plain numpy.

A new family needs only a new file in this folder: classes with a `family` in the file's ``__all__`` become public here.
"""

import importlib
import pkgutil
from typing import Any

from .base import ParametricCircuit


def _families() -> dict[str, type[ParametricCircuit]]:
    """Return the families of this folder by the names of their classes."""
    files = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
    public = [getattr(file, name) for file in files for name in file.__all__]
    classes = [item for item in public if isinstance(item, type) and issubclass(item, ParametricCircuit)]
    return {family.__name__: family for family in classes if family.family}


def __getattr__(name: str) -> Any:
    """Import all families when the first of them, or ``__all__``, is read: a run needs one or two of their files."""
    if name == "__all__" or name[:1].isupper():  # not for files of this folder, which are imported by this call too
        families = _families()
        globals().update(families, __all__=sorted([ParametricCircuit.__name__, *families]))
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]
