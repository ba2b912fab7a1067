/* Rows of iterations that the program runs without hooks (weft.arrays.rows writes the second copy of the loop).
 *
 * Behind an iteration call the copy's entry asks weft_check_row for how many iterations every access is sure to pass:
 * addresses are linear in the iteration, so a place stays in its site's interval if it is there at the first and at
 * the last one, and its cells are looked at one after the other. Nothing is changed before the row has run: what it
 * wrote is stamped then, also where it was left in the middle. Places with the same addresses are a group; where a
 * group that writes meets another one, the hooks are to judge.
 */
#include "state.h"

#include <limits.h>

struct row_place {
    struct site *site;
    int32_t address, size, write, always;
};

enum { NUMBER, REGISTER, SLOT8, SLOT4, SIGNED, ZEROED, STEP_IS_FORM = 16 };

struct row_term {
    int64_t factor, step; /* step: what the atom rises by; the number of a form with STEP_IS_FORM */
    int32_t kind, which;
};

struct row_limit { /* the form is at most this, unsigned */
    uint64_t most;
    int32_t form, unused;
};

/* A loop with a second copy; weft.arrays.rows knows the layout. The assembly counts `wait` and `left` down. */
struct row {
    int32_t wait, fails;
    int64_t left;
    int32_t rank, place_count, form_count, limit_count;
    const struct row_place *places;
    const struct row_term *terms;
    const int32_t *starts; /* of each form's terms */
    const struct row_limit *limits;
    int32_t arguments[4]; /* forms of the next iteration's index */
    int64_t length;       /* of the last row */
    int64_t run;          /* of this row so far, where the runtime is not told of iterations */
};

_Static_assert(sizeof(struct row) == 96 && offsetof(struct row, left) == 8, "weft.arrays.rows knows these");

#define MOST_FORMS 1024
#define MOST_GROUPS 256
#define MOST_ITERATIONS 4096
#define FEWEST_ITERATIONS 4
#define FEWEST_ACCESSES 40
#define FEWEST_WITHIN 100 /* in a loop within an iteration, whose copy is entered with all registers saved */

struct line { /* a value that rises evenly */
    uint64_t at, step;
};

struct group {
    uintptr_t low; /* of the first iteration */
    int64_t step;
    unsigned size;
    int first_write, first_track; /* numbers of places; INT_MAX: none */
    bool scanned;
    stamp_t least, limit;
};

static struct {
    struct row *row; /* NULL: no row is being run */
    bool one;        /* a loop within an iteration: one stamp */
    stamp_t first;
    int64_t count;
    int group_count;
    struct group groups[MOST_GROUPS];
} pending;

/* --- cells --- */

static const uint32_t *word(const void *cells, int64_t stride, int64_t i)
{
    return (const uint32_t *)((const char *)cells + stride * i);
}

static bool scan_plain(const void *cells, int64_t stride, int64_t n, uint32_t least, uint32_t limit)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= *word(cells, stride, i) - least > limit;
    return !bad;
}

/* The same, where what this iteration wrote is right, too. */
static bool scan_both(const void *cells, int64_t stride, int64_t n, uint32_t least, uint32_t limit, stamp_t cur)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t w = *word(cells, stride, i);
        if (w - least > limit && w != cur)
            return false;
    }
    return true;
}

static void fill_plain(void *cells, int64_t stride, int64_t n, stamp_t first, stamp_t rise)
{
    for (int64_t i = 0; i < n; i++, first += rise)
        *(uint32_t *)word(cells, stride, i) = first;
}

#if defined __x86_64__
#include <immintrin.h>

__attribute__((target("avx2"))) static bool scan_wide(const void *cells, int64_t n, uint32_t least, uint32_t limit)
{
    const float *p = cells;
    __m256i from = _mm256_set1_epi32((int)(least + 0x80000000u)), most = _mm256_set1_epi32((int)(limit ^ 0x80000000u));
    __m256i bad = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 one = _mm256_loadu_ps(p + 2 * i), two = _mm256_loadu_ps(p + 2 * i + 8);
        __m256i w = _mm256_castps_si256(_mm256_shuffle_ps(one, two, 0x88));
        bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(_mm256_sub_epi32(w, from), most));
    }
    return _mm256_testz_si256(bad, bad) && scan_plain(p + 2 * i, 8, n - i, least, limit);
}

