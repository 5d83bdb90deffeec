/* The radial kernel exp(aᵀb − ‖a‖²/2 − ‖b‖²/2) for points scaled by √(2γ), a tile of points b at a time.
 *
 * A tile is packed feature by feature, so that the loop over its points vectorises, and stays in the first-level cache
 * while all points a are combined with it; only results are written. This file is included twice, for REAL = float and
 * double. The number m of features is a multiple of 4 (zeros are appended).
 */
#include "pack.h"

#define NAME2(base, type) base##_##type
#define NAME1(base, type) NAME2(base, type)
#define NAME(base) NAME1(base, REAL)
#define TILE (512 / (int)sizeof(REAL))

/* Pack the points from `first` on of `points` (n, m) into `tile` (m, TILE) and `halves` (TILE,); pad with zeros. */
static inline void NAME(pack)(Index n, Index m, const REAL *points, const REAL *half, Index first, REAL *restrict tile,
                       REAL *restrict halves)
{
    Index count = n - first < 0 ? 0 : n - first < TILE ? n - first : TILE;
    for (Index k = 0; k < m; k++)
        for (Index c = count; c < TILE; c++) tile[k * TILE + c] = 0;
    for (Index c = 0; c < TILE; c++) halves[c] = c < count ? half[first + c] : 0;
    Index c = 0;
    for (; c + 8 <= count; c += 8) { /* eight points at a time write to each cache line of the tile fewer times */
        const REAL *p = points + (first + c) * m;
        for (Index k = 0; k < m; k += 4) {
            NAME(pack_four)(m, p + k, TILE, tile + k * TILE + c);
            NAME(pack_four)(m, p + 4 * m + k, TILE, tile + k * TILE + c + 4);
        }
    }
    for (; c < count; c++)
        for (Index k = 0; k < m; k++) tile[k * TILE + c] = points[(first + c) * m + k];
}

/* Pack all points, tile after tile, and zeros up to `stride`. */
static inline void NAME(pack_all)(Index n, Index stride, Index m, const REAL *points, const REAL *half, REAL *tiles, REAL *halves)
{
    for (Index first = 0; first < stride; first += TILE)
        NAME(pack)(n, m, points, half, first, tiles + first * m, halves + first);
}

/* out[c] = k(a, b_c) for one tile. Rounding may make the exponent positive; it is cut at 0, so that k is at most 1. */
CLONES static inline void NAME(radial_tile)(Index m, const REAL *restrict a, REAL half_a, const REAL *restrict tile,
                                            const REAL *restrict halves, REAL *restrict out)
{
    CACHE_LINE REAL sum[TILE];
    for (int c = 0; c < TILE; c++) sum[c] = -half_a - halves[c];
    for (Index k = 0; k < m; k += 4) {
        REAL a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
        const REAL *restrict b = tile + k * TILE;
        for (int c = 0; c < TILE; c++)
            sum[c] += a0 * b[c] + a1 * b[c + TILE] + a2 * b[c + 2 * TILE] + a3 * b[c + 3 * TILE];
    }
    for (int c = 0; c < TILE; c++) out[c] = NAME(exp)(sum[c] < 0 ? sum[c] : 0);
}

/* As radial_tile for two points a and d. Both use each load of the tile, which saves a quarter of the time, and more if
 * the tile is in the second-level cache. */
CLONES static inline void NAME(radial_tiles)(Index m, const REAL *restrict a, REAL half_a, const REAL *restrict d,
                                             REAL half_d, const REAL *restrict tile, const REAL *restrict halves,
                                             REAL *restrict out, REAL *restrict next)
{
    CACHE_LINE REAL sum[TILE], other[TILE];
    for (int c = 0; c < TILE; c++) {
        sum[c] = -half_a - halves[c];
        other[c] = -half_d - halves[c];
    }
    for (Index k = 0; k < m; k += 4) {
        REAL a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
        REAL d0 = d[k], d1 = d[k + 1], d2 = d[k + 2], d3 = d[k + 3];
        const REAL *restrict b = tile + k * TILE;
        for (int c = 0; c < TILE; c++) {
            REAL b0 = b[c], b1 = b[c + TILE], b2 = b[c + 2 * TILE], b3 = b[c + 3 * TILE];
            sum[c] += a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3;
            other[c] += d0 * b0 + d1 * b1 + d2 * b2 + d3 * b3;
        }
    }
    for (int c = 0; c < TILE; c++) out[c] = NAME(exp)(sum[c] < 0 ? sum[c] : 0);
    for (int c = 0; c < TILE; c++) next[c] = NAME(exp)(other[c] < 0 ? other[c] : 0);
}

