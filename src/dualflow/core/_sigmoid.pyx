# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compiled Newton steps of the sigmoid that calibrates decision values."""

from libc.math cimport exp, fabs, log1p


cdef double loss_at(
    const double[::1] values, const double[::1] targets, const double[::1] weight, double slope, double offset
) noexcept nogil:
    """Return the log loss Σ w (log(1 + eᶻ) − tz) at z = slope · f + offset."""
    cdef Py_ssize_t i
    cdef double z, total = 0.0
    for i in range(values.shape[0]):
        z = slope * values[i] + offset
        total += weight[i] * ((z if z > 0 else 0.0) + log1p(exp(-fabs(z))) - targets[i] * z)
    return total


def newton_sigmoid(
    const double[::1] values,
    const double[::1] targets,
    const double[::1] weight,
    double constant,
    Py_ssize_t max_steps,
    double tol,
    double min_step,
):
    """Return slope and offset of the sigmoid with the least log loss, from slope 0 and the offset ``constant``.

    Steps are halved until the loss falls by 1e-4 of what the gradient says. It ends where no component of the gradient
    exceeds ``tol`` times the number of values, or where no step of length ``min_step`` is left.

    Parameters
    ----------
    values, targets, weight : arrays of shape (n,)
    constant : float
    max_steps : int
    tol, min_step : float
    """
    cdef Py_ssize_t i, n = values.shape[0], step
    cdef double slope = 0.0, offset = constant, z, e, p, w, first, second, ss, so, oo, ridge, determinant
    cdef double by_slope, by_offset, at, decrease, length, found
    with nogil:
        at = loss_at(values, targets, weight, slope, offset)
        for step in range(max_steps):
            first = second = ss = so = oo = 0.0
            for i in range(n):
                z = slope * values[i] + offset
                e = exp(-fabs(z))
                p = (1.0 if z > 0 else e) / (1.0 + e)
                w = weight[i] * e / ((1.0 + e) * (1.0 + e))
                second += weight[i] * (p - targets[i])
                first += weight[i] * (p - targets[i]) * values[i]
                oo += w
                so += w * values[i]
                ss += w * values[i] * values[i]
            if fabs(first) <= tol * n and fabs(second) <= tol * n:
                break
            ridge = 1e-12 * (ss + oo)  # all values may be equal
            ss += ridge
            oo += ridge
            determinant = ss * oo - so * so
            by_slope, by_offset = (oo * first - so * second) / determinant, (ss * second - so * first) / determinant
            decrease = 1e-4 * (first * by_slope + second * by_offset)
            length = 1.0
            while length >= min_step:
                found = loss_at(values, targets, weight, slope - length * by_slope, offset - length * by_offset)
                if found <= at - length * decrease:
                    break
                length *= 0.5
            if length < min_step:
                break
            slope, offset, at = slope - length * by_slope, offset - length * by_offset, found
    return slope, offset
