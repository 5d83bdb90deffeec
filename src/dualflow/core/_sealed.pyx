# cython: language_level=3, boundscheck=False, wraparound=False
"""Read-only memory: bytes that cannot be changed once they are copied in."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy

from .runtime.memory import LINE_BYTES, give_back, take

cdef Py_ssize_t line = LINE_BYTES
cdef object lend = take, have_back = give_back


# Not tracked by the garbage collector: `gc.get_referents` would give access to the memory. There are no cycles.
@cython.no_gc
@cython.final
cdef class Sealed:
    """A read-only buffer with the bytes of some contiguous arrays, one after another, or with those that ``write`` makes.

    The memory belongs to the arena, and returns to it when nothing refers to this object any more: no array over it,
    and no other view. Until then no other object refers to the memory, and this one does not give it out. There is no
    ``__releasebuffer__``: with one, NumPy's arrays would hold a memoryview, which any code could release.

    Parameters
    ----------
    parts : iterable of contiguous arrays
    size : int
        Bytes of all parts together.
    write : callable, optional
        It is given the memory, as a writeable array of ``size`` bytes, and fills it; there are no parts then. It must
        not keep the array.

    Attributes
    ----------
    size : int
    """

    cdef object memory
    cdef char *start
    cdef readonly Py_ssize_t size

    def __cinit__(self, parts, Py_ssize_t size, write=None):
        cdef Py_buffer part
        cdef Py_ssize_t filled = 0, first
        if size < 1:
            raise ValueError("size must be > 0")
        self.size = size
        self.memory = lend(size)
        PyObject_GetBuffer(self.memory, &part, PyBUF_SIMPLE)
        first = -<Py_ssize_t>part.buf & (line - 1)
        self.start = <char *>part.buf + first
        PyBuffer_Release(&part)
        if write is not None:
            write(self.memory[first : first + size])
            return
        for array in parts:
            PyObject_GetBuffer(array, &part, PyBUF_SIMPLE)
            try:
                if part.len > size - filled:
                    raise ValueError(f"the parts are larger than size={size} bytes")
                memcpy(self.start + filled, part.buf, part.len)
                filled += part.len
            finally:
                PyBuffer_Release(&part)
        if filled != size:
            raise ValueError(f"the parts are smaller than size={size} bytes: they have {filled}")

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.start, self.size, True, flags)

    def __dealloc__(self):
        if self.memory is not None:
            have_back(self.memory)