__attribute__((target("avx2"))) static void fill_wide(void *cells, int64_t n, stamp_t first, stamp_t rise)
{
    uint32_t *p = cells;
    int r = (int)rise;
    __m256i stamps = _mm256_add_epi32(_mm256_set1_epi32((int)first), _mm256_setr_epi32(0, 0, r, 0, 2 * r, 0, 3 * r, 0));
    __m256i four = _mm256_set1_epi32(4 * r);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        __m256i *at = (__m256i *)(p + 2 * i);
        _mm256_storeu_si256(at, _mm256_blend_epi32(_mm256_loadu_si256(at), stamps, 0x55));
        stamps = _mm256_add_epi32(stamps, four);
    }
    fill_plain(p + 2 * i, 8, n - i, first + rise * (stamp_t)i, rise);
}

static bool wide(void)
{
    static int known = -1;
    if (known < 0)
        known = __builtin_cpu_supports("avx2") != 0;
    return known;
}
#else
#define scan_wide(cells, n, least, limit) scan_plain(cells, 8, n, least, limit)
#define fill_wide(cells, n, first, rise) fill_plain(cells, 8, n, first, rise)
#define wide() false
#endif

/* Whether all of n words lie in least..least+limit. */
static bool scan(const void *cells, int64_t stride, int64_t n, uint32_t least, uint32_t limit)
{
    if (stride == -8)
        cells = word(cells, stride, n - 1), stride = 8;
    if (stride == 8 && wide() ? scan_wide(cells, n, least, limit) : scan_plain(cells, stride, n, least, limit))
        return true;
    return pending.one && scan_both(cells, stride, n, least, limit, now.cur);
}

static void fill(void *cells, int64_t stride, int64_t n, stamp_t first, stamp_t rise)
{
    if (stride == 8 && wide())
        fill_wide(cells, n, first, rise);
    else
        fill_plain(cells, stride, n, first, rise);
}

/* The cells of a group: those of its own size. */
static struct cell *cells_of(const struct group *g) { return g->size == 8 ? cell8(g->low) : cell4(g->low); }
static int64_t stride_of(const struct group *g) { return g->size == 8 ? g->step : 2 * g->step; }

/* 1: the granules are split into cells of 4, all of them; 0: none is; -1: some are. */
static int split(const struct group *g, int64_t n)
{
    bool first = cell8(g->low)->written == SPLIT;
    for (int64_t i = 1; i < n && g->step; i++)
        if ((cell8(g->low + (uintptr_t)(i * g->step))->written == SPLIT) != first)
            return -1;
    return first;
}

static bool written_in(const struct group *g, int64_t n, stamp_t least, stamp_t limit)
{
    if (g->step == 0)
        n = 1;
    if (g->size == 8)
        return scan(cell8(g->low), g->step, n, least, limit);
    int how = split(g, n);
    if (how == 1)
        return scan(cell4(g->low), 2 * g->step, n, least, limit);
    for (int64_t i = 0; how == 0 && i < n; i++) {
        stamp_t w = cell8(g->low + (uintptr_t)(i * g->step))->written;
        if (w - least > limit && !(pending.one && w == now.cur))
            return false;
    }
    return how == 0;
}

/* --- the proof --- */

