"""Old names of methods, which warn and call the new ones."""

from __future__ import annotations

import warnings
from typing import Any


def old_method(old: str, new: str) -> Any:
    """Return a method under its old name: it warns with a FutureWarning and calls the method ``new``."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        warnings.warn(f"{type(self).__name__}.{old} is now {new}; write {new}", FutureWarning, stacklevel=2)
        return getattr(self, new)(*args, **options)

    method.__name__, method.__doc__ = old, f"Old name of `{new}`."
    return method


def adopt_old_methods(subclass: type, **renames: str) -> None:
    """Let a subclass that overrides a method by its old name override the new one, with a FutureWarning."""
    for old, new in renames.items():
        if old in vars(subclass):
            warnings.warn(f"{subclass.__name__}.{old} is now {new}; rename the method", FutureWarning, stacklevel=3)
            setattr(subclass, new, vars(subclass)[old])
