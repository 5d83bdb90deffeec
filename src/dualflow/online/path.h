/* Dense kernels of the margin path: strict arithmetic, whatever the widest vectors are. */
#ifndef DUALFLOW_PATH_H
#define DUALFLOW_PATH_H

#include "clones.h"

/* out[k] = sum over r of weights[r] row_r[k]; rows are given by their slots in a pool. A stretch of columns at a time
 * stays in cache, and four rows share one pass over it. */
CLONES static void combine(Index n, Index stride, Index count, const double *rows, const long long *slots,
                           const double *weights, double *restrict out)
{
    for (Index start = 0; start < n; start += 1024) {
        Index width = n - start < 1024 ? n - start : 1024;
        double *restrict to = out + start;
        for (Index k = 0; k < width; k++) to[k] = 0.0;
        Index r = 0;
        for (; r + 4 <= count; r += 4) {
            const double *a = rows + slots[r] * stride + start, *b = rows + slots[r + 1] * stride + start;
            const double *c = rows + slots[r + 2] * stride + start, *d = rows + slots[r + 3] * stride + start;
            const double wa = weights[r], wb = weights[r + 1], wc = weights[r + 2], wd = weights[r + 3];
            for (Index k = 0; k < width; k++) to[k] += (wa * a[k] + wb * b[k]) + (wc * c[k] + wd * d[k]);
        }
        for (; r < count; r++) {
            const double *a = rows + slots[r] * stride + start;
            const double w = weights[r];
            for (Index k = 0; k < width; k++) to[k] += w * a[k];
        }
    }
}

/* y = A x for symmetric A of order m, of which only the lower triangle (row-major, leading dimension ld) is read: once. */
CLONES static void symmetric_product(Index m, Index ld, const double *A, const double *restrict x, double *restrict y)
{
    for (Index i = 0; i < m; i++) {
        const double *row = A + i * ld;
        const double xi = x[i];
        double part[8] = {0, 0, 0, 0, 0, 0, 0, 0}, sum = 0.0;
        Index k = 0;
        for (; k + 8 <= i; k += 8)
            for (Index l = 0; l < 8; l++) {
                part[l] += row[k + l] * x[k + l];
                y[k + l] += xi * row[k + l];
            }
        for (; k < i; k++) {
            sum += row[k] * x[k];
            y[k] += xi * row[k];
        }
        y[i] = sum + row[i] * xi + (((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7])));
    }
}

/* A += weight v v^T, lower triangle. */
CLONES static void rank_one(Index m, Index ld, double *A, double weight, const double *restrict v)
{
    for (Index i = 0; i < m; i++) {
        double *restrict row = A + i * ld;
        const double w = weight * v[i];
        for (Index k = 0; k <= i; k++) row[k] += w * v[k];
    }
}

/* g += t gamma. */
CLONES static void advance(Index n, double t, const double *restrict gamma, double *restrict g)
{
    for (Index k = 0; k < n; k++) g[k] += t * gamma[k];
}

#endif
