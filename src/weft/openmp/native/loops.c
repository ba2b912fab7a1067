/* Worksharing: each iteration and each section is a strand of its own. */
#include "openmp.h"

#include <string.h>

/* Iterations that a thread takes one behind the other, where it has very many: memory is read as it lies. */
#define PART 1024 /* a power of two */
#define VERY_MANY (4 * PART)

static struct work *work_met(bool *first) {
    struct team *team = me->team;
    uint32_t number = me->work_number++;
    struct work **at = &team->works;
    for (uint32_t i = team->works_made; i > number + 1 && *at; i--) at = &(*at)->next;
    if (number < team->works_made) {
        *first = false;
        return *at;
    }
    struct work *w = calloc(1, sizeof *w);
    if (!w) abort();
    w->next = team->works;
    team->works = w;
    team->works_made++;
    *first = true;
    return w;
}

uint32_t work_place(const struct team *team, uint32_t number) {
    const struct work *w = team->works;
    for (uint32_t i = team->works_made; i > number + 1 && w; i--) w = w->next;
    return w ? w->place : team->place;
}

static void work_over(struct work *w) {
    free(w->posted), free(w->post), free(w->memory);
    w->posted = NULL;
    w->post = NULL;
    w->memory = NULL;
}

void works_end(struct team *team) {
    for (struct work *w = team->works; w;) {
        struct work *next = w->next;
        work_over(w);
        free(w);
        w = next;
    }
    team->works = NULL;
}

static uint32_t instances;

/* A team of one, or none: the loop's own copy of a construct. */
static struct team *some_team(void) {
    static struct team none = {.size = 1};
    static struct thread *only[1];
    if (!me->team) {
        only[0] = me;
        none.threads = only;
        works_end(&none);
        none.works_made = 0;
        me->work_number = 0;
        me->team = &none;
    }
    return me->team;
}

/* What a directive's schedule and the compiler's call say of a loop. */
struct said {
    bool is_static, is_ordered;
    long
        line; /* of the directive: it stands in the chunk, with the program's own one above LINES (weft.openmp.directives) */
    uintptr_t place;
};
#define LINES (1 << 24)

/* What the schedules of the last so many loops deal out. */
static struct dealt {
    uint32_t loop;
    int64_t chunk; /* 0: none is known */
    uint64_t start, step, count;
} dealt[4096];

static struct dealt *dealt_by(uint32_t loop) { return &dealt[loop / 2 % (sizeof dealt / sizeof *dealt)]; }

/* OpenMP 5.2, 11.5.3: the same logical iteration, and the same chunk, which is dealt out in turn, or none and the same number
 * of iterations. */
bool loops_deal_alike(uint32_t one, uint32_t two, int64_t index) {
    const struct dealt *a = dealt_by(one), *b = dealt_by(two);
    if (a->loop != one || b->loop != two) return true;
    if (a->chunk != b->chunk || (!a->chunk && a->count != b->count)) return false;
    return ((uint64_t)index - a->start) * b->step == ((uint64_t)index - b->start) * a->step;
}

int64_t loops_number(uint32_t loop, int64_t index) {
    const struct dealt *d = dealt_by(loop);
    return d->loop == loop && d->step ? (index - (int64_t)d->start) / (int64_t)d->step : -1;
}

/* OpenMP 5.2, 11.5.3: a chunk of schedule(static, c) or schedule(dynamic, c) has c iterations, and is one thread's. */
int64_t loops_chunk_of_both(uint32_t loop, int64_t index, int64_t other) {
    const struct dealt *d = dealt_by(loop);
    if (d->loop != loop || d->chunk < 2) return 0;
    return loops_number(loop, index) / d->chunk == loops_number(loop, other) / d->chunk ? d->chunk : 0;
}

