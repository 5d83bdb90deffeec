# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The passes over the rows of an interior-point iteration, each of which reads each row once.

A pass reads rows start … stop in chunks that stay in the cache. A chunk, minus the centre, is multiplied by a vector or
weighted; the variables of its rows are updated (passes.h), and their contributions to the sums are added. The caller
adds the sums of different stretches of rows, which may be computed in different threads.
"""

import numpy as np
import scipy.linalg.cython_blas as blas
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport sqrt

cdef extern from "passes.h":
    ctypedef Py_ssize_t Index
    ctypedef struct Variables:
        const double *alpha
        const double *room
        const double *low
        const double *high
        const double *upper
        const double *ridge
        const double *p
        const double *sigma
        const double *e
    cpdef enum:
        SUM_Q
        SUM_EQR
        SUM_EA
        SUM_PRODUCTS
        SUM_PA
        SUM_RAA
        SUM_RESIDUAL
        SUM_EQ
        SUM_QR
        SUM_A
        SUM_BOUND
        SUMS
        SUM_FIXED
        SUM_FREE
        SUM_FIRST
        SUM_SECOND
        SUM_QFIXED
        SUM_QFREE
        MOST_INVERSE
        AHEAD
    void weigh(Index m, Index at, const Variables *v, const double *values, double nu, double level, double scale,
               double *q, double *rho, double *by_q, double *by_qe, double *by_qr, double *by_a, double *by_qs,
               double *sums) nogil
    void predict(Index m, Index at, const Variables *v, const double *change, double d_nu, double d_level, double scale,
                 const double *q, const double *rho, double *ahead, double *by_fixed, double *by_free, double *sums) nogil
    double correct(Index m, Index at, const Variables *v, const double *change, double d_nu, double d_level,
                   double scale, double mu, const double *q, const double *rho, double *da, double *dl, double *dh) nogil
    void advance_stretch "advance"(Index m, Index at, const Variables *v, const double *da, const double *dl,
                                   const double *dh, double length, double *alpha, double *room, double *low,
                                   double *high) nogil

ctypedef void (*Gemv)(char *, int *, int *, double *, double *, int *, double *, int *, double *, double *, int *) noexcept nogil
ctypedef void (*Syrk)(char *, char *, int *, int *, double *, double *, int *, double *, double *, int *) noexcept nogil


cdef void *routine(str name, int pointers) except NULL:
    """Return a routine of SciPy's BLAS. It is looked up at import, so that compiling needs no SciPy."""
    cdef object capsule = blas.__pyx_capi__[name]
    cdef const char *signature = PyCapsule_GetName(capsule)
    if (<bytes>signature).count(b"int *") != pointers:
        raise ImportError(f"scipy.linalg.cython_blas.{name} has another signature than 32-bit BLAS: install SciPy >= 1.13")
    return PyCapsule_GetPointer(capsule, signature)


cdef Gemv gemv = <Gemv>routine("dgemv", 5)
cdef Syrk syrk = <Syrk>routine("dsyrk", 4)

#: Numbers of a chunk, 128 kB: it stays in the second-level cache; and the part of the largest weighted square of a row
#: below which a row adds nothing that float64 could hold to a weighted Gram matrix.
cdef Index CHUNK = 1 << 14
cdef double NOTHING = 1e-18


