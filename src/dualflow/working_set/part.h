/* Part of pairs.h, for its REAL: those far from moving are left out for a while.
 *
 * An update looks at all n variables, and at two rows of M, which are out of the caches where n and the rows are many.
 * Most variables soon stay at their bounds. The others are solved on their own: of what is left out neither row nor
 * gradient is touched, until the rest has come to its end, and all are looked at again. */

/* At least so many variables of which at most half are left; after so many updates for each, and again. */
#define PART_FROM 2048
#define PART_EVERY 2
/* How far from the worst violators a variable at its bound is left out, in parts of the worst violation. */
#define PART_SLACK 0.25

typedef struct {
    REAL *spare; /* to work in, and how much of it */
    Index size;
    int all; /* variables of the problem that this is a part of: 0 if it is none */
    Index *entries; /* counts what parts make of M */
    int leaves; /* whether there may be parts */
} NAME(memory);

static Index NAME(pairs)(int n, Index stride, REAL *rows, long long *slots, Index *used, const NAME(source) *from, REAL *G,
                        const REAL *diag, double *beta, const double *low, const double *high, int equality,
                        double tolerance, Index limit, Index room, REAL *work, double *violation, NAME(memory) memory,
                        int settled);

/* Who is free, or would be among the violators if these were a little worse; how many. */
static int NAME(members)(int n, const REAL *G, const double *beta, const double *low, const double *high, int equality,
                         int *member)
{
    REAL least = equality ? (REAL)BIG : 0, most = equality ? -(REAL)BIG : 0;
    for (int k = 0; k < n; k++) {
        if (beta[k] < high[k] && G[k] < least) least = G[k];
        if (beta[k] > low[k] && G[k] > most) most = G[k];
    }
    const REAL slack = (REAL)PART_SLACK * (most - least);
    int count = 0;
    for (int k = 0; k < n; k++) {
        const int rises = beta[k] < high[k], falls = beta[k] > low[k];
        if ((rises && falls) || (rises && G[k] <= most + slack) || (falls && G[k] >= least - slack)) member[count++] = k;
    }
    return count;
}

/* Updates of β and G, as `pairs` makes them, by pairs of such variables alone; 0 where they are many, or there is no room
 * for their rows. */
static Index NAME(part)(int n, Index stride, REAL *rows, long long *slots, Index *used, const NAME(source) *from, REAL *G,
                       const REAL *diag, double *beta, const double *low, const double *high, int equality,
                       double tolerance, Index limit, Index room, NAME(memory) memory)
{
    int *member = malloc(n * sizeof(int));
    if (!member) return 0; /* all of them get there too */
    const int w = NAME(members)(n, G, beta, low, high, equality, member);
    const Index m = from->m, width = (w + 127) & ~(Index)127, points = (w + width) * m, small = 5 * width + 7 * (Index)w;
    Index there = 0, done = 0;
    for (int a = 0; a < w; a++) there += slots[member[a]] >= 0;
    const Index space = (memory.size - points) / (width ? width : 1) - 4;
    const Index more = room - *used < space - there ? room - *used : space - there;
    REAL *own = NULL;
    double *wide = NULL;
    if (2 * w <= n && w > 1 && more > 0) {
        own = malloc(small * sizeof(REAL));
        wide = malloc(3 * w * sizeof(double) + w * sizeof(long long));
    }
    if (own && wide) {
        REAL *half = own, *halves = half + width, *sign = halves + width, *ridge = sign + width, *g = ridge + width;
        REAL *d = g + w, *work = d + w;
        double *b = wide, *l = b + w, *u = l + w, violation;
        long long *place = (long long *)(u + w);
        REAL *near = memory.spare, *tiles = near + w * m, *part_rows = tiles + width * m;
        Index filled = 0;
        for (int a = 0; a < width; a++) sign[a] = 0;
        for (int a = 0; a < w; a++) {
            const int i = member[a];
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
            for (int c = 0; c < w; c++) to[c] = row[member[c]];
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
        const Index held = there + more + 4;
        const NAME(memory) rest = {part_rows + width * held, memory.size - points - width * held,
                                   memory.all ? memory.all : n, memory.entries, 1};
        done = NAME(pairs)(w, width, part_rows, place, &filled, &source, g, d, b, l, u, equality, tolerance, limit, there + more,
                           work, &violation, rest, 0);
        *memory.entries += (filled - there) * w;
        Index count = 0;
        for (int a = 0; a < w; a++)
            if (b[a] != beta[member[a]]) place[count++] = member[a];
        NAME(fetch_wanted)(stride, count, place, from, rows, slots, used);
        for (int a = 0; a < w; a++) {
            const int i = member[a];
            const REAL t = (REAL)(b[a] - beta[i]);
            if (b[a] == beta[i]) continue;
            beta[i] = b[a];
            NAME(add)(n, G, t, rows + stride * slots[i]);
        }
    }
    free(wide);
    free(own);
    free(member);
    return done;
}