/* out[c] = (aᵀb_c − half_a − halves[c])^degree for one tile: the linear kernel, and polynomials. */
CLONES static inline void NAME(power_tile)(Index m, const REAL *restrict a, REAL half_a, const REAL *restrict tile,
                                           const REAL *restrict halves, int degree, REAL *restrict out)
{
    CACHE_LINE REAL sum[TILE];
    for (int c = 0; c < TILE; c++) sum[c] = -half_a - halves[c];
    for (Index k = 0; k < m; k += 4) {
        REAL a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
        const REAL *restrict b = tile + k * TILE;
        for (int c = 0; c < TILE; c++)
            sum[c] += a0 * b[c] + a1 * b[c + TILE] + a2 * b[c + 2 * TILE] + a3 * b[c + 3 * TILE];
    }
    for (int c = 0; c < TILE; c++) out[c] = sum[c];
    for (int power = 1; power < degree; power++)
        for (int c = 0; c < TILE; c++) out[c] *= sum[c];
}

/* Turn a row of inner products aᵀb_c into kernel values. */
CLONES static inline void NAME(radial_apply)(Index n, REAL half_a, const REAL *restrict half_b, REAL *restrict row)
{
    for (Index c = 0; c < n; c++) {
        REAL exponent = row[c] - half_a - half_b[c];
        row[c] = NAME(exp)(exponent < 0 ? exponent : 0);
    }
}

/* out (count, n) = k(a_i, b_c); with `upper` only the entries above the diagonal, and a few more.
 *
 * `tiles` tiles, which stay in the second-level cache, are worked on together, so that long pieces of a row are written:
 * one tile for all rows, then the next, would take up to twice as long. `work` holds (m + 1) TILE for each of these
 * tiles, and 2 TILE. */
static inline void NAME(radial_rows)(Index count, Index n, Index m, const REAL *a, const REAL *half_a, const REAL *b,
                              const REAL *half_b, REAL *out, REAL *work, Index tiles, int upper)
{
    REAL *halves = work + tiles * m * TILE, *values = halves + tiles * TILE;
    for (Index start = 0; start < n; start += tiles * TILE) {
        Index stop = start + tiles * TILE < n ? start + tiles * TILE : n;
        for (Index first = start, t = 0; first < stop; first += TILE, t++)
            NAME(pack)(n, m, b, half_b, first, work + t * m * TILE, halves + t * TILE);
        Index last = upper && stop < count ? stop : count;
        for (Index i = 0; i < last; i += 2) {
            Index t = upper && i > start ? (i - start) / TILE : 0;
            for (Index first = start + t * TILE; first < stop; first += TILE, t++) {
                const REAL *tile = work + t * m * TILE, *half = halves + t * TILE;
                REAL *target = out + i * n + first;
                Index width = n - first;
                int whole = width >= TILE;
                REAL *here = whole ? target : values, *next = whole ? target + n : values + TILE;
                if (i + 1 < last)
                    NAME(radial_tiles)(m, a + i * m, half_a[i], a + (i + 1) * m, half_a[i + 1], tile, half, here, next);
                else
                    NAME(radial_tile)(m, a + i * m, half_a[i], tile, half, here);
                if (whole) continue;
                memcpy(target, values, width * sizeof(REAL));
                if (i + 1 < last) memcpy(target + n, values + TILE, width * sizeof(REAL));
            }
        }
    }
}

CLONES static inline void NAME(add_scaled)(const REAL *restrict values, REAL weight, REAL *restrict sum)
{
    for (int c = 0; c < TILE; c++) sum[c] += weight * values[c];
}

/* Kernel values of a point with one tile, and with `both` also those of the next point. */
static inline void NAME(one_or_two)(Index m, const REAL *a, const REAL *half, int both, const REAL *tile, const REAL *halves,
                                    REAL *values)
{
    if (both)
        NAME(radial_tiles)(m, a, half[0], a + m, half[1], tile, halves, values, values + TILE);
    else
        NAME(radial_tile)(m, a, half[0], tile, halves, values);
}

/* out (n, r) += Σ_i k(a_i, b_c) weights[i, r]; `work` holds (m + 3 + r) TILE.
 *
 * 32 terms are summed in REAL, and these partial sums in double. */