static struct work *loop_begin(uint64_t start, uint64_t end, uint64_t step, bool up, struct said said) {
    bool first;
    some_team();
    struct work *w = work_met(&first);
    me->work = w;
    me->next_row = 0;
    me->iteration = -1;
    if (first) {
        uint64_t span = up ? end - start : start - end, by = up ? step : -step;
        w->start = start;
        w->step = step;
        w->count = (up ? (int64_t)end > (int64_t)start : (int64_t)start > (int64_t)end) ? (span + by - 1) / by : 0;
        w->loop = (instances += 2) | said.is_static;
        w->is_static = said.is_static;
        w->ordered = said.is_ordered;
        w->lanes = me->team->lanes;
        w->safelen = w->lanes ? (int)(me->team->lanes - LANES) : 0;
        bool many = w->count / (uint64_t)me->team->size >= VERY_MANY && !said.is_ordered && !me->team->number_asked;
        w->part = many ? PART : 1;
        w->begun = true;
        w->place = place_of(said.place);
        told_line(w->place, (uint32_t)(said.line % LINES));
        told_construct(w->place, "loop", w->count);
        *dealt_by(w->loop) = (struct dealt){w->loop, said.line < 0 ? 0 : said.line / LINES, start, step, w->count};
    }
    return w;
}

/* The strand of the thread, out of which its shares of a work come. */
static strand_t sharing(void) {
    strand_t s = trunk(me->plain);
    while (node(s)->kind == ITERATION || node(s)->kind == LANE || node(s)->kind == SECTION || node(s)->kind == SINGLE)
        s = node(s)->parent;
    return s;
}

#define SHARED 64 /* iterations of one thread in a strand, where there would be too many */

/* Whether an iteration goes on in the strand of the last one: that touched no memory, or there are too many. */
static bool goes_on(const struct work *w) {
    if (me->iteration < 0 || me->plain != me->current) return false;
    const struct node *n = node(me->plain);
    if ((n->kind != ITERATION && n->kind != LANE) || n->loop != w->loop) return false;
    if (!now.touched && me->plain == now.next - 1) return true;
    if (!has_too_many_strands() || me->next_row % SHARED == 0) return false;
    told_plain("left", "crowd", w->place, 0);
    return true;
}

static void iterate(struct work *w, int64_t k, bool again) {
    if (is_team_of_one() && !w->lanes) return;
    if (again) {
        if (!now.touched) node(me->plain)->index = w->lanes ? k : (int64_t)(w->start + (uint64_t)k * w->step);
        return;
    }
    now.touched = false;
    strand_t parent = sharing();
    bool row = now.row_end == now.next && now.row >= now.base && node(now.row)->loop == w->loop;
    strand_t s = create_strand(parent, w->lanes ? LANE : ITERATION, 0);
    if (!row) {
        now.row = s;
        now.row_mark = now.mark;
    }
    now.row_end = w->lanes ? 0 : now.next;
    struct node *n = node(s);
    n->loop = w->loop;
    n->place = w->place;
    n->index = w->lanes ? k : (int64_t)(w->start + (uint64_t)k * w->step);
    if (w->lanes) n->locks = (uint64_t)w->safelen;
    me->plain = s;
    locks_again();
}

static void leave(void) {
    if (!me->work || me->iteration < 0) return;
    strand_t s = sharing();
    if (s < now.base) return;
    me->plain = s;
    locks_again();
    me->iteration = -1;
}

/* Rows of as many parts as there are threads, of one iteration each where there are not very many; each row begins with
 * another thread, so that no distance between two iterations is always one thread's. */
static int64_t next_of_mine(const struct work *w) {
    int64_t threads = me->team->size, shift = w->is_static ? 0 : 1, part = w->part;
    for (;;) {
        int64_t share = me->next_row++;
        if (share & (part - 1)) return me->iteration + 1;
        int64_t row = share / part, first = row * threads;
        int64_t k = (first + ((me->number - row - shift) % threads + threads) % threads) * part;
        if (k < (int64_t)w->count || first * part >= (int64_t)w->count) return k;
        me->next_row += part - 1;
    }
}

static bool take(uint64_t *low, uint64_t *high) {
    struct work *w = me->work;
    int64_t k = w->cancelled ? (int64_t)w->count : next_of_mine(w);
    if (k >= (int64_t)w->count) {
        leave();
        return false;
    }
    bool again = goes_on(w);
    me->iteration = k;
    *low = w->start + (uint64_t)k * w->step;
    *high = *low + w->step;
    iterate(w, k, again);
    return true;
}

static bool loop(long s, long e, long i, struct said said, long *a, long *b) {
    loop_begin((uint64_t)s, (uint64_t)e, (uint64_t)i, i > 0, said);
    return take((uint64_t *)a, (uint64_t *)b);
}

typedef unsigned long long ull;

