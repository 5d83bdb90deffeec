"""Read arrays from untrusted ``.npy`` data; their size is checked before memory is allocated."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray

#: Largest item size in bytes of an array without entries: NumPy allocates one item even for an empty array, and the
#: file's length does not bound its size.
MAX_EMPTY_ITEM_BYTES = 1024
#: Longest dimension of an array without entries: readers may allocate by it, and the file's length does not bound it.
MAX_EMPTY_DIMENSION = 1 << 24


def array_of(name: str, data: bytes, kinds: str, column_major: bool = False) -> NDArray:
    """Return the array in the bytes of a ``.npy`` file of version 1.0, as a writeable copy in the native byte order.

    Parameters
    ----------
    name : str
        Name of the file, for errors.
    data : bytes
        The whole file; its length must be what its header implies.
    kinds : str
        Kinds of dtype that are allowed; numbers have at most 8 bytes.
    column_major : bool
        Whether the array may be stored by columns.

    Raises
    ------
    ValueError
        The bytes are not such an array.
    """
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} is not of .npy version 1.0")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)  # at most 10 000 bytes of a literal
    if dtype.kind not in kinds or not dtype.itemsize or (dtype.kind in "iuf" and dtype.itemsize > 8):
        raise ValueError(f"{name} has dtype {dtype}, which does not belong in such a file")
    size, available = math.prod(shape), len(data) - stream.tell()
    is_invalid = min(shape, default=0) < 0 or (by_columns and not column_major)
    if size == 0:
        is_invalid |= dtype.itemsize > MAX_EMPTY_ITEM_BYTES or max(shape) > MAX_EMPTY_DIMENSION
    if is_invalid or size * dtype.itemsize != available:
        raise ValueError(f"{name} is not the array of shape {shape} and dtype {dtype} it says it is")
    flat = np.frombuffer(data, dtype, offset=stream.tell()) if size else np.empty(0, dtype)
    array = flat.reshape(shape, order="F" if by_columns else "C").astype(dtype.newbyteorder("="), order="K")
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError(f"{name} holds truth values other than 0 and 1")
    if dtype.kind == "U":
        array.tolist()  # raises for code points that are no characters, which a prediction would otherwise meet later
    return array
