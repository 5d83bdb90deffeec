/* Rows of M made on demand, for pairs.h and its REAL. */

/* What rows are made from. Either points, as in radial.h: M_ic = factor s_i s_c (k(x_i, x_c) + offset) + ridge_i [i = c]
 * with the radial kernel, or a power of inner products if `degree` > 0. Or given blocks of kernel values, times factor:
 * `first` within the `head` first variables, `between` these and the others, `second` within the others, each with a
 * stride between its rows. */
typedef struct {
    Index m;
    const REAL *points, *half, *tiles, *halves, *sign, *ridge;
    REAL factor, offset;
    Index head;
    const REAL *first, *between, *second;
    Index first_stride, between_stride, second_stride;
    int degree;
} NAME(source);

/* Make row i from given blocks. */
static void NAME(row_of_blocks)(Index n, Index i, const NAME(source) *from, REAL *restrict row)
{
    const Index head = from->head, rest = n - head;
    const REAL factor = from->factor;
    if (i < head) {
        const REAL *restrict own = from->first + i * from->first_stride;
        const REAL *restrict other = from->between + i * from->between_stride;
        for (Index k = 0; k < head; k++) row[k] = factor * own[k];
        for (Index k = 0; k < rest; k++) row[head + k] = factor * other[k];
    } else {
        const REAL *restrict own = from->second + (i - head) * from->second_stride;
        const REAL *restrict other = from->between + (i - head);
        for (Index k = 0; k < head; k++) row[k] = factor * other[k * from->between_stride];
        for (Index k = 0; k < rest; k++) row[head + k] = factor * own[k];
    }
}

/* row = factor s (row + offset), with the signs s. */
CLONES static void NAME(sign_row)(Index n, REAL factor, REAL offset, const REAL *restrict sign, REAL *restrict row)
{
    for (Index k = 0; k < n; k++) row[k] = factor * sign[k] * (row[k] + offset);
}

/* Make rows which[0], which[1], … one below the other; a tile of points stays in the first-level cache for all rows. */
static void NAME(make_rows)(Index stride, Index count, const long long *which, const NAME(source) *from, REAL *rows)
{
    const Index m = from->m, tile = 512 / (Index)sizeof(REAL);
    if (from->first) {
        for (Index r = 0; r < count; r++) NAME(row_of_blocks)(stride, which[r], from, rows + r * stride);
        return;
    }
    for (Index first = 0; first < stride; first += tile)
        for (Index r = 0; r < count; r += 2) {
            const Index i = which[r], j = r + 1 < count ? which[r + 1] : -1;
            const REAL *tiles = from->tiles + first * m, *halves = from->halves + first;
            REAL *row = rows + r * stride + first;
            if (from->degree) {
                NAME(power_tile)(m, from->points + i * m, from->half[i], tiles, halves, from->degree, row);
                if (j >= 0)
                    NAME(power_tile)(m, from->points + j * m, from->half[j], tiles, halves, from->degree, row + stride);
            } else if (j < 0)
                NAME(radial_tile)(m, from->points + i * m, from->half[i], tiles, halves, row);
            else
                NAME(radial_tiles)(m, from->points + i * m, from->half[i], from->points + j * m, from->half[j], tiles,
                                   halves, row, row + stride);
            NAME(sign_row)(tile, from->factor * from->sign[i], from->offset, from->sign + first, row);
            if (j >= 0) NAME(sign_row)(tile, from->factor * from->sign[j], from->offset, from->sign + first, row + stride);
        }
    for (Index r = 0; r < count; r++) rows[r * stride + which[r]] += from->ridge[which[r]];
}

/* Return the least G of the variables that can rise and have no row. */
CLONES static REAL NAME(least_absent)(int n, const REAL *restrict G, const REAL *restrict stop_up,
                                      const REAL *restrict absent)
{
    REAL least = (REAL)BIG;
    for (int k = 0; k < n; k++) {
        REAL g = G[k] + stop_up[k] + absent[k];
        least = g < least ? g : least;
    }
    return least;
}

/* Make row i, and with it the row of the worst violator that has none: it is likely to be needed next. */
static Index NAME(fetch)(int n, Index stride, int i, const REAL *G, const REAL *stop_up, REAL *absent,
                         const NAME(source) *from, REAL *rows, long long *slots, Index *used)
{
    long long which[2] = {i, -1};
    Index count = 1;
    absent[i] = (REAL)BIG;
    if (from->m >= MIN_M_TWO_ROWS) {
        REAL least = NAME(least_absent)(n, G, stop_up, absent);
        if (least < (REAL)BIG / 2)
            for (int k = 0; k < n; k++)
                if (G[k] + stop_up[k] + absent[k] == least) { which[count++] = k; absent[k] = (REAL)BIG; break; }
    }
    NAME(make_rows)(stride, count, which, from, rows + stride * *used);
    for (Index r = 0; r < count; r++) slots[which[r]] = (*used)++;
    return slots[i];
}

/* Make the wanted rows that are missing, many together: that is cheaper than one by one. */
static void NAME(fetch_wanted)(Index stride, Index count, const long long *wanted, const NAME(source) *from, REAL *rows,
                               long long *slots, Index *used)
{
    long long which[64];
    Index together = 0;
    for (Index k = 0; k <= count; k++) {
        if (together == 64 || k == count) {
            NAME(make_rows)(stride, together, which, from, rows + stride * *used);
            *used += together;
            together = 0;
        }
        if (k < count && slots[wanted[k]] < 0) {
            slots[wanted[k]] = *used + together;
            which[together++] = wanted[k];
        }
    }
}

/* Make the rows of all free variables: they will move. */
static void NAME(fetch_free)(int n, Index stride, const double *beta, const double *low, const double *high,
                             const NAME(source) *from, REAL *rows, long long *slots, Index *used)
{
    for (int k = 0; k < n;) {
        long long free_rows[64];
        Index count = 0;
        for (; k < n && count < 64; k++)
            if (slots[k] < 0 && beta[k] > low[k] && beta[k] < high[k]) free_rows[count++] = k;
        NAME(fetch_wanted)(stride, count, free_rows, from, rows, slots, used);
    }
}
