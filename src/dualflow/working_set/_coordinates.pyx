# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Coordinate descent over sparse points, with the weights w = Σσαx kept up to date (Hsieh et al. 2008).

Each variable in turn moves to its optimum with the others fixed: the product of its row with w gives its gradient, and
w is updated by its row. Variables at a bound whose gradient points farther outward than all of the round before are
shrunk.
"""

import numpy as np
from libc.math cimport fabs, INFINITY

ctypedef Py_ssize_t Index
ctypedef fused Place:
    int
    long long


cdef class Round:
    """Rounds over the active variables; a round can be interrupted and continued.

    Attributes
    ----------
    order : int array of shape (n,)
        The variables, active ones first.
    at : int
        Place in ``order`` of the next variable.
    active : int
        Number of active variables.
    w : array of shape (m,)
    total : float
        Σσα.
    nu : float
        The multiplier of eᵀα = d less ρ(eᵀα − d).
    low, high : float
        The least and the largest projected gradient of the round before.
    least, most : float
        The same of this round.
    """

    cdef public Index at, active, updates
    cdef public double total, nu, low, high, least, most
    cdef double[::1] alpha, w
    cdef Index[::1] order
    cdef unsigned long long seed

    def __init__(self, double[::1] alpha, double[::1] w, double total, double nu, unsigned long long seed):
        self.alpha, self.w, self.total, self.nu = alpha, w, total, nu
        self.order = np.arange(alpha.shape[0], dtype=np.intp)
        self.active, self.at, self.updates = alpha.shape[0], alpha.shape[0], 0
        self.least, self.most = -INFINITY, INFINITY
        self.seed = 2 * seed + 88172645463325252

    def begin(self):
        """Start a round over the active variables, in a new random order."""
        cdef Index k, other, i
        cdef unsigned long long s = self.seed
        self.low = self.least if self.least < 0 else -INFINITY
        self.high = self.most if self.most > 0 else INFINITY
        self.least, self.most, self.at = INFINITY, -INFINITY, 0
        for k in range(self.active - 1):
            s ^= s << 13
            s ^= s >> 7
            s ^= s << 17
            other = k + <Index>((s >> 11) % <unsigned long long>(self.active - k))
            i = self.order[k]
            self.order[k] = self.order[other]
            self.order[other] = i
        self.seed = s

    @property
    def violation(self):
        """Difference of the largest and the least projected gradient of a completed round."""
        return max(self.most, 0.0) - min(self.least, 0.0) if self.most >= self.least else 0.0

    def go_on(self, const double[::1] data, const Place[::1] indices, const Place[::1] indptr, const Index[::1] points,
              const double[::1] p, const double[::1] upper, const double[::1] ridge, const double[::1] sigma,
              const double[::1] e, const double[::1] curvature, double scale, double offset, double rho,
              Index max_products):
        """Continue the round for about ``max_products`` multiplications; return whether it is complete."""
        cdef Index k = self.at, active = self.active, i, done = 0, moves = 0
        cdef Place j, start, stop
        cdef double f, slope, projected, before, after, change, total = self.total, nu = self.nu
        cdef double least = self.least, largest = self.most, low = self.low, high = self.high
        cdef double *w = &self.w[0]
        cdef double *alpha = &self.alpha[0]
        cdef Index *order = &self.order[0]
        with nogil:
            while k < active and done < max_products:
                i = order[k]
                start, stop = indptr[points[i]], indptr[points[i] + 1]
                done += stop - start + 4
                f = offset * total
                for j in range(start, stop):
                    f += data[j] * w[indices[j]]
                before = alpha[i]
                slope = scale * sigma[i] * f + ridge[i] * before - p[i] - nu * e[i]
                projected = slope
                if before <= 0 and slope >= 0:
                    projected = 0
                    if slope > high:
                        active -= 1
                        order[k], order[active] = order[active], i
                        continue
                elif before >= upper[i] and slope <= 0:
                    projected = 0
                    if slope < low:
                        active -= 1
                        order[k], order[active] = order[active], i
                        continue
                least, largest = min(least, projected), max(largest, projected)
                k += 1
                if projected == 0:
                    continue
                after = min(max(before - slope / curvature[i], 0.0), upper[i])
                change = after - before
                if change == 0:
                    continue
                alpha[i] = after
                nu -= rho * e[i] * change
                change *= sigma[i]
                total += change
                for j in range(start, stop):
                    w[indices[j]] += change * data[j]
                moves += 1
        self.at, self.active, self.total, self.nu = k, active, total, nu
        self.least, self.most = least, largest
        self.updates += moves
        return k >= active
