/* A projected Newton step over few variables, where pair updates would crawl.
 *
 * Minimise gᵀs + ½ sᵀAs within bounds, with Σs = 0 if there is an equality: a Newton step up to the first bound on the
 * way, at which its variable is then fixed, and another step with the other variables, until many are fixed. All is in
 * float64. Rows are w wide, f rounded up to a multiple of 8. Loops take eight entries at a time, starting at the group
 * of eight that holds the first entry; entries to the left of it, and the padding, are zeros.
 */
#ifndef DUALFLOW_NEWTON_STEP_H
#define DUALFLOW_NEWTON_STEP_H

#include "clones.h"
#include <float.h>
#include <math.h>

#define BY_EIGHT(first, w) for (Index j8 = (first) & ~(Index)7; j8 < (w); j8 += 8)
#define EIGHT for (Index j = j8; j < j8 + 8; j++)
#include "cholesky.h"

/* Remove column place[r] from the factor R: rotations move the diagonal of each later row one column on. R has m rows
 * before and m − 1 after. */
CLONES static void drop_column(Index r, Index m, Index w, double *R, int *place)
{
    for (Index i = 0; i <= r; i++) R[i * w + place[r]] = 0;
    for (Index i = r; i + 1 < m; i++) {
        double *restrict row = R + i * w, *restrict next = row + w;
        int p = place[i] = place[i + 1];
        double scale = 1 / sqrt(row[p] * row[p] + next[p] * next[p]), c = row[p] * scale, s = next[p] * scale;
        BY_EIGHT(p, w) EIGHT {
            double upper = row[j], lower = next[j];
            row[j] = c * upper + s * lower;
            next[j] = c * lower - s * upper;
        }
        next[p] = 0;
    }
}

/* x and y become (RᵀR)⁻¹x and (RᵀR)⁻¹y; row k of R begins in column place[k]. */
CLONES static void solve_two(Index m, Index w, const double *R, const int *place, double *restrict x,
                             double *restrict y)
{
    for (Index k = 0; k < m; k++) {
        const double *restrict row = R + k * w;
        int p = place[k];
        double a = x[p] / row[p], b = y[p] / row[p];
        BY_EIGHT(p, w) EIGHT {
            x[j] -= a * row[j];
            y[j] -= b * row[j];
        }
        x[p] = a;
        y[p] = b;
    }
    for (Index k = m - 1; k >= 0; k--) {
        const double *restrict row = R + k * w;
        int p = place[k];
        double a[8] = {0}, b[8] = {0}, x_p = x[p], y_p = y[p];
        x[p] = y[p] = 0;
        BY_EIGHT(p, w) EIGHT {
            a[j - j8] += row[j] * x[j];
            b[j - j8] += row[j] * y[j];
        }
        x[p] = (x_p - (((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7])))) / row[p];
        y[p] = (y_p - (((b[0] + b[1]) + (b[2] + b[3])) + ((b[4] + b[5]) + (b[6] + b[7])))) / row[p];
    }
}

/* Restore the upper triangle of A: from the lower one, which the factor does not overwrite, and from the saved groups of
 * eight on its diagonal. */
static void restore(Index f, Index w, double *A, const double *eights)
{
    for (Index k = 0; k < f; k++) {
        const Index first = k & ~(Index)7;
        memcpy(A + k * w + first, eights + 8 * k, 8 * sizeof(double));
        for (Index j = first + 8; j < w; j++) A[k * w + j] = j < f ? A[j * w + k] : 0;
    }
}

/* Take the step: changes x, of length f, and overwrites g and A, whose columns beyond f are 0. `room` holds
 * (PANEL + 10) w numbers, `place` f.
 *
 * delta, a part of the largest diagonal entry, keeps the factor above the rounding errors of A. It shortens the step
 * along directions of less curvature than delta, and leaves δs of the gradient. While δs is larger than `enough` the step
 * is repeated with the same factor, which costs little. */
CLONES static void newton_step(Index f, Index w, double *A, double delta, double enough, int equality,
                        const double *low, const double *high, double *x, double *g, double *room, int *place)
{
    double *R = A, *s = room, *one = s + w, *eights = one + w, *panel = eights + 8 * w, largest = 0;
    for (Index k = 0; k < f; k++) {
        place[k] = (int)k;
        largest = A[k * w + k] > largest ? A[k * w + k] : largest;
        memcpy(eights + 8 * k, A + k * w + (k & ~(Index)7), 8 * sizeof(double));
    }
    /* κ11ᵀ moves no minimiser where Σs = 0, and keeps the two solutions that make up a step comparable. */
    double kappa = equality ? largest / f : 0;
    delta *= largest;
    for (int attempt = 0;; attempt++, delta *= 10) {
        if (attempt == 5) return;
        if (attempt) restore(f, w, A, eights);
        for (Index k = 0; k < f; k++) {
            for (Index j = k & ~(Index)7; j < f; j++) A[k * w + j] += kappa;
            A[k * w + k] += delta;
        }
        if (cholesky(f, w, A, panel)) break;
    }
    int again = 0;
    for (Index m = f; m > equality;) {
        double mean = 0, sum = 0, weight = 0, nu = 0, t = 1, longest = 0;
        Index first = -1;
        for (Index a = 0; a < m; a++) mean += g[place[a]] / m;
        if (!equality) mean = 0;
        for (Index j = 0; j < w; j++) s[j] = one[j] = 0;
        for (Index a = 0; a < m; a++) {
            s[place[a]] = mean - g[place[a]];
            one[place[a]] = 1;
        }
        solve_two(m, w, R, place, s, one);
        for (Index j = 0; j < w; j++) {
            sum += s[j];
            weight += one[j];
        }
        if (equality) nu = -sum / weight;
        for (Index a = 0; a < m; a++) {
            int k = place[a];
            s[k] += nu * one[k];
            double space = s[k] > 0 ? high[k] - x[k] : x[k] - low[k], size = fabs(s[k]);
            longest = size > longest ? size : longest;
            if (space < t * size) {
                t = space / size;
                first = a;
            }
        }
        for (Index a = 0; a < m; a++) {
            int k = place[a];
            double after = x[k] + t * s[k];
            if (a == first) after = s[k] > 0 ? high[k] : low[k];
            x[k] = after < low[k] ? low[k] : after > high[k] ? high[k] : after;
            g[k] += t * (mean + nu - g[k] - delta * s[k]); /* As, from the system that s solves */
        }
        if (first >= 0 && f - m >= MAX_NEWTON_BOUNDS + f / 3) break;
        if (first >= 0) drop_column(first, m--, w, R, place);
        else if (delta * longest <= enough || again++ == MAX_NEWTON_REPEATS) break;
    }
}

#endif
