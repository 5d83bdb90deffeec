"""Arrays that nobody can write to."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Value", "immutable"]

#: What stands behind the numbers in memory that `immutable` took, and in no other.
_OURS = os.urandom(16)


def immutable(array: ArrayLike, dtype: Any = float) -> NDArray:
    """A copy over memory that stays read-only: its owner is a `bytes`, so that ``flags.writeable`` can't be set."""
    if type(array) is np.ndarray and array.dtype == dtype and _is_ours(array):
        return array.view()  # nobody can write to it; its shape, which can be set, is the view's own
    source = np.ascontiguousarray(array, dtype=dtype)
    # A view of it, whose base, which others can reach, is nobody's.
    return np.frombuffer(b"".join((source.data, _OURS)), dtype, source.size).reshape(source.shape)


def _is_ours(array: NDArray) -> bool:
    """Whether an array is a whole one that `immutable` made: its memory ends in the mark. That of an array out of a
    pickle is a `bytes` too, and can be written to."""
    base: Any = array.base
    owner: Any = base.base if type(base) is np.ndarray else None
    ours = type(owner) is bytes and len(owner) == array.nbytes + len(_OURS) and owner.endswith(_OURS)
    return ours and array.flags.c_contiguous


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
