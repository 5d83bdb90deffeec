"""Arrays of ``.npy`` files of unknown origin: what they would take is known, and allowed, before anything is taken."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_EMPTY", "array_of"]

#: Most bytes of an entry, where there is none to show that it needs them: numpy allocates one even for an empty array.
_MOST_WIDE = 1024
#: Longest dimension of an array without entries, whose file says nothing of what its readers would make of it.
MOST_EMPTY = 1 << 24


def array_of(name: str, data: bytes, kinds: str, column_major: bool = False) -> NDArray:
    """The array of a ``.npy`` of version 1.0, a copy of its own, in the machine's byte order.

    Parameters
    ----------
    name : str
        For errors.
    data : bytes
        The whole file, which is as long as its header says, or refused.
    kinds : str
        Kinds of dtype it may have; numbers have at most 8 bytes.
    column_major : bool
        Whether it may be stored by columns.

    Raises
    ------
    ValueError
        It is no such array.
    """
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} is not of .npy version 1.0")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)  # at most 10 000 bytes of a literal
    if dtype.kind not in kinds or not dtype.itemsize or (dtype.kind in "iuf" and dtype.itemsize > 8):
        raise ValueError(f"{name} has dtype {dtype}, which does not belong in such a file")
    size, there = math.prod(shape), len(data) - stream.tell()
    strange = min(shape, default=0) < 0 or (by_columns and not column_major)
    if size == 0:
        strange |= dtype.itemsize > _MOST_WIDE or max(shape) > MOST_EMPTY
    if strange or size * dtype.itemsize != there:
        raise ValueError(f"{name} is not the array of shape {shape} and dtype {dtype} it says it is")
    flat = np.frombuffer(data, dtype, offset=stream.tell()) if size else np.empty(0, dtype)
    array = flat.reshape(shape, order="F" if by_columns else "C").astype(dtype.newbyteorder("="), order="K")
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError(f"{name} holds truth values other than 0 and 1")
    if dtype.kind == "U":
        array.tolist()  # numbers that are no characters are found here, not in a prediction
    return array
