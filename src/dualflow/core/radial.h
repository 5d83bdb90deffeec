/* The radial kernel exp(aᵀb − ‖a‖²/2 − ‖b‖²/2) for points scaled by √(2γ), a tile of points b at a time.
 *
 * A tile is packed feature by feature so that the loop over its points vectorises, and stays in the first-level
 * cache while all a pass over it; nothing but results is written. Included twice, for REAL = float and double; m, the
 * number of features, is a multiple of 4 (zeros are appended).
 */
#define NAME2(base, type) base##_##type
#define NAME1(base, type) NAME2(base, type)
#define NAME(base) NAME1(base, REAL)
#define TILE (512 / (int)sizeof(REAL))

/* Points `first`, … of `points` (n, m) into `tile` (m, TILE) and `halves` (TILE,); missing ones are zeros. */
static inline void NAME(pack)(long n, long m, const REAL *points, const REAL *half, long first, REAL *restrict tile,
                       REAL *restrict halves)
{
    long count = n - first < 0 ? 0 : n - first < TILE ? n - first : TILE;
    for (long k = 0; k < m; k++)
        for (long c = count; c < TILE; c++) tile[k * TILE + c] = 0;
    for (long c = 0; c < TILE; c++) halves[c] = c < count ? half[first + c] : 0;
    for (long c = 0; c < count; c++)
        for (long k = 0; k < m; k++) tile[k * TILE + c] = points[(first + c) * m + k];
}

/* All points, tile after tile, and zeros up to `stride`. */
static inline void NAME(pack_all)(long n, long stride, long m, const REAL *points, const REAL *half, REAL *tiles, REAL *halves)
{
    for (long first = 0; first < stride; first += TILE)
        NAME(pack)(n, m, points, half, first, tiles + first * m, halves + first);
}

/* out[c] = k(a, b_c) for one tile. Rounding can make the exponent positive: identical points have 1, not more. */
CLONES static inline void NAME(radial_tile)(long m, const REAL *restrict a, REAL half_a, const REAL *restrict tile,
                                     const REAL *restrict halves, REAL *restrict out)
{
    CACHE_LINE REAL sum[TILE];
    for (int c = 0; c < TILE; c++) sum[c] = -half_a - halves[c];
    for (long k = 0; k < m; k += 4) {
        REAL a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
        const REAL *restrict b = tile + k * TILE;
        for (int c = 0; c < TILE; c++)
            sum[c] += a0 * b[c] + a1 * b[c + TILE] + a2 * b[c + 2 * TILE] + a3 * b[c + 3 * TILE];
    }
    for (int c = 0; c < TILE; c++) out[c] = NAME(exp)(sum[c] < 0 ? sum[c] : 0);
}

/* One row of inner products aᵀb_c becomes one of kernel values. */
CLONES static inline void NAME(radial_apply)(long n, REAL half_a, const REAL *restrict half_b, REAL *restrict row)
{
    for (long c = 0; c < n; c++) {
        REAL exponent = row[c] - half_a - half_b[c];
        row[c] = NAME(exp)(exponent < 0 ? exponent : 0);
    }
}

/* out (count, n) = k(a_i, b_c); `work` holds (m + 2) TILE. */
static inline void NAME(radial_rows)(long count, long n, long m, const REAL *a, const REAL *half_a, const REAL *b,
                              const REAL *half_b, REAL *out, REAL *work)
{
    REAL *tile = work, *halves = work + m * TILE, *values = halves + TILE;
    for (long first = 0; first < n; first += TILE) {
        NAME(pack)(n, m, b, half_b, first, tile, halves);
        long width = n - first < TILE ? n - first : TILE;
        for (long i = 0; i < count; i++) {
            REAL *target = out + i * n + first;
            NAME(radial_tile)(m, a + i * m, half_a[i], tile, halves, width == TILE ? target : values);
            if (width < TILE) memcpy(target, values, width * sizeof(REAL));
        }
    }
}

CLONES static inline void NAME(add_scaled)(const REAL *restrict values, REAL weight, REAL *restrict sum)
{
    for (int c = 0; c < TILE; c++) sum[c] += weight * values[c];
}

/* out (n, r) += Σ_i k(a_i, b_c) weights[i, r]; `work` holds (m + 2 + r) TILE.
 *
 * Summed in REAL over 32 terms at a time, and these sums in double. */
static inline void NAME(radial_sum)(long count, long n, long m, long r, const REAL *a, const REAL *half_a, const REAL *b,
                             const REAL *half_b, const REAL *weights, double *out, REAL *work)
{
    REAL *tile = work, *halves = work + m * TILE, *values = halves + TILE, *sums = values + TILE;
    for (long first = 0; first < n; first += TILE) {
        NAME(pack)(n, m, b, half_b, first, tile, halves);
        long width = n - first < TILE ? n - first : TILE;
        for (long start = 0; start < count; start += 32) {
            long stop = start + 32 < count ? start + 32 : count;
            for (long c = 0; c < r * TILE; c++) sums[c] = 0;
            for (long i = start; i < stop; i++) {
                NAME(radial_tile)(m, a + i * m, half_a[i], tile, halves, values);
                for (long q = 0; q < r; q++)
                    if (weights[i * r + q] != 0) NAME(add_scaled)(values, weights[i * r + q], sums + q * TILE);
            }
            for (long q = 0; q < r; q++)
                for (long c = 0; c < width; c++) out[(first + c) * r + q] += sums[q * TILE + c];
        }
    }
}

#undef TILE
#undef NAME
#undef NAME1
#undef NAME2
