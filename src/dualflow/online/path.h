/* Dense kernels for following the path of the optimum. Arithmetic is strict: the width of the vectors does not change a bit. */
#ifndef DUALFLOW_PATH_H
#define DUALFLOW_PATH_H

#include <string.h>

#include "clones.h"

/* out[k] = sum over r of weights[r] row_r[k], where slots[r] is the place of row r in a pool. Columns are taken 1024 at a
 * time, which stay in the processor cache, and four rows share one pass over them. */
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

/* y = A x for symmetric A of order m. Only the lower triangle (row-major, leading dimension ld) is read, once. */
CLONES static void symmetric_product(Index m, Index ld, const double *A, const double *restrict x, double *restrict y)
{
    Index i = 0;
    for (; i + 4 <= m; i += 4) { /* four rows share a pass over x and y */
        const double *a = A + i * ld, *b = a + ld, *c = b + ld, *d = c + ld;
        const double xa = x[i], xb = x[i + 1], xc = x[i + 2], xd = x[i + 3];
        double part[4][8] = {{0}};
        Index k = 0;
        for (; k + 8 <= i; k += 8)
            for (Index l = 0; l < 8; l++) {
                const double xl = x[k + l];
                part[0][l] += a[k + l] * xl;
                part[1][l] += b[k + l] * xl;
                part[2][l] += c[k + l] * xl;
                part[3][l] += d[k + l] * xl;
                y[k + l] += (xa * a[k + l] + xb * b[k + l]) + (xc * c[k + l] + xd * d[k + l]);
            }
        for (Index q = 0; q < 4; q++) {
            const double *row = a + q * ld, *of = part[q];
            const double xq = x[i + q];
            double sum = 0.0;
            for (Index l = k; l < i + q; l++) {
                sum += row[l] * x[l];
                y[l] += xq * row[l];
            }
            y[i + q] = sum + row[i + q] * xq + (((of[0] + of[1]) + (of[2] + of[3])) + ((of[4] + of[5]) + (of[6] + of[7])));
        }
    }
    for (; i < m; i++) {
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

/* y += V^T diag(W) V x: the contribution of `count` delayed updates to a product. V is row-major with row length `stride`. */
CLONES static void delayed_product(Index m, Index stride, Index count, const double *V, const double *W, const double *x,
                                   double *restrict y)
{
    Index r = 0;
    for (; r + 4 <= count; r += 4) {
        const double *a = V + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        double part[4][8] = {{0}}, sum[4] = {0, 0, 0, 0};
        Index k = 0;
        for (; k + 8 <= m; k += 8)
            for (Index l = 0; l < 8; l++) {
                part[0][l] += a[k + l] * x[k + l];
                part[1][l] += b[k + l] * x[k + l];
                part[2][l] += c[k + l] * x[k + l];
                part[3][l] += d[k + l] * x[k + l];
            }
        for (Index q = 0; q < 4; q++) {
            const double *row = a + q * stride, *of = part[q];
            for (Index l = k; l < m; l++) sum[q] += row[l] * x[l];
            sum[q] += ((of[0] + of[1]) + (of[2] + of[3])) + ((of[4] + of[5]) + (of[6] + of[7]));
            sum[q] *= W[r + q];
        }
        for (k = 0; k < m; k++) y[k] += (sum[0] * a[k] + sum[1] * b[k]) + (sum[2] * c[k] + sum[3] * d[k]);
    }
    for (; r < count; r++) {
        const double *row = V + r * stride;
        double sum = 0.0;
        for (Index k = 0; k < m; k++) sum += row[k] * x[k];
        sum *= W[r];
        for (Index k = 0; k < m; k++) y[k] += sum * row[k];
    }
}

/* A += V^T diag(W) V, lower triangle. Blocks of 4 rows by 16 columns are summed over all updates before they are written,
 * so that A is read and written once. Entries of a block above the diagonal are not written. */
CLONES static void delayed_updates(Index m, Index ld, double *A, Index stride, Index count, const double *V, const double *W)
{
    for (Index i = 0; i < m; i += 4) {
        const Index high = m - i < 4 ? m - i : 4;
        for (Index k = 0; k < i + high; k += 16) {
            double sum[4][16] = {{0}};
            if (high == 4) /* V is read beyond column m, into its padding; these sums are not written */
                for (Index r = 0; r < count; r++) {
                    const double *v = V + r * stride, *row = v + k;
                    const double w0 = W[r] * v[i], w1 = W[r] * v[i + 1], w2 = W[r] * v[i + 2], w3 = W[r] * v[i + 3];
                    for (Index l = 0; l < 16; l++) {
                        sum[0][l] += w0 * row[l];
                        sum[1][l] += w1 * row[l];
                        sum[2][l] += w2 * row[l];
                        sum[3][l] += w3 * row[l];
                    }
                }
            else
                for (Index r = 0; r < count; r++) {
                    const double *v = V + r * stride, *row = v + k;
                    for (Index q = 0; q < high; q++)
                        for (Index l = 0; l < 16; l++) sum[q][l] += W[r] * v[i + q] * row[l];
                }
            for (Index q = 0; q < high; q++) {
                double *restrict to = A + (i + q) * ld + k;
                const Index width = i + q - k + 1 < 16 ? i + q - k + 1 : 16;
                for (Index l = 0; l < width; l++) to[l] += sum[q][l];
            }
        }
    }
}

/* g += t gamma. */
CLONES static void advance(Index n, double t, const double *restrict gamma, double *restrict g)
{
    for (Index k = 0; k < n; k++) g[k] += t * gamma[k];
}

/* gamma += beta0 e + v column - p: the parts of the rates of g that are not from the margin points. column and p may be NULL. */
CLONES static void add_other_rates(Index n, double beta0, const double *e, double v, const double *column, const double *p,
                                   double *restrict gamma)
{
    for (Index k = 0; k < n; k++) gamma[k] += beta0 * e[k];
    if (column)
        for (Index k = 0; k < n; k++) gamma[k] += v * column[k];
    if (p)
        for (Index k = 0; k < n; k++) gamma[k] -= p[k];
}

/* Variables whose steps are computed together before the least or largest is taken, and numbers compared side by side. */
enum { CHUNK = 256, LANES = 8 };

/* 1 for a variable at 0, -1 at its bound, else 0. */
static ALWAYS_INLINE double side_of(signed char where) { return (double)((where == 0) - (where == 1)); }

/* A variable at 0 reaches g = 0 if its g falls at a rate above `noise`, and one at its bound if it rises; not if its g has the
 * wrong sign by more than `violation`. The least (|g| + slack) / |gamma| of these variables, or `most`. */
CLONES static double first_zero(Index n, const signed char *restrict where, const double *restrict g,
                                const double *restrict gamma, double noise, double violation, double slack, double most)
{
    double t[CHUNK + LANES], least[LANES];
    for (Index l = 0; l < LANES; l++) least[l] = most;
    for (Index start = 0; start < n; start += CHUNK) {
        const Index width = n - start < CHUNK ? n - start : CHUNK;
        for (Index k = 0; k < width; k++) {
            const double side = side_of(where[start + k]), space = side * g[start + k], rate = side * gamma[start + k];
            const double step = ((space > 0.0 ? space : 0.0) + slack) / -rate;
            t[k] = ((rate < -noise) & (space >= -violation)) ? step : most;
        }
        for (Index k = width; k < width + LANES; k++) t[k] = most;
        for (Index k = 0; k < width; k += LANES)
            for (Index l = 0; l < LANES; l++) least[l] = t[k + l] < least[l] ? t[k + l] : least[l];
    }
    for (Index l = 1; l < LANES; l++) least[0] = least[l] < least[0] ? least[l] : least[0];
    return least[0];
}

/* Of the variables that reach g = 0 (as in `first_zero`) by a step of at most `most`, the first with the largest |gamma|, or -1. */
CLONES static Index steepest_zero(Index n, const signed char *restrict where, const double *restrict g,
                                  const double *restrict gamma, double noise, double violation, double most)
{
    double size[CHUNK + LANES], largest[LANES], best = 0.0;
    Index chosen = -1;
    for (Index start = 0; start < n; start += CHUNK) {
        const Index width = n - start < CHUNK ? n - start : CHUNK;
        for (Index k = 0; k < width; k++) {
            const double side = side_of(where[start + k]), space = side * g[start + k], rate = side * gamma[start + k];
            const int is_near = (space > 0.0 ? space : 0.0) <= most * -rate;
            size[k] = (rate < -noise) & (space >= -violation) & is_near ? -rate : 0.0;
        }
        for (Index k = width; k < width + LANES; k++) size[k] = 0.0;
        for (Index l = 0; l < LANES; l++) largest[l] = 0.0;
        for (Index k = 0; k < width; k += LANES)
            for (Index l = 0; l < LANES; l++) largest[l] = size[k + l] > largest[l] ? size[k + l] : largest[l];
        for (Index l = 1; l < LANES; l++) largest[0] = largest[l] > largest[0] ? largest[l] : largest[0];
        if (largest[0] > best)
            for (Index k = width - 1; k >= 0; k--)
                if (size[k] == largest[0]) best = largest[0], chosen = start + k;
    }
    return chosen;
}

/* The variables of one set, ascending, and their alpha; returns their number. */
static Index copy_set(Index n, const signed char *where, signed char set, const double *alpha, long long *index, double *to)
{
    Index count = 0;
    const signed char *found = where, *end = where + n;
    while ((found = memchr(found, set, (size_t)(end - found)))) {
        index[count] = found - where;
        to[count++] = alpha[found - where];
        found++;
    }
    return count;
}

#endif