static bool follow(const struct row *r, const uint64_t saved[], int64_t n, struct line forms[])
{
    for (int i = 0; i < r->form_count; i++) {
        struct line sum = {0, 0};
        for (const struct row_term *t = r->terms + r->starts[i]; t < r->terms + r->starts[i + 1]; t++) {
            uint64_t at = 1, step = t->kind & STEP_IS_FORM ? forms[t->step].at : (uint64_t)t->step;
            const char *slot = (const char *)saved[0] + t->which; /* the frame pointer comes first */
            switch (t->kind & ~STEP_IS_FORM) {
            case NUMBER:
                step = 0;
                break;
            case REGISTER:
                at = saved[t->which];
                break;
            case SLOT8:
                at = *(const uint64_t *)slot;
                break;
            case SLOT4:
                at = *(const uint32_t *)slot;
                break;
            case SIGNED:
            case ZEROED: {
                bool sign = (t->kind & ~STEP_IS_FORM) == SIGNED;
                const struct line *in = &forms[t->which];
                int64_t from = sign ? (int64_t)(int32_t)in->at : (int64_t)(uint32_t)in->at;
                int64_t rise = (int32_t)in->step, to = from + rise * n;
                if (sign ? to != (int32_t)to : to != (int64_t)(uint32_t)to)
                    return false;
                at = (uint64_t)from, step = (uint64_t)rise;
                break;
            }
            }
            sum.at += at * (uint64_t)t->factor, sum.step += step * (uint64_t)t->factor;
        }
        forms[i] = sum;
    }
    return true;
}

/* The copy's iteration calls would have said what the runtime expects. */
static bool expected(const struct row *r, const struct line forms[])
{
    for (int d = 0; d < r->rank; d++) {
        const struct line *f = &forms[r->arguments[d]];
        bool inner = d == r->rank - 1;
        if (f->at != (uint64_t)(inner ? here.expected : here.index[d]) ||
            f->step != (inner ? (uint64_t)here.inner_step : 0))
            return false;
    }
    return here.inner_step != 0;
}

/* For how many of n iterations the forms keep to their limits. */
static int64_t limited(const struct row *r, const struct line forms[], int64_t n)
{
    for (int i = 0; i < r->limit_count; i++) {
        const struct line *f = &forms[r->limits[i].form];
        int64_t step = (int64_t)f->step, most = (int64_t)r->limits[i].most;
        if (most >= INT64_MAX / 4 || step > INT32_MAX || step < INT32_MIN || f->at > (uint64_t)most)
            return 0; /* with these numbers nothing turns around at 2^64 */
        int64_t fit = step > 0 ? (most - (int64_t)f->at) / step + 1 : step < 0 ? (int64_t)f->at / -step + 1 : n;
        n = n < fit ? n : fit;
    }
    return n;
}

/* Whether all accesses of a place lie in its site's interval. */
static bool inside(const struct site *s, const struct line *a, int64_t n)
{
    int64_t move = 0, step = (int64_t)a->step;
    if (s->home != &weft_nowhere && !pending.one)
        move = weft_moves[s->home - weft_homes];
    uintptr_t from = a->at - *s->home - s->low;
    uintptr_t to = from + (uintptr_t)((step - move) * (n - 1));
    return from <= s->reach && to <= s->reach && s->reach <= INTPTR_MAX;
}

static struct group *group_of(const struct line *a, unsigned size)
{
    for (int i = pending.group_count; i-- > 0;) {
        struct group *g = &pending.groups[i];
        if (g->low == a->at && g->step == (int64_t)a->step && g->size == size)
            return g;
    }
    if (pending.group_count == MOST_GROUPS)
        return NULL;
    struct group *g = &pending.groups[pending.group_count++];
    *g = (struct group){a->at, (int64_t)a->step, size, INT_MAX, INT_MAX, false, 0, 0};
    return g;
}

/* Cells keep to their distance: none is met by two iterations, unless all meet the same one. */
static bool even(const struct line *a, unsigned size, int64_t n)
{
    int64_t step = (int64_t)a->step;
    return a->at % size == 0 && step % (int64_t)size == 0 && step < INT32_MAX && step > INT32_MIN &&
           ((a->at ^ (a->at + a->step * (uint64_t)n)) & ~(uint64_t)FOLD) == 0;
}

