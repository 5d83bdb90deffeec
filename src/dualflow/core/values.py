"""Arrays that nobody can write to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Value", "immutable"]


def immutable(array: ArrayLike, dtype: Any = float) -> NDArray:
    """A copy over memory that stays read-only: its owner is a `bytes`, so that ``flags.writeable`` can't be set."""
    source = np.ascontiguousarray(array, dtype=dtype)
    return np.frombuffer(source.tobytes() or bytes(source.itemsize), dtype, source.size).reshape(source.shape)


class Value:
    """Base of classes whose attributes are set once, by `_set`."""

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} is a value: {name} cannot be set; make another")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # NumPy's arrays come back from pickles and copies as writeable ones.
        self._set(**{name: immutable(v, v.dtype) if isinstance(v, np.ndarray) else v for name, v in state.items()})