static bool loop_ull(bool up, ull s, ull e, ull i, struct said said, ull *a, ull *b) {
    /* Signs are turned, so that the numbers compare as signed ones do. */
    struct work *w = loop_begin(s, e, i, up, said);
    if (me->next_row == 0 && w->begun)
        w->count = (up ? e > s : s > e) ? (up ? e - s + i - 1 : s - e - i - 1) / (up ? i : -i) : 0;
    return take((uint64_t *)a, (uint64_t *)b);
}

#define NEXT(name)                                                                                                     \
    bool GOMP_loop_##name##_next(long *a, long *b) { return take((uint64_t *)a, (uint64_t *)b); }                      \
    bool GOMP_loop_ull_##name##_next(ull *a, ull *b) { return take((uint64_t *)a, (uint64_t *)b); }
#define LOOP(name, is_static, is_ordered)                                                                              \
    bool GOMP_loop_##name##_start(long s, long e, long i, long c, long *a, long *b) {                                  \
        return loop(s, e, i, (struct said){is_static, is_ordered, c, PLACE}, a, b);                                    \
    }                                                                                                                  \
    bool GOMP_loop_ull_##name##_start(bool up, ull s, ull e, ull i, ull c, ull *a, ull *b) {                           \
        return loop_ull(up, s, e, i, (struct said){is_static, is_ordered, (long)c, PLACE}, a, b);                      \
    }                                                                                                                  \
    NEXT(name)
/* schedule(guided) stands for the program's schedule(static), schedule(dynamic) for every other one. */
LOOP(dynamic, false, false)
LOOP(guided, true, false)
LOOP(nonmonotonic_dynamic, false, false)
LOOP(nonmonotonic_guided, true, false)
LOOP(ordered_dynamic, false, true)
LOOP(ordered_guided, true, true)
/* Directives that stay as they are, because the compiler takes no schedule there. */
LOOP(ordered_static, true, true)
#define LOOP_RUNTIME(name, is_ordered)                                                                                 \
    bool GOMP_loop_##name##_start(long s, long e, long i, long *a, long *b) {                                          \
        return loop(s, e, i, (struct said){false, is_ordered, 0, PLACE}, a, b);                                        \
    }                                                                                                                  \
    bool GOMP_loop_ull_##name##_start(bool up, ull s, ull e, ull i, ull *a, ull *b) {                                  \
        return loop_ull(up, s, e, i, (struct said){false, is_ordered, 0, PLACE}, a, b);                                \
    }                                                                                                                  \
    NEXT(name)
LOOP_RUNTIME(runtime, false)
LOOP_RUNTIME(maybe_nonmonotonic_runtime, false)
LOOP_RUNTIME(ordered_runtime, true)

/* The loop of a combined construct: each thread begins with it. */
struct combined {
    void (*function)(void *);
    void *data;
    long start, end, step;
    struct said said;
    unsigned sections;
};

static void begin_combined(void *data) {
    struct combined *c = data;
    if (c->sections) {
        bool first;
        me->work = work_met(&first);
        me->iteration = -1;
        me->work->count = c->sections;
        if (first) {
            me->work->loop = instances += 2;
            me->work->place = place_of(c->said.place);
        }
    } else {
        loop_begin((uint64_t)c->start, (uint64_t)c->end, (uint64_t)c->step, c->step > 0, c->said);
    }
    c->function(c->data);
}

static void combined(void (*fn)(void *), void *data, unsigned n, long s, long e, long i, struct said said,
                     uintptr_t frame) {
    struct combined c = {fn, data, s, e, i, said, 0};
    run_parallel_region(begin_combined, &c, n, said.place, frame, false);
}

#define COMBINED(name, is_static)                                                                                      \
    void GOMP_parallel_loop_##name(void (*fn)(void *), void *d, unsigned n, long s, long e, long i, long c,            \
                                   unsigned f) {                                                                       \
        (void)f;                                                                                                       \
        combined(fn, d, n, s, e, i, (struct said){is_static, false, c, BEGINNING(fn)}, FRAME);                         \
    }
COMBINED(dynamic, false)
COMBINED(guided, true)
COMBINED(nonmonotonic_dynamic, false)
COMBINED(nonmonotonic_guided, true)