static bool reads_pass(struct group *g, const struct row_place *p, int number, int64_t n)
{
    const struct site *s = p->site;
    if (g->first_write != INT_MAX) /* what this iteration wrote */
        return true;
    stamp_t least = s->least, limit = s->limit;
    if (s->mode == FREE) { /* judge() lets pass what the hooks do not */
        least = REDZONE + 1, limit = UINT32_MAX - (REDZONE + 1 - SPLIT);
    } else if (s->track) {
        if (!p->always || s->size != p->size || s->known < s->since)
            return false;
        least = s->since, limit = s->known - s->since;
        if (g->size == 4 && split(g, n) != 1)
            return false;
        if (g->first_track == INT_MAX)
            g->first_track = number;
    }
    if (g->scanned && g->least == least && g->limit == limit)
        return true;
    if (g->scanned && g->step == 0 && !pending.one) /* writes_pass knows of one */
        return false;
    g->scanned = true, g->least = least, g->limit = limit;
    return written_in(g, n, least, limit);
}

static bool writes_pass(struct group *g, const struct row_place *p, int number, int64_t n)
{
    const struct site *s = p->site;
    if (g->first_write != INT_MAX)
        return true;
    if (!p->always)
        return false;
    stamp_t last = now.cur + (stamp_t)n;
    if (g->size == 4 && split(g, n) != 1)
        return false;
    if (s->track) {
        if (s->track != 1 || s->size != p->size || (g->step == 0 && !pending.one) ||
            !written_in(g, n, UNDEFINED, now.base - UNDEFINED) ||
            !scan(&cells_of(g)->read, stride_of(g), n, 0, now.base))
            return false;
    } else if (s->span == 0 || !written_in(g, n, s->floor + s->span, UINT32_MAX - s->span)) {
        return false;
    }
    if (g->step == 0 && !pending.one) { /* every iteration meets what the last one wrote */
        if (now.cur - s->floor < s->span || last - s->floor < s->span)
            return false;
        if (g->scanned && (now.cur - g->least > g->limit || last - g->least > g->limit))
            return false;
    }
    g->first_write = number;
    return true;
}

static uintptr_t low_end(const struct group *g, int64_t n)
{
    return g->step < 0 ? g->low + (uintptr_t)(g->step * (n - 1)) : g->low;
}

static uintptr_t high_end(const struct group *g, int64_t n)
{
    return (g->step > 0 ? g->low + (uintptr_t)(g->step * (n - 1)) : g->low) + g->size;
}

/* Whether two groups touch the same granule of 8. */
static bool meet(const struct group *a, const struct group *b, int64_t n)
{
    const uintptr_t round = 7;
    if (low_end(a, n) >= ((high_end(b, n) + round) & ~round) || low_end(b, n) >= ((high_end(a, n) + round) & ~round))
        return false;
    if (a->step != b->step || a->step == 0 || a->size != 8 || b->size != 8)
        return true;
    uintptr_t step = (uintptr_t)(a->step < 0 ? -a->step : a->step);
    uintptr_t apart = (a->low > b->low ? a->low - b->low : b->low - a->low) % step;
    return apart < 8 || apart > step - 8; /* else one lies between the other's */
}

static bool apart(int64_t n)
{
    for (int i = 0; i < pending.group_count; i++)
        for (int k = 0; pending.groups[i].first_write != INT_MAX && k < pending.group_count; k++)
            if (k != i && !(pending.one && pending.groups[i].size == pending.groups[k].size) && meet(&pending.groups[i], &pending.groups[k], n))
                return false;
    return true;
}

/* Whether a row pays for its proof. */
static bool worth(const struct row *r, int64_t n)
{
    return n >= FEWEST_ITERATIONS && n * r->place_count >= (r->rank ? FEWEST_ACCESSES : FEWEST_WITHIN);
}

/* For how many of n iterations all accesses pass; 0: none is known of. */
static int64_t proved(const struct row *r, const uint64_t saved[], int64_t n)
{
    static struct line forms[MOST_FORMS];
    pending.group_count = 0, pending.one = r->rank == 0;
    if (r->form_count > MOST_FORMS || !follow(r, saved, n + 1, forms) || !(pending.one || expected(r, forms)))
        return 0;
    n = limited(r, forms, n);
    if (!worth(r, n))
        return 0;
    for (int i = 0; i < r->place_count; i++) /* what costs little comes first */
        if (!inside(r->places[i].site, &forms[r->places[i].address], n) ||
            !even(&forms[r->places[i].address], (unsigned)r->places[i].size, n))
            return 0;
    for (int i = 0; i < r->place_count; i++) {
        const struct row_place *p = &r->places[i];
        struct group *g = group_of(&forms[p->address], (unsigned)p->size);
        if (!g || !(p->write ? writes_pass(g, p, i, n) : reads_pass(g, p, i, n)))
            return 0;
    }
    return apart(n) ? n : 0;
}

