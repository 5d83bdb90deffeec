/* Shrinking for pairs.h, for its REAL: variables far from moving are left out for a while.
 *
 * A pair update reads the gradient of all n variables and two rows of M, which are out of the caches if n is large. Most
 * variables soon stay at their bounds. The others, the active ones, are solved as a problem of their own with shorter
 * rows. Gradients and rows of the shrunk variables are not touched until that problem is solved; then all variables are
 * checked again. */

#define MIN_N_SHRINKING 2048 /* variables from which some may be shrunk, if at least half of them are */
#define N_PER_SHRINK 2 /* variables per update after which shrinking is tried, and tried again */
/* A variable at its bound stays active if its gradient is within this part of the violation of the worst violators. */
#define SHRINK_SLACK 0.25

typedef struct {
    REAL *spare; /* numbers to work in */
    Index size; /* of spare */
    int all; /* variables of the problem that these are the active ones of; 0 if all are active */
    Index *entries; /* counts the entries of M that are made for active variables alone */
    int shrinks; /* whether variables may be shrunk */
} NAME(memory);

static Index NAME(pairs)(int n, Index stride, REAL *rows, long long *slots, Index *used, const NAME(source) *from, REAL *G,
                        const REAL *diag, double *beta, const double *low, const double *high, int equality,
                        double tolerance, Index limit, Index max_rows, REAL *work, double *violation, NAME(memory) memory,
                        int starts_newton);

/* List the variables that are free, or would be violators with a little slack; return their number. */
static int NAME(active_variables)(int n, const REAL *G, const double *beta, const double *low, const double *high,
                                  int equality, int *index)
{
    REAL least = equality ? (REAL)BIG : 0, most = equality ? -(REAL)BIG : 0;
    for (int k = 0; k < n; k++) {
        if (beta[k] < high[k] && G[k] < least) least = G[k];
        if (beta[k] > low[k] && G[k] > most) most = G[k];
    }
    const REAL slack = (REAL)SHRINK_SLACK * (most - least);
    int count = 0;
    for (int k = 0; k < n; k++) {
        const int rises = beta[k] < high[k], falls = beta[k] > low[k];
        if ((rises && falls) || (rises && G[k] <= most + slack) || (falls && G[k] >= least - slack)) index[count++] = k;
    }
    return count;
}

/* Update β and G, as `pairs` does, over the active variables alone; return the number of updates, 0 if too many
 * variables are active, or if there is no room for their rows. */
static Index NAME(solve_active)(int n, Index stride, REAL *rows, long long *slots, Index *used, const NAME(source) *from, REAL *G,
                       const REAL *diag, double *beta, const double *low, const double *high, int equality,
                       double tolerance, Index limit, Index max_rows, NAME(memory) memory)
{
    int *index = malloc(n * sizeof(int));
    if (!index) return 0; /* updates over all variables reach the minimum too */
    const int w = NAME(active_variables)(n, G, beta, low, high, equality, index);
    const Index m = from->m, width = (w + 127) & ~(Index)127, points = (w + width) * m, small = 5 * width + 7 * (Index)w;
    Index known = 0, done = 0;
    for (int a = 0; a < w; a++) known += slots[index[a]] >= 0;
    const Index space = (memory.size - points) / (width ? width : 1) - 4;
    const Index new_rows = max_rows - *used < space - known ? max_rows - *used : space - known;
    REAL *small_arrays = NULL;
    double *wide_arrays = NULL;
    if (2 * w <= n && w > 1 && new_rows > 0) {
        small_arrays = malloc(small * sizeof(REAL));
        wide_arrays = malloc(3 * w * sizeof(double) + w * sizeof(long long));
    }
    if (small_arrays && wide_arrays) {
        REAL *half = small_arrays, *halves = half + width, *sign = halves + width, *ridge = sign + width, *g = ridge + width;
        REAL *d = g + w, *work = d + w;
        double *b = wide_arrays, *l = b + w, *u = l + w, violation;
        long long *place = (long long *)(u + w);
        REAL *near = memory.spare, *tiles = near + w * m, *part_rows = tiles + width * m;
        Index filled = 0;
        for (int a = 0; a < width; a++) sign[a] = 0;
        for (int a = 0; a < w; a++) {
            const int i = index[a];
            memcpy(near + a * m, from->points + i * m, m * sizeof(REAL));
            half[a] = from->half[i];
            sign[a] = from->sign[i];
            ridge[a] = from->ridge[i];
            g[a] = G[i];
            d[a] = diag[i];
            b[a] = beta[i];
            l[a] = low[i];
            u[a] = high[i];
            place[a] = -1;
            if (slots[i] < 0) continue;
            const REAL *restrict row = rows + stride * slots[i];
            REAL *restrict to = part_rows + width * filled;
            for (int c = 0; c < w; c++) to[c] = row[index[c]];
            place[a] = filled++;
        }
        NAME(pack_all)(w, width, m, near, half, tiles, halves);
        NAME(source) source = *from;
        source.points = near;
        source.half = half;
        source.tiles = tiles;
        source.halves = halves;
        source.sign = sign;
        source.ridge = ridge;
        const Index held = known + new_rows + 4;
        const NAME(memory) rest = {part_rows + width * held, memory.size - points - width * held,
                                   memory.all ? memory.all : n, memory.entries, 1};
        done = NAME(pairs)(w, width, part_rows, place, &filled, &source, g, d, b, l, u, equality, tolerance, limit,
                           known + new_rows, work, &violation, rest, 0);
        *memory.entries += (filled - known) * w;
        Index count = 0;
        for (int a = 0; a < w; a++)
            if (b[a] != beta[index[a]]) place[count++] = index[a];
        NAME(fetch_wanted)(stride, count, place, from, rows, slots, used);
        for (int a = 0; a < w; a++) {
            const int i = index[a];
            const REAL t = (REAL)(b[a] - beta[i]);
            if (b[a] == beta[i]) continue;
            beta[i] = b[a];
            NAME(add)(n, G, t, rows + stride * slots[i]);
        }
    }
    free(wide_arrays);
    free(small_arrays);
    free(index);
    return done;
}