void GOMP_loop_end(void) {
    leave();
    wait_at_barrier(PLACE);
}
void GOMP_loop_end_nowait(void) { leave(); }
bool GOMP_loop_end_cancel(void) {
    leave();
    wait_at_barrier(PLACE);
    return me->team && me->team->cancelled;
}

/* --- sections and single ----------------------------------------------------------------------------------------- */

static unsigned section(void) {
    struct work *w = me->work;
    yield_to_other_threads();
    me->work = w;
    if (w->taken >= w->count || w->cancelled) {
        leave();
        return 0;
    }
    int64_t k = (int64_t)w->taken++;
    me->iteration = k;
    iterate(w, k, false);
    if (!is_team_of_one()) {
        node(trunk(me->plain))->kind = SECTION;
        node(trunk(me->plain))->index = k;
    }
    return (unsigned)k + 1;
}

unsigned GOMP_sections_start(unsigned count) {
    bool first;
    some_team();
    me->work = work_met(&first);
    me->iteration = -1;
    if (first) {
        me->work->count = count;
        me->work->loop = instances += 2;
        me->work->place = place_of(PLACE);
        told_construct(place_of(PLACE), "loop", count);
    }
    return section();
}
unsigned GOMP_sections_next(void) { return section(); }
void GOMP_parallel_sections(void (*fn)(void *), void *d, unsigned n, unsigned count, unsigned f) {
    (void)f;
    struct combined c = {.function = fn, .data = d, .sections = count, .said.place = BEGINNING(fn)};
    told_construct(place_of(BEGINNING(fn)), "loop", count);
    run_parallel_region(begin_combined, &c, n, BEGINNING(fn), FRAME, false);
}
void GOMP_sections_end(void) {
    leave();
    wait_at_barrier(PLACE);
}
void GOMP_sections_end_nowait(void) { leave(); }
bool GOMP_sections_end_cancel(void) {
    leave();
    wait_at_barrier(PLACE);
    return me->team && me->team->cancelled;
}

static bool single(uint32_t place) {
    bool first;
    some_team();
    struct work *w = work_met(&first);
    if (!first) return false;
    w->place = place;
    told_construct(place, "single", 1);
    if (is_team_of_one()) return true;
    strand_t s = create_strand(sharing(), SINGLE, 0);
    node(s)->index = me->number;
    node(s)->place = place;
    me->plain = s;
    locks_again();
    return true;
}

bool GOMP_single_start(void) { return single(place_of(PLACE)); }

void *GOMP_single_copy_start(void) {
    if (single(place_of(PLACE))) return NULL;
    wait_at_barrier(PLACE);
    return me->team->copied;
}
void GOMP_single_copy_end(void *data) {
    me->team->copied = data;
    wait_at_barrier(PLACE);
}

/* --- ordered and doacross ---------------------------------------------------------------------------------------- */

void GOMP_ordered_start(void) {
    struct work *w = me->work;
    if (!w || is_team_of_one()) return;
    while (w->turn < me->iteration) {
        /* Iterations that have no ordered block pass their turn when their thread goes on. */
        yield_to_other_threads();
        int64_t least = w->count ? (int64_t)w->count : 0;
        for (int i = 0; i < me->team->size; i++) {
            struct thread *t = me->team->threads[i];
            if (t != me && t->work == w && t->iteration >= 0 && t->state == READY && t->iteration < least)
                least = t->iteration;
        }
        bool others = false;
        for (int i = 0; i < me->team->size; i++) {
            struct thread *t = me->team->threads[i];
            if (t != me && t->state == READY && (t->work != w || t->iteration < me->iteration)) others = true;
        }
        if (!others) w->turn = me->iteration;
    }
    strand_t from = w->last_ordered;
    begin_segment();
    if (from >= now.base) order_strand_after(me->plain, from, w->last_node);
    lock_number_take(ORDERED_LOCK);
}

void GOMP_ordered_end(void) {
    struct work *w = me->work;
    if (!w || is_team_of_one()) return;
    lock_number_leave(ORDERED_LOCK);
    w->last_ordered = me->plain;
    w->last_node = now.next - 1;
    begin_segment();
    w->turn = me->iteration + 1;
    yield_to_other_threads();
}