/* --- the row --- */

static void give_up(struct row *r)
{
    r->wait = 8 << (r->fails < 9 ? r->fails : 9);
    r->fails++;
}

/* How many iterations of this row are to be tried; 0: now none. */
static int64_t to_try(struct row *r)
{
    int64_t before, done, n;
    if (!row_ordinary(r->rank, &before, &done))
        return 0;
    if (r->rank == 0) {
        n = r->length > r->run ? r->length - r->run : r->fails % 2 ? 16 : 64;
    } else {
        if (before > 0)
            r->length = before;
        n = r->length > done ? r->length - done : 32;
    }
    n = n > MOST_ITERATIONS ? MOST_ITERATIONS : n;
    return (int64_t)(LAST_STAMP - 4) - now.cur < n ? 0 : n;
}

/* How many iterations the copy may run, from this one on; 0: none. saved: the registers that calls keep. */
int weft_check_row(struct row *r, const uint64_t saved[])
{
    r->wait = 1;
    if (now.off) { /* nothing is looked at; the child that verifies reductions wants each iteration */
        r->left = r->rank ? 1 : INT64_MAX;
        return 1;
    }
    int64_t n = to_try(r);
    r->left = 0;
    int64_t sure = worth(r, n) ? proved(r, saved, n) : 0;
    if (sure) {
        r->fails = 0;
        r->left = pending.count = sure;
        pending.row = r, pending.first = now.cur;
        return 1;
    }
    if (worth(r, n) || r->rank == 0)
        give_up(r);
    else if (n > 0)
        r->wait = (int32_t)n;
    return 0;
}

static void stamp_reads(const struct group *g, int64_t n)
{
    struct cell *c = cells_of(g);
    for (int64_t t = 0; t < (g->step ? n : n > 0); t++) {
        struct cell *at = (struct cell *)word(c, stride_of(g), t);
        stamp_t cur = pending.first + (pending.one ? 0 : (stamp_t)t);
        if (at->written != cur && (at->read <= now.base || at->read > cur))
            at->read = cur;
    }
}

/* Stamp what `full` iterations did, and what the first `places` places of one more did. */
static void stamp(int64_t full, int places)
{
    for (int i = 0; i < pending.group_count; i++)
        if (pending.groups[i].first_track != INT_MAX)
            stamp_reads(&pending.groups[i], full + (pending.groups[i].first_track < places));
    for (int i = 0; i < pending.group_count; i++) {
        const struct group *g = &pending.groups[i];
        int64_t writes = full + (g->first_write < places);
        if (g->first_write == INT_MAX || writes == 0)
            continue;
        if (g->step)
            fill(&cells_of(g)->written, stride_of(g), writes, pending.first, !pending.one);
        else
            cells_of(g)->written = pending.first + (pending.one ? 0 : (stamp_t)(writes - 1));
    }
    pending.row = NULL;
}

/* The copy has come to the call of the iteration after the row. */
void weft_check_row_end(struct row *r)
{
    if (pending.row != r)
        return;
    int64_t n = pending.count;
    stamp(n, 0);
    row_advance(n - 1);
}

/* The copy is being left behind its first `places` places; -1: for the head of the loop. */
void weft_check_row_exit(struct row *r, int places)
{
    if (pending.row != r)
        return;
    int64_t full = pending.count - r->left;
    stamp(full, places);
    if (r->rank) {
        row_advance(full);
    } else if (places < 0) {
        r->run += full;
    } else {
        r->length = r->run + full + 1;
        r->run = 0;
    }
}
