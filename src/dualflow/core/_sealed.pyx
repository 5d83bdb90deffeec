# cython: language_level=3, boundscheck=False, wraparound=False
"""Memory that nobody can write to once its bytes are there."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy

from .runtime.memory import LINE, give_back, take

cdef Py_ssize_t line = LINE
cdef object lend = take, have_back = give_back


# Without traversal by the garbage collector, which `gc.get_referents` would show the memory from; there are no cycles.
@cython.no_gc
@cython.final
cdef class Sealed:
    """The bytes of some contiguous arrays, one after another, as a buffer to be read.

    The memory is the arena's, which has it back when nothing refers to this object any more: no array over it, and no
    other view. Until then nobody else holds it, and nobody can have it from here. So there is no ``__releasebuffer__``:
    with one, NumPy's arrays would hold on to a memoryview, whom anybody may release.

    Parameters
    ----------
    parts : iterable of contiguous arrays
    size : int
        Bytes of them all.

    Attributes
    ----------
    size : int
    """

    cdef object memory
    cdef char *start
    cdef readonly Py_ssize_t size

    def __cinit__(self, parts, Py_ssize_t size):
        cdef Py_buffer part
        cdef Py_ssize_t filled = 0
        if size < 1:
            raise ValueError("size must be > 0")
        self.size = size
        self.memory = lend(size)
        PyObject_GetBuffer(self.memory, &part, PyBUF_SIMPLE)
        self.start = <char *>part.buf + (-<Py_ssize_t>part.buf & (line - 1))
        PyBuffer_Release(&part)
        for array in parts:
            PyObject_GetBuffer(array, &part, PyBUF_SIMPLE)
            try:
                if part.len > size - filled:
                    raise ValueError("the parts are larger than was said")
                memcpy(self.start + filled, part.buf, part.len)
                filled += part.len
            finally:
                PyBuffer_Release(&part)
        if filled != size:
            raise ValueError("the parts are smaller than was said")

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.start, self.size, True, flags)

    def __dealloc__(self):
        if self.memory is not None:
            have_back(self.memory)