cdef class Rows:
    """Rows of features and their variables.

    Row i has ``copies`` variables, i + c·len(F): one in classification, two in regression. A row's features are those
    of F minus ``center``, followed by ``extra`` if that is not 0.

    Parameters
    ----------
    F : array of shape (N, r)
    center : array of shape (r,) or None
    extra : float
    copies : int
    upper, ridge, p, sigma : arrays of shape (copies · N,)
    e : array of shape (copies · N,), or None
    scale : float
    """

    cdef readonly Index n, width
    cdef const double[:, ::1] F
    cdef const double[::1] center, upper, ridge, p, sigma, e
    cdef bint moves, bordered
    cdef double extra, scale
    cdef readonly Index copies

    def __init__(self, const double[:, ::1] F, center, double extra, Index copies, const double[::1] upper,
                 const double[::1] ridge, const double[::1] p, const double[::1] sigma, e, double scale):
        cdef Index size = copies * F.shape[0]
        self.F, self.n, self.extra, self.copies, self.scale = F, F.shape[0], extra, copies, scale
        self.width = F.shape[1] + (extra != 0)
        self.moves, self.bordered = center is not None, e is not None
        self.center = center if self.moves else p
        self.upper, self.ridge, self.p, self.sigma = upper, ridge, p, sigma
        self.e = e if self.bordered else p
        if not upper.shape[0] == ridge.shape[0] == p.shape[0] == sigma.shape[0] == self.e.shape[0] == size:
            raise ValueError("there must be as many bounds, ridges, slopes and signs as variables")
        if self.moves and self.center.shape[0] != F.shape[1]:
            raise ValueError("center must be as long as a row")

    @property
    def height(self):
        """Number of rows of a chunk."""
        return self._height()

    cdef Index _height(self) noexcept nogil:
        return max(<Index>16, min(<Index>1024, CHUNK // max(<Index>1, self.width)))

    cdef const double *load(self, Index start, Index m, double *buffer) noexcept nogil:
        """Return rows start … start + m minus the centre, with ``extra``; in ``buffer`` if they differ from F."""
        cdef Index i, j, r = self.F.shape[1], w = self.width
        cdef const double *row
        if not self.moves and self.extra == 0:
            return &self.F[start, 0]
        for i in range(m):
            row = &self.F[start + i, 0]
            if self.moves:
                for j in range(r):
                    buffer[i * w + j] = row[j] - self.center[j]
            else:
                for j in range(r):
                    buffer[i * w + j] = row[j]
            if self.extra != 0:
                buffer[i * w + r] = self.extra
        return buffer

    cdef Variables at(self, double[:, ::1] state) noexcept nogil:
        """Return the variables of a state whose rows are α, room, low and high."""
        cdef Variables v
        v.alpha, v.room, v.low, v.high = &state[0, 0], &state[1, 0], &state[2, 0], &state[3, 0]
        v.upper, v.ridge, v.p, v.sigma = &self.upper[0], &self.ridge[0], &self.p[0], &self.sigma[0]
        v.e = &self.e[0] if self.bordered else NULL
        return v

    def values(self, Index start, Index stop, const double[::1] w, double[::1] out):
        """out[start:stop] = products of the rows with w."""
        cdef Index h = self._height(), i, m
        cdef double[::1] buffer = np.empty(h * self.width)
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                self.dot(self.load(i, m, &buffer[0]), m, &w[0], &out[i])
                i += h

    def gather(self, Index start, Index stop, const double[::1] weights, double[::1] out):
        """out += Σ weightsᵢ rowᵢ over rows start … stop; weights of shape (N,)."""
        cdef Index h = self._height(), i, m
        cdef double[::1] buffer = np.empty(h * self.width)
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                self.collect(self.load(i, m, &buffer[0]), m, &weights[i], &out[0])
                i += h

    cdef void dot(self, const double *rows, Index m, const double *w, double *out) noexcept nogil:
        cdef int width = <int>self.width, count = <int>m, one = 1
        cdef double unit = 1.0, zero = 0.0
        gemv(b"T", &width, &count, &unit, <double *>rows, &width, <double *>w, &one, &zero, out, &one)

    cdef void collect(self, const double *rows, Index m, const double *weights, double *out) noexcept nogil:
        cdef int width = <int>self.width, count = <int>m, one = 1
        cdef double unit = 1.0
        gemv(b"N", &width, &count, &unit, <double *>rows, &width, <double *>weights, &one, &unit, out, &one)

    cdef void square(self, const double *rows, Index m, const double *weights, double least, double *scaled,
                     double *gram) noexcept nogil:
        """gram += Σ weightsᵢ rowᵢ rowᵢᵀ, its lower triangle, without rows of no weight."""
        cdef Index i, j, w = self.width, kept = 0
        cdef int width = <int>w, count
        cdef double unit = 1.0, root
        for i in range(m):
            if weights[i] <= least:
                continue
            root = sqrt(weights[i])
            for j in range(w):
                scaled[kept * w + j] = root * rows[i * w + j]
            kept += 1
        count = <int>kept
        if kept:
            syrk(b"U", b"N", &width, &count, &unit, scaled, &width, &unit, gram, &width)

    def weigh(self, Index start, Index stop, double[:, ::1] state, const double[::1] values, double nu, double level,
              double least, double[::1] q, double[::1] rho, double[:, ::1] gram, double[:, ::1] vectors, double[::1] sums):
        """The first pass: compute q and ρ of each variable, and add to the sums.

        ``gram`` receives Σ q row rowᵀ; ``vectors`` the sums of rows times qe, qρ, α and, if there is a fourth, q;
        ``sums`` the SUM_… of passes.h.
        """
        cdef Index h = self._height(), i, m, c, k, count = vectors.shape[0]
        cdef double[::1] buffer = np.empty((2 * h * self.width + 5 * h))
        cdef double *scaled = &buffer[h * self.width]
        cdef double *by = &buffer[2 * h * self.width]
        cdef const double *rows
        cdef Variables v = self.at(state)
        if sums.shape[0] != SUMS or not 3 <= count <= 4 or gram.shape[0] != self.width:
            raise ValueError(f"there are {SUMS} sums")
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                for k in range(5 * h):
                    by[k] = 0.0
                for c in range(self.copies):
                    weigh(m, i + c * self.n, &v, &values[i], nu, level, self.scale, &q[0], &rho[0], by, by + h,
                          by + 2 * h, by + 3 * h, by + 4 * h, &sums[0])
                rows = self.load(i, m, &buffer[0])
                self.square(rows, m, by, least, scaled, &gram[0, 0])
                for k in range(count):
                    self.collect(rows, m, by + (k + 1) * h, &vectors[k, 0])
                i += h

    def predict(self, Index start, Index stop, double[:, ::1] state, const double[::1] dw, double d_nu, double d_level,
                const double[::1] q, const double[::1] rho, double[::1] ahead, double[:, ::1] vectors, double[::1] sums):
        """The second pass: compute the predictor's change of each variable, and add to the corrector's right side.

        That is in ``vectors`` and ``sums``.
        """
        cdef Index h = self._height(), i, m, c, k
        cdef double[::1] buffer = np.empty(h * self.width + 3 * h)
        cdef double *by = &buffer[h * self.width]
        cdef const double *rows
        cdef Variables v = self.at(state)
        if sums.shape[0] != AHEAD:
            raise ValueError(f"there are {AHEAD} sums")
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                rows = self.load(i, m, &buffer[0])
                self.dot(rows, m, &dw[0], by)
                for k in range(h, 3 * h):
                    by[k] = 0.0
                for c in range(self.copies):
                    predict(m, i + c * self.n, &v, by, d_nu, d_level, self.scale, &q[0], &rho[0], &ahead[0], by + h, by + 2 * h,
                            &sums[0])
                for k in range(2):
                    self.collect(rows, m, by + (k + 1) * h, &vectors[k, 0])
                i += h

    def correct(self, Index start, Index stop, double[:, ::1] state, const double[::1] dw, double d_nu, double d_level,
                double mu, const double[::1] q, const double[::1] rho, double[:, ::1] changes, double[::1] change):
        """The third pass: compute the changes of variables, multipliers and values.

        The first row of ``changes`` holds the predictor's change. Returns the largest inverse of a step length that ends
        at a bound.
        """
        cdef Index h = self._height(), i, m, c
        cdef double[::1] buffer = np.empty(h * self.width)
        cdef double most = 0.0
        cdef Variables v = self.at(state)
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                self.dot(self.load(i, m, &buffer[0]), m, &dw[0], &change[i])
                for c in range(self.copies):
                    most = max(most, correct(m, i + c * self.n, &v, &change[i], d_nu, d_level, self.scale, mu, &q[0],
                                             &rho[0], &changes[0, 0], &changes[1, 0], &changes[2, 0]))
                i += h
        return most

    def advance(self, Index start, Index stop, double[:, ::1] state, const double[:, ::1] changes, double length,
                double[:, ::1] after):
        """Compute the state after a step of the given length."""
        cdef Index c
        cdef Variables v = self.at(state)
        with nogil:
            for c in range(self.copies):
                advance_stretch(stop - start, start + c * self.n, &v, &changes[0, 0], &changes[1, 0], &changes[2, 0],
                                length, &after[0, 0], &after[1, 0], &after[2, 0], &after[3, 0])