static bool doacross_begin(unsigned n, const long *counts, struct said said, long *a, long *b) {
    struct work *w = loop_begin(0, (uint64_t)counts[0], 1, true, said);
    w->part = 1;
    if (!w->posted) {
        uint64_t all = 1;
        w->dimensions = n;
        for (unsigned i = 0; i < n && i < 16; i++) {
            w->counts[i] = (uint64_t)counts[i];
            all *= w->counts[i];
        }
        w->posted = calloc(all + 1, 1);
        w->post = calloc(all + 1, sizeof *w->post);
    }
    return take((uint64_t *)a, (uint64_t *)b);
}

#define DOACROSS(name, is_static)                                                                                      \
    bool GOMP_loop_doacross_##name##_start(unsigned n, long *counts, long c, long *a, long *b) {                       \
        return doacross_begin(n, counts, (struct said){is_static, false, c, PLACE}, a, b);                             \
    }
DOACROSS(dynamic, false)
DOACROSS(guided, true)

static int64_t at(const struct work *w, const long *index) {
    int64_t k = 0;
    for (unsigned i = 0; i < w->dimensions; i++) k = k * (int64_t)w->counts[i] + index[i];
    return k;
}

/* What the iteration did up to now comes before those that wait for it. */
static void posted(struct work *w, int64_t k) {
    w->posted[k] = 1;
    w->post[k] = (struct node_range){me->plain, now.next - 1};
    begin_segment();
    wake_waiting_threads(&w->posted[k]);
}

void GOMP_doacross_post(long *index) {
    if (me->work && me->work->posted && !is_team_of_one()) posted(me->work, at(me->work, index));
}

static void doacross_wait(struct work *w, const long *index, uint32_t place) {
    int64_t k = at(w, index);
    for (unsigned i = 0; i < w->dimensions; i++)
        if (index[i] < 0 || (uint64_t)index[i] >= w->counts[i]) return;
    while (!w->posted[k]) wait_until_woken(&w->posted[k], place);
    begin_segment();
    order_strand_after(me->plain, w->post[k].node, w->post[k].last);
}

void GOMP_doacross_wait(long first, ...) {
    struct work *w = me->work;
    if (!w || !w->posted || is_team_of_one()) return;
    long index[16] = {first};
    __builtin_va_list more;
    __builtin_va_start(more, first);
    for (unsigned i = 1; i < w->dimensions && i < 16; i++) index[i] = __builtin_va_arg(more, long);
    __builtin_va_end(more);
    doacross_wait(w, index, place_of(PLACE));
}

/* --- the general forms ------------------------------------------------------------------------------------------- */

static void with_memory(struct work *w, uintptr_t *reductions, void **memory) {
    if (memory) {
        size_t size = (size_t)(uintptr_t)*memory;
        if (!w->memory && size) {
            w->memory = calloc(1, size);
            ignore_memory((uintptr_t)w->memory, (uintptr_t)w->memory + size);
        }
        *memory = w->memory;
    }
    (void)reductions;
}

/* Among schedules 0 is runtime, 1 static, 2 dynamic, 3 guided. */
static bool general(long s, long e, long i, long schedule, struct said said, long *a, long *b, uintptr_t *reductions,
                    void **memory) {
    said.is_static = (schedule & 0xff) == 3;
    struct work *w = loop_begin((uint64_t)s, (uint64_t)e, (uint64_t)i, i > 0, said);
    with_memory(w, reductions, memory);
    return a ? take((uint64_t *)a, (uint64_t *)b) : true;
}

bool GOMP_loop_start(long s, long e, long i, long schedule, long chunk, long *a, long *b, uintptr_t *reductions,
                     void **memory) {
    return general(s, e, i, schedule, (struct said){.line = chunk, .place = PLACE}, a, b, reductions, memory);
}
bool GOMP_loop_ordered_start(long s, long e, long i, long schedule, long chunk, long *a, long *b, uintptr_t *reductions,
                             void **memory) {
    struct said said = {.is_ordered = true, .line = chunk, .place = PLACE};
    return general(s, e, i, schedule, said, a, b, reductions, memory);
}
bool GOMP_loop_doacross_start(unsigned n, long *counts, long schedule, long chunk, long *a, long *b,
                              uintptr_t *reductions, void **memory) {
    bool found = doacross_begin(n, counts, (struct said){(schedule & 0xff) == 3, false, chunk, PLACE}, a, b);
    with_memory(me->work, reductions, memory);
    return found;
}