static inline void NAME(radial_sum)(Index count, Index n, Index m, Index r, const REAL *a, const REAL *half_a, const REAL *b,
                             const REAL *half_b, const REAL *weights, double *out, REAL *work)
{
    REAL *tile = work, *halves = work + m * TILE, *values = halves + TILE, *sums = values + 2 * TILE;
    for (Index first = 0; first < n; first += TILE) {
        NAME(pack)(n, m, b, half_b, first, tile, halves);
        Index width = n - first < TILE ? n - first : TILE;
        for (Index start = 0; start < count; start += 32) {
            Index stop = start + 32 < count ? start + 32 : count;
            for (Index c = 0; c < r * TILE; c++) sums[c] = 0;
            for (Index i = start; i < stop; i += 2) {
                int both = i + 1 < stop;
                NAME(one_or_two)(m, a + i * m, half_a + i, both, tile, halves, values);
                for (Index q = 0; q < r; q++) {
                    if (weights[i * r + q] != 0) NAME(add_scaled)(values, weights[i * r + q], sums + q * TILE);
                    if (both && weights[(i + 1) * r + q] != 0)
                        NAME(add_scaled)(values + TILE, weights[(i + 1) * r + q], sums + q * TILE);
                }
            }
            for (Index q = 0; q < r; q++)
                for (Index c = 0; c < width; c++) out[(first + c) * r + q] += sums[q * TILE + c];
        }
    }
}

/* Σ_c values[c] weights[c] of a tile, as eight partial sums, which fill one vector or two. */
CLONES static inline double NAME(tile_dot)(const REAL *restrict values, const REAL *restrict weights)
{
    double sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int c = 0; c < TILE; c += 8)
        for (int j = 0; j < 8; j++) sums[j] += (double)values[c + j] * (double)weights[c + j];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* out (n,) += Σ_i k(a_i, a_c) weights[i] over the pairs whose second point is one of `start` (a multiple of TILE) to
 * `stop` and whose first point precedes it or is in its tile. Each kernel value is computed once and added to the sums of
 * both points. `work` holds (m + 5) TILE. */
static inline void NAME(radial_square)(Index n, Index m, const REAL *a, const REAL *half, const REAL *weights, Index start,
                                Index stop, double *out, REAL *work)
{
    REAL *tile = work, *halves = work + m * TILE, *values = halves + TILE, *shares = values + 2 * TILE, *sums = shares + TILE;
    for (Index first = start; first < stop; first += TILE) {
        NAME(pack)(n, m, a, half, first, tile, halves);
        Index width = n - first < TILE ? n - first : TILE;
        for (Index c = 0; c < TILE; c++) shares[c] = c < width ? weights[first + c] : 0;
        for (Index begin = 0; begin < first + width; begin += 32) {
            Index end = begin + 32 < first + width ? begin + 32 : first + width;
            for (Index c = 0; c < TILE; c++) sums[c] = 0;
            for (Index i = begin; i < end; i += 2) {
                int both = i + 1 < end;
                NAME(one_or_two)(m, a + i * m, half + i, both, tile, halves, values);
                NAME(add_scaled)(values, weights[i], sums);
                if (both) NAME(add_scaled)(values + TILE, weights[i + 1], sums);
                if (i >= first) continue;
                out[i] += NAME(tile_dot)(values, shares);
                if (both) out[i + 1] += NAME(tile_dot)(values + TILE, shares);
            }
            for (Index c = 0; c < width; c++) out[first + c] += sums[c];
        }
    }
}

/* out += Σ_r weights[r] · rows[slots[r], :], in double, 2048 columns at a time, so that these stay in the cache. */
CLONES static inline void NAME(add_stretch)(Index width, double *restrict out, const REAL *restrict row, double weight)
{
    for (Index k = 0; k < width; k++) out[k] += weight * row[k];
}

static inline void NAME(add_rows)(Index n, Index stride, Index count, const REAL *rows, const long long *slots, const double *weights,
                           double *out)
{
    for (Index start = 0; start < n; start += 2048) {
        Index width = start + 2048 < n ? 2048 : n - start;
        for (Index r = 0; r < count; r++)
            NAME(add_stretch)(width, out + start, rows + slots[r] * stride + start, weights[r]);
    }
}

/* to = scale (from + offset) + sign_i sign in the upper triangle of (n, n) matrices: row i from its diagonal on. */
CLONES static inline void NAME(lift_row)(Index width, const double *restrict from, double scale, double offset,
                                         double sign_i, const double *restrict sign, REAL *restrict to)
{
    for (Index k = 0; k < width; k++) to[k] = (REAL)(scale * (from[k] + offset) + sign_i * sign[k]);
}

static inline void NAME(lift)(Index n, const double *from, double scale, double offset, const double *sign, REAL *to)
{
    for (Index i = 0; i < n; i++)
        NAME(lift_row)(n - i, from + i * n + i, scale, offset, sign[i], sign + i, to + i * n + i);
}

#undef TILE
#undef NAME
#undef NAME1
#undef NAME2
