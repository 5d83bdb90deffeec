/* The Cholesky factor of a matrix of some hundred rows, for newton_step.h. Rows are w wide, a multiple of 8. */
#define STRIP 8 /* rows of the factor that stay in the first-level cache together */
#define PANEL 32 /* rows that are finished before they are subtracted from all rows below */

/* Subtract the products of a whole strip, which begins at row `first`, from rows `first` + STRIP to `last` of A. */
CLONES static void below_strip(Index last, Index w, double *A, Index first)
{
    const double *restrict r0 = A + first * w, *restrict r1 = r0 + w, *restrict r2 = r1 + w, *restrict r3 = r2 + w;
    const double *restrict r4 = r3 + w, *restrict r5 = r4 + w, *restrict r6 = r5 + w, *restrict r7 = r6 + w;
    for (Index i = first + STRIP; i < last; i++) {
        double *restrict other = A + i * w;
        const double a0 = r0[i], a1 = r1[i], a2 = r2[i], a3 = r3[i], a4 = r4[i], a5 = r5[i], a6 = r6[i], a7 = r7[i];
        BY_EIGHT(i, w) EIGHT
            other[j] -= ((a0 * r0[j] + a1 * r1[j]) + (a2 * r2[j] + a3 * r3[j])) +
                        ((a4 * r4[j] + a5 * r5[j]) + (a6 * r6[j] + a7 * r7[j]));
    }
}

/* Factorise the rows of a strip, from `first` to `last`; return 0 if A is not positive definite. */
CLONES static int strip(Index last, Index w, double *A, Index first)
{
    for (Index k = first; k < last; k++) {
        double *restrict row = A + k * w;
        for (Index j = k & ~(Index)7; j < k; j++) row[j] = 0;
        if (!(row[k] > 0)) return 0;
        double scale = 1 / sqrt(row[k]);
        BY_EIGHT(k, w) EIGHT row[j] *= scale;
        for (Index i = k + 1; i < last; i++) {
            double *restrict other = A + i * w, factor = row[i];
            BY_EIGHT(i, w) EIGHT other[j] -= factor * row[j];
        }
    }
    return 1;
}

#if defined(__clang__) || defined(__GNUC__)
/* Vectors of four: GCC keeps sums of eight in memory where registers hold four, which takes nine times as long. */
typedef double four_doubles __attribute__((vector_size(32), aligned(8), may_alias));
#define SUM(r) four_doubles sum##r = {0}, more##r = {0}
#define ADD(r) sum##r += left[8 * k + r] * first, more##r += left[8 * k + r] * second
#define TAKE(r) *(four_doubles *)(A + r * w) -= sum##r, *(four_doubles *)(A + r * w + 4) -= more##r
#define LOAD four_doubles first = *(const four_doubles *)(right + 8 * k), second = *(const four_doubles *)(right + 8 * k + 4)
#else
#define SUM(r) double sum##r[8] = {0}
#define ADD(r) for (int j = 0; j < 8; j++) sum##r[j] += left[8 * k + r] * right[8 * k + j]
#define TAKE(r) for (int j = 0; j < 8; j++) A[r * w + j] -= sum##r[j]
#define LOAD (void)0
#endif

/* Subtract products of packed columns from four rows of eight entries of A. */
static ALWAYS_INLINE void take_four(Index w, const double *left, const double *right, double *A)
{
    SUM(0); SUM(1); SUM(2); SUM(3);
    for (int k = 0; k < PANEL; k++) {
        LOAD;
        ADD(0); ADD(1); ADD(2); ADD(3);
    }
    TAKE(0); TAKE(1); TAKE(2); TAKE(3);
}

/* Subtract the products of the panel before row `first`, a multiple of 8, from all rows of A from `first` on. Eight
 * columns of the panel at a time are packed, and stay in the first-level cache while four rows use them. */
CLONES static void below_panel(Index f, Index w, double *A, Index first, double *restrict packed)
{
    const double *panel = A + (first - PANEL) * w;
    for (Index j = first; j < w; j += 8)
        for (Index k = 0; k < PANEL; k++) memcpy(packed + j * PANEL + 8 * k, panel + k * w + j, 8 * sizeof(double));
    for (Index i = first; i < f; i += 4) {
        const double *left = packed + (i & ~(Index)7) * PANEL + (i & 7);
        double rest[4][8];
        for (Index j = i & ~(Index)7; j < w; j += 8) {
            if (i + 4 <= f) {
                take_four(w, left, packed + j * PANEL, A + i * w + j);
                continue;
            }
            memcpy(rest, A + i * w + j, 8 * sizeof(double));
            for (Index r = 0; r < f - i; r++) memcpy(rest[r], A + (i + r) * w + j, 8 * sizeof(double));
            take_four(8, left, packed + j * PANEL, rest[0]);
            for (Index r = 0; r < f - i; r++) memcpy(A + (i + r) * w + j, rest[r], 8 * sizeof(double));
        }
    }
}

/* Replace the symmetric A by the upper triangular R with A = RᵀR; return 0 if A is not positive definite. `packed` holds
 * PANEL w numbers.
 *
 * Eight rows of R at a time stay in the first-level cache while they are subtracted from the next rows of their panel;
 * the rows below the panel are updated once a panel. */
static int cholesky(Index f, Index w, double *A, double *packed)
{
    for (Index begin = 0; begin < f; begin += PANEL) {
        const Index end = begin + PANEL < f ? begin + PANEL : f;
        for (Index first = begin; first < end; first += STRIP) {
            const Index last = first + STRIP < end ? first + STRIP : end;
            if (!strip(last, w, A, first)) return 0;
            if (last < end) below_strip(end, w, A, first);
        }
        if (end < f) below_panel(f, w, A, end, packed);
    }
    return 1;
}

#undef SUM
#undef ADD
#undef TAKE
#undef LOAD
