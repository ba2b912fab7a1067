/* Worksharing: each iteration and each section is a strand of its own. */
#include "openmp.h"

#include <string.h>

/* Iterations that a thread takes one after the other, where it has very many: memory is read as it lies. */
#define PART_BITS 10
#define PART (1 << PART_BITS)
#define VERY_MANY (4 * PART)

/* Return the worksharing construct that the running thread encounters next; it is created by the first thread of the
 * team, for which `*is_first` is set. Aborts without memory. */
static struct work *find_or_create_construct(bool *is_first) {
    struct team *team = me->team;
    uint32_t number = me->work_number++;
    struct work **link = &team->works;
    for (uint32_t i = team->works_made; i > number + 1 && *link; i--) link = &(*link)->next;
    if (number < team->works_made) {
        *is_first = false;
        return *link;
    }
    struct work *work = calloc(1, sizeof *work);
    if (!work) abort();
    work->next = team->works;
    team->works = work;
    team->works_made++;
    *is_first = true;
    return work;
}

/* Return the code place of the team's worksharing construct with this number; the team's own place if it no longer
 * exists. */
uint32_t find_construct_place(const struct team *team, uint32_t number) {
    const struct work *work = team->works;
    for (uint32_t i = team->works_made; i > number + 1 && work; i--) work = work->next;
    return work ? work->place : team->place;
}

/* Free what a worksharing construct allocated, not the construct itself. */
static void free_construct_memory(struct work *work) {
    free(work->posted), free(work->post), free(work->memory);
    work->posted = NULL;
    work->post = NULL;
    work->memory = NULL;
}

/* Free all worksharing constructs of a team whose region ends. */
void free_constructs(struct team *team) {
    for (struct work *work = team->works; work;) {
        struct work *next = work->next;
        free_construct_memory(work);
        free(work);
        work = next;
    }
    team->works = NULL;
}

static uint32_t last_loop;

/* Return the running thread's team, or a static team of one outside of parallel regions, so that loops work there,
 * too. */
static struct team *get_or_make_team(void) {
    static struct team none = {.size = 1};
    static struct thread *only[1];
    if (!me->team) {
        only[0] = me;
        none.threads = only;
        free_constructs(&none);
        none.works_made = 0;
        me->work_number = 0;
        me->team = &none;
    }
    return me->team;
}

/* What a directive's schedule and the compiler's call say of a loop. */
struct loop_schedule {
    bool is_static, is_ordered;
    long
        line; /* of the directive: it stands in the chunk, with the program's own one above LINES (weft.openmp.directives) */
    uintptr_t place;
};
#define LINES (1 << 24)

/* What the schedules of the last so many loops deal out. */
static struct dealing {
    uint32_t loop;
    int64_t chunk; /* 0: none is known */
    uint64_t start, step, count;
} dealings[4096];

static struct dealing *find_dealing(uint32_t loop) {
    return &dealings[loop / 2 % (sizeof dealings / sizeof *dealings)];
}

/* Return whether two loops with schedule(static) give iteration `index` to the same thread (OpenMP 5.2, 11.5.3): same
 * logical iteration, and same chunk size, or none and equal iteration counts. True if a schedule is not known. */
bool are_dealt_to_same_thread(uint32_t loop, uint32_t other_loop, int64_t index) {
    const struct dealing *dealing = find_dealing(loop), *other_dealing = find_dealing(other_loop);
    if (dealing->loop != loop || other_dealing->loop != other_loop) return true;
    if (dealing->chunk != other_dealing->chunk || (!dealing->chunk && dealing->count != other_dealing->count))
        return false;
    return ((uint64_t)index - dealing->start) * other_dealing->step ==
           ((uint64_t)index - other_dealing->start) * dealing->step;
}

/* Return the number of an iteration in its loop, from 0 on; -1 if it is not known. */
int64_t find_iteration_number(uint32_t loop, int64_t index) {
    const struct dealing *dealing = find_dealing(loop);
    return dealing->loop == loop && dealing->step ? (index - (int64_t)dealing->start) / (int64_t)dealing->step : -1;
}

/* Return the chunk size if both iterations of a loop are in one chunk, which one thread executes (OpenMP 5.2, 11.5.3);
 * else 0. */
int64_t find_shared_chunk_size(uint32_t loop, int64_t index, int64_t other_index) {
    const struct dealing *dealing = find_dealing(loop);
    if (dealing->loop != loop || dealing->chunk < 2) return 0;
    return find_iteration_number(loop, index) / dealing->chunk ==
                   find_iteration_number(loop, other_index) / dealing->chunk
               ? dealing->chunk
               : 0;
}

/* Return how many iterations a loop has. */
static uint64_t count_iterations(uint64_t start, uint64_t end, uint64_t step, bool counts_up) {
    uint64_t span = counts_up ? end - start : start - end, distance = counts_up ? step : -step;
    bool has_any = counts_up ? (int64_t)end > (int64_t)start : (int64_t)start > (int64_t)end;
    return has_any ? (span + distance - 1) / distance : 0;
}

/* Enter a worksharing loop and return it; the first thread of the team fills in its iteration space and schedule. */
static struct work *begin_loop(uint64_t start, uint64_t end, uint64_t step, bool counts_up,
                               struct loop_schedule schedule) {
    bool is_first;
    if (me->work && me->work->is_whole && !me->work->begun) {
        *me->work = (struct work){.is_whole = true,
                                  .begun = true,
                                  .start = start,
                                  .step = step,
                                  .count = count_iterations(start, end, step, counts_up)};
        return me->work;
    }
    get_or_make_team();
    struct work *work = find_or_create_construct(&is_first);
    me->work = work;
    me->next_row = 0;
    me->iteration = -1;
    if (is_first) {
        work->start = start;
        work->step = step;
        work->count = count_iterations(start, end, step, counts_up);
        work->loop = (last_loop += 2) | schedule.is_static;
        work->is_static = schedule.is_static;
        work->ordered = schedule.is_ordered;
        work->lanes = me->team->lanes;
        work->safelen = work->lanes ? (int)(me->team->lanes - LANES) : 0;
        bool has_very_many =
            work->count / (uint64_t)me->team->size >= VERY_MANY && !schedule.is_ordered && !me->team->number_asked;
        work->part_bits = has_very_many || work->lanes ? PART_BITS : 0;
        work->begun = true;
        work->place = place_of(schedule.place);
        note_directive_line(work->place, (uint32_t)(schedule.line % LINES));
        count_construct_run(work->place, "loop", work->count);
        *find_dealing(work->loop) =
            (struct dealing){work->loop, schedule.line < 0 ? 0 : schedule.line / LINES, start, step, work->count};
    }
    return work;
}

/* Return the strand of the running thread from which its iterations and sections branch off. */
static strand_t find_sharing_strand(void) {
    strand_t strand = find_whole_strand(me->plain);
    while (node(strand)->kind == ITERATION || node(strand)->kind == LANE || node(strand)->kind == SECTION ||
           node(strand)->kind == SINGLE)
        strand = node(strand)->parent;
    return strand;
}

#define SHARED 64 /* iterations of one thread in a strand, where there would be too many */

/* Return whether the next iteration may share the previous one's strand, because that one touched no memory or there
 * are too many strands. */
static bool may_next_iteration_share_strand(const struct work *work) {
    if (me->iteration < 0 || me->plain != me->current || (now.touched && !has_too_many_strands())) return false;
    const struct node *strand_node = node(me->plain);
    if ((strand_node->kind != ITERATION && strand_node->kind != LANE) || strand_node->loop != work->loop) return false;
    if (!now.touched && me->plain == now.next - 1) return true;
    if (!has_too_many_strands() || me->next_row % SHARED == 0) return false;
    report_plain_finding("left", "crowd", work->place, 0);
    return true;
}

/* Begin an iteration in a strand of its own; `goes_on`: in that of the previous one. */
static void begin_iteration(struct work *work, int64_t number, bool goes_on) {
    if (is_team_of_one() && !work->lanes) return;
    int64_t index = work->lanes ? number : (int64_t)(work->start + (uint64_t)number * work->step);
    if (goes_on) {
        if (!now.touched) set_share_index(me->plain, index);
        return;
    }
    if (now.touched && begin_next_of_row(work->loop, index)) return;
    now.touched = false;
    bool follows = me->plain == now.next - 1 && now.series.end == now.next && now.series.loop == work->loop;
    strand_t strand = create_share(follows ? now.series.parent : find_sharing_strand(), work, index);
    bool continues_row = now.row_end == strand && now.row >= now.base && now.row_loop == work->loop;
    if (!continues_row) {
        now.row = strand;
        now.row_mark = now.mark;
        now.row_loop = work->loop;
    }
    now.row_end = now.next;
    me->plain = strand;
    now.keeps_calm = work->lanes;
    refresh_locked_strand();
    now.atomic_since = now.atomic;
}

/* Leave a loop or sections construct: the running thread continues in the strand that it had before. */
static void leave_loop(void) {
    if (!me->work || me->iteration < 0) return;
    strand_t strand = find_sharing_strand();
    if (strand < now.base) return;
    me->plain = strand;
    now.keeps_calm = me->work->lanes;
    refresh_locked_strand();
    me->iteration = -1;
}

/* Return the remainder of a division; that of small numbers takes the processor less. */
static inline int64_t find_remainder(uint64_t number, uint32_t divisor) {
    return number <= UINT32_MAX ? (uint32_t)number % divisor : (int64_t)(number % divisor);
}

/* Return the number of the running thread's next iteration; a number not below the count means that none is left.
 * Iterations are dealt to the threads in turn, singly or in parts of 1024, each round starting with another thread, so
 * that no fixed distance between two iterations always means the same thread. */
static int64_t find_next_iteration(const struct work *work) {
    int64_t threads = me->team->size, shift = work->is_static ? 0 : 1, part = (int64_t)1 << work->part_bits;
    for (;;) {
        int64_t share = me->next_row++;
        if (share & (part - 1)) return me->iteration + 1;
        uint64_t row = (uint64_t)share >> work->part_bits;
        int64_t first = (int64_t)row * threads, behind = find_remainder(row + (uint64_t)shift, (uint32_t)threads);
        int64_t number = (first + me->number - behind + (me->number < behind ? threads : 0)) * part;
        if (number < (int64_t)work->count || first * part >= (int64_t)work->count) return number;
        me->next_row += part - 1;
    }
}

/* Begin the running thread's next iteration within a part, if it follows the previous one in a row, and store its bounds
 * in `*low` and `*high`. Return whether it has begun. */
static inline bool begin_next_of_part(struct work *work, uint64_t *low, uint64_t *high) {
    int64_t number = me->iteration + 1;
    if (!(me->next_row & (((int64_t)1 << work->part_bits) - 1)) || number >= (int64_t)work->count || work->cancelled ||
        !now.touched || has_too_many_strands())
        return false;
    uint64_t first = work->start + (uint64_t)number * work->step;
    if (!begin_next_of_row(work->loop, work->lanes ? number : (int64_t)first)) return false;
    me->next_row++;
    me->iteration = number;
    *low = first;
    *high = first + work->step;
    return true;
}

/* Store the bounds of all iterations of a loop that runs as one; false the second time, or if there are none. */
static bool begin_whole_loop(struct work *work, uint64_t *low, uint64_t *high) {
    *low = work->start;
    *high = work->start + work->count * work->step;
    return !work->taken++ && work->count;
}

/* Begin the running thread's next iteration, which any of the loop's may be, in a strand of its own or in that of the
 * previous one. */
static __attribute__((noinline)) bool begin_dealt_iteration(uint64_t *low, uint64_t *high) {
    struct work *work = me->work;
    if (work->is_whole) return begin_whole_loop(work, low, high);
    int64_t number = work->cancelled ? (int64_t)work->count : find_next_iteration(work);
    set_bounds(NULL, NULL);
    if (number >= (int64_t)work->count) {
        leave_loop();
        return false;
    }
    bool goes_on = may_next_iteration_share_strand(work);
    me->iteration = number;
    *low = work->start + (uint64_t)number * work->step;
    *high = *low + work->step;
    begin_iteration(work, number, goes_on);
    set_bounds(low, high);
    return true;
}

/* Begin the running thread's next iteration and store its bounds in `*low` and `*high`; return false at the end of the
 * loop. */
static inline bool begin_next_iteration(uint64_t *low, uint64_t *high) {
    return begin_next_of_part(me->work, low, high) || begin_dealt_iteration(low, high);
}

/* Begin a loop with a signed variable and the running thread's first iteration of it; false if it has none. */
static bool start_loop(long start, long end, long step, struct loop_schedule schedule, long *low, long *high) {
    begin_loop((uint64_t)start, (uint64_t)end, (uint64_t)step, step > 0, schedule);
    return begin_next_iteration((uint64_t *)low, (uint64_t *)high);
}

typedef unsigned long long ull;

/* Begin a loop with an unsigned variable and the running thread's first iteration of it; false if it has none. */
static bool start_unsigned_loop(bool counts_up, ull start, ull end, ull step, struct loop_schedule schedule, ull *low,
                                ull *high) {
    /* Signs are turned, so that the numbers compare as signed ones do. */
    struct work *work = begin_loop(start, end, step, counts_up, schedule);
    if (me->next_row == 0 && work->begun)
        work->count = (counts_up ? end > start : start > end)
                          ? (counts_up ? end - start + step - 1 : start - end - step - 1) / (counts_up ? step : -step)
                          : 0;
    return begin_next_iteration((uint64_t *)low, (uint64_t *)high);
}

#define NEXT(name)                                                                                                     \
    bool GOMP_loop_##name##_next(long *a, long *b) { return begin_next_iteration((uint64_t *)a, (uint64_t *)b); }      \
    bool GOMP_loop_ull_##name##_next(ull *a, ull *b) { return begin_next_iteration((uint64_t *)a, (uint64_t *)b); }
#define LOOP(name, is_static, is_ordered)                                                                              \
    bool GOMP_loop_##name##_start(long s, long e, long i, long c, long *a, long *b) {                                  \
        return start_loop(s, e, i, (struct loop_schedule){is_static, is_ordered, c, PLACE}, a, b);                     \
    }                                                                                                                  \
    bool GOMP_loop_ull_##name##_start(bool up, ull s, ull e, ull i, ull c, ull *a, ull *b) {                           \
        return start_unsigned_loop(up, s, e, i, (struct loop_schedule){is_static, is_ordered, (long)c, PLACE}, a, b);  \
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
        return start_loop(s, e, i, (struct loop_schedule){false, is_ordered, 0, PLACE}, a, b);                         \
    }                                                                                                                  \
    bool GOMP_loop_ull_##name##_start(bool up, ull s, ull e, ull i, ull *a, ull *b) {                                  \
        return start_unsigned_loop(up, s, e, i, (struct loop_schedule){false, is_ordered, 0, PLACE}, a, b);            \
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
    struct loop_schedule schedule;
    unsigned sections;
};

/* Run one thread's part of a `parallel for` or `parallel sections`: enter the construct, then call the body. */
static void run_combined_construct(void *data) {
    struct combined *combined = data;
    if (combined->sections) {
        bool is_first;
        me->work = find_or_create_construct(&is_first);
        me->iteration = -1;
        me->work->count = combined->sections;
        if (is_first) {
            me->work->loop = last_loop += 2;
            me->work->place = place_of(combined->schedule.place);
        }
    } else {
        begin_loop((uint64_t)combined->start, (uint64_t)combined->end, (uint64_t)combined->step, combined->step > 0,
                   combined->schedule);
    }
    combined->function(combined->data);
}

#define ALL_RUNS 1024 /* of a simd loop, whose lanes are compared one by one */

/* Return whether a run of a simd loop is one of those in which its lanes count as one; one of 32 is not. */
static bool are_lanes_one(uint64_t run) { return run > ALL_RUNS && (uint32_t)run * 2654435761u >> 27; }

/* Run a simd loop as a part of the strand around it, if this run is one of those: return whether it has run. */
bool run_lanes_as_one(void (*function)(void *), void *data, uintptr_t place) {
    if (!are_lanes_one(count_construct_run(place_of(place), "simd", 0))) return false;
    struct work *outer = me->work, whole = {.is_whole = true};
    int64_t iteration = me->iteration, next_row = me->next_row;
    report_plain_finding("left", "lanes", place_of(place), 0);
    me->work = &whole;
    me->iteration = -1;
    me->next_row = 0;
    function(data);
    me->work = outer;
    me->iteration = iteration;
    me->next_row = next_row;
    return true;
}

/* Run a `parallel for`: a parallel region whose threads all enter the loop first. */
static void run_combined_loop(void (*fn)(void *), void *data, unsigned thread_count, long start, long end, long step,
                              struct loop_schedule schedule, uintptr_t frame) {
    struct combined construct = {fn, data, start, end, step, schedule, 0};
    if (thread_count >= LANES && run_lanes_as_one(run_combined_construct, &construct, schedule.place)) return;
    run_parallel_region(run_combined_construct, &construct, thread_count, schedule.place, frame, false);
}

#define COMBINED(name, is_static)                                                                                      \
    void GOMP_parallel_loop_##name(void (*fn)(void *), void *d, unsigned n, long s, long e, long i, long c,            \
                                   unsigned f) {                                                                       \
        (void)f;                                                                                                       \
        run_combined_loop(fn, d, n, s, e, i, (struct loop_schedule){is_static, false, c, BEGINNING(fn)}, FRAME);       \
    }
COMBINED(dynamic, false)
COMBINED(guided, true)
COMBINED(nonmonotonic_dynamic, false)
COMBINED(nonmonotonic_guided, true)

/* Called by GCC's code at the end of a loop: leave it and wait at its barrier. */
void GOMP_loop_end(void) {
    leave_loop();
    wait_at_barrier(PLACE);
}
void GOMP_loop_end_nowait(void) { leave_loop(); }

/* Called by GCC's code at the end of a cancellable loop: wait at its barrier and return whether the region was
 * cancelled. */
bool GOMP_loop_end_cancel(void) {
    leave_loop();
    wait_at_barrier(PLACE);
    return me->team && me->team->cancelled;
}

/* --- sections and single ----------------------------------------------------------------------------------------- */

/* Begin the next section that no thread has taken and return its number, from 1 on; 0 if none is left. */
static unsigned begin_next_section(void) {
    struct work *work = me->work;
    yield_to_other_threads();
    me->work = work;
    if (work->taken >= work->count || work->cancelled) {
        leave_loop();
        return 0;
    }
    int64_t number = (int64_t)work->taken++;
    me->iteration = number;
    begin_iteration(work, number, false);
    if (!is_team_of_one()) {
        node(find_whole_strand(me->plain))->kind = SECTION;
        weft_order_version++;
        node(find_whole_strand(me->plain))->index = number;
    }
    return (unsigned)number + 1;
}

/* Called by GCC's code for `sections`: enter the construct and return the running thread's first section; 0 if none is
 * left. */
unsigned GOMP_sections_start(unsigned count) {
    bool is_first;
    get_or_make_team();
    me->work = find_or_create_construct(&is_first);
    me->iteration = -1;
    if (is_first) {
        me->work->count = count;
        me->work->loop = last_loop += 2;
        me->work->place = place_of(PLACE);
        count_construct_run(place_of(PLACE), "loop", count);
    }
    return begin_next_section();
}
unsigned GOMP_sections_next(void) { return begin_next_section(); }

/* Called by GCC's code for `parallel sections`: run a region whose threads all enter the sections first. */
void GOMP_parallel_sections(void (*fn)(void *), void *data, unsigned thread_count, unsigned count, unsigned flags) {
    (void)flags;
    struct combined construct = {.function = fn, .data = data, .sections = count, .schedule.place = BEGINNING(fn)};
    count_construct_run(place_of(BEGINNING(fn)), "loop", count);
    run_parallel_region(run_combined_construct, &construct, thread_count, BEGINNING(fn), FRAME, false);
}

/* Called by GCC's code at the end of sections: leave them and wait at their barrier. */
void GOMP_sections_end(void) {
    leave_loop();
    wait_at_barrier(PLACE);
}
void GOMP_sections_end_nowait(void) { leave_loop(); }

/* Called by GCC's code at the end of cancellable sections: wait at their barrier and return whether the region was
 * cancelled. */
bool GOMP_sections_end_cancel(void) {
    leave_loop();
    wait_at_barrier(PLACE);
    return me->team && me->team->cancelled;
}

/* Return whether the running thread executes a `single` construct: the first thread that encounters it does, in a
 * strand of its own. */
static bool begin_single(uint32_t place) {
    bool is_first;
    get_or_make_team();
    struct work *work = find_or_create_construct(&is_first);
    if (!is_first) return false;
    work->place = place;
    count_construct_run(place, "single", 1);
    if (is_team_of_one()) return true;
    strand_t strand = create_strand(find_sharing_strand(), SINGLE, 0);
    node(strand)->index = me->number;
    node(strand)->place = place;
    node(strand)->loop = last_loop += 2;
    me->plain = strand;
    refresh_locked_strand();
    return true;
}

bool GOMP_single_start(void) { return begin_single(place_of(PLACE)); }

/* Called by GCC's code for `single copyprivate`: return NULL in the thread that executes it; the others wait and get
 * its data. */
void *GOMP_single_copy_start(void) {
    if (begin_single(place_of(PLACE))) return NULL;
    wait_at_barrier(PLACE);
    return me->team->copied;
}

/* Called by GCC's code at the end of `single copyprivate`: pass the executing thread's data to the others. */
void GOMP_single_copy_end(void *data) {
    me->team->copied = data;
    wait_at_barrier(PLACE);
}

/* --- ordered and doacross ---------------------------------------------------------------------------------------- */

/* Called by GCC's code at the start of an `ordered` block: wait for the iteration's turn, and order the block after the
 * previous one. */
void GOMP_ordered_start(void) {
    struct work *work = me->work;
    if (!work || is_team_of_one()) return;
    while (work->turn < me->iteration) {
        /* Iterations that have no ordered block pass their turn when their thread goes on. */
        yield_to_other_threads();
        int64_t least_iteration = work->count ? (int64_t)work->count : 0;
        for (int i = 0; i < me->team->size; i++) {
            struct thread *thread = me->team->threads[i];
            if (thread != me && thread->work == work && thread->iteration >= 0 && thread->state == READY &&
                thread->iteration < least_iteration)
                least_iteration = thread->iteration;
        }
        bool has_earlier = false;
        for (int i = 0; i < me->team->size; i++) {
            struct thread *thread = me->team->threads[i];
            if (thread != me && thread->state == READY && (thread->work != work || thread->iteration < me->iteration))
                has_earlier = true;
        }
        if (!has_earlier) work->turn = me->iteration;
    }
    strand_t last = work->last_ordered;
    begin_segment();
    if (last >= now.base) order_strand_after(me->plain, last, work->last_node);
    hold_lock_number(ORDERED_LOCK);
}

/* Called by GCC's code at the end of an `ordered` block: give the turn to the next iteration. */
void GOMP_ordered_end(void) {
    struct work *work = me->work;
    if (!work || is_team_of_one()) return;
    unhold_lock_number(ORDERED_LOCK);
    work->last_ordered = me->plain;
    work->last_node = now.next - 1;
    begin_segment();
    work->turn = me->iteration + 1;
    yield_to_other_threads();
}

/* Begin a loop nest with `ordered(n)`, whose iterations wait for each other by `depend(sink)`, and the running thread's
 * first iteration. `counts`: iterations of each dimension. False if the thread has none. */
static bool start_doacross_loop(unsigned dimensions, const long *counts, struct loop_schedule schedule, long *low,
                                long *high) {
    struct work *work = begin_loop(0, (uint64_t)counts[0], 1, true, schedule);
    work->part_bits = 0;
    if (!work->posted) {
        uint64_t iteration_count = 1;
        work->dimensions = dimensions;
        for (unsigned i = 0; i < dimensions && i < 16; i++) {
            work->counts[i] = (uint64_t)counts[i];
            iteration_count *= work->counts[i];
        }
        work->posted = calloc(iteration_count + 1, 1);
        work->post = calloc(iteration_count + 1, sizeof *work->post);
    }
    return begin_next_iteration((uint64_t *)low, (uint64_t *)high);
}

#define DOACROSS(name, is_static)                                                                                      \
    bool GOMP_loop_doacross_##name##_start(unsigned n, long *counts, long c, long *a, long *b) {                       \
        return start_doacross_loop(n, counts, (struct loop_schedule){is_static, false, c, PLACE}, a, b);               \
    }
DOACROSS(dynamic, false)
DOACROSS(guided, true)

/* Return the linear number of an iteration of a doacross loop nest from its indices. */
static int64_t find_doacross_number(const struct work *work, const long *index) {
    int64_t number = 0;
    for (unsigned i = 0; i < work->dimensions; i++) number = number * (int64_t)work->counts[i] + index[i];
    return number;
}

/* Record that an iteration executes `depend(source)`: everything it did so far happens before the iterations that wait
 * for it. */
static void post_iteration(struct work *work, int64_t number) {
    work->posted[number] = 1;
    work->post[number] = (struct node_range){me->plain, now.next - 1};
    begin_segment();
    wake_waiting_threads(&work->posted[number]);
}

void GOMP_doacross_post(long *index) {
    if (me->work && me->work->posted && !is_team_of_one())
        post_iteration(me->work, find_doacross_number(me->work, index));
}

/* Wait until the iteration with these indices has posted (`depend(source)`), and order the running one after it.
 * Out-of-range indices are ignored. */
static void wait_for_posted_iteration(struct work *work, const long *index, uint32_t place) {
    int64_t number = find_doacross_number(work, index);
    for (unsigned i = 0; i < work->dimensions; i++)
        if (index[i] < 0 || (uint64_t)index[i] >= work->counts[i]) return;
    while (!work->posted[number]) wait_until_woken(&work->posted[number], place);
    begin_segment();
    order_strand_after(me->plain, work->post[number].node, work->post[number].last);
}

/* Called by GCC's code for `depend(sink: …)`: wait for the iteration with the given indices. */
void GOMP_doacross_wait(long first, ...) {
    struct work *work = me->work;
    if (!work || !work->posted || is_team_of_one()) return;
    long index[16] = {first};
    __builtin_va_list arguments;
    __builtin_va_start(arguments, first);
    for (unsigned i = 1; i < work->dimensions && i < 16; i++) index[i] = __builtin_va_arg(arguments, long);
    __builtin_va_end(arguments);
    wait_for_posted_iteration(work, index, place_of(PLACE));
}

/* --- the general forms ------------------------------------------------------------------------------------------- */

/* Replace `*memory`, which holds a size in bytes, by a block of that size that all threads of the construct share.
 * NULL: none is wanted. */
static void provide_shared_memory(struct work *work, uintptr_t *reductions, void **memory) {
    if (memory) {
        size_t size = (size_t)(uintptr_t)*memory;
        if (!work->memory && size) {
            work->memory = calloc(1, size);
            ignore_memory((uintptr_t)work->memory, (uintptr_t)work->memory + size);
        }
        *memory = work->memory;
    }
    (void)reductions;
}

/* Begin a loop by GCC's number of its schedule (0 runtime, 1 static, 2 dynamic, 3 guided), with shared memory if
 * wanted, and the running thread's first iteration. */
static bool start_general_loop(long start, long end, long step, long schedule, struct loop_schedule directive,
                               long *low, long *high, uintptr_t *reductions, void **memory) {
    directive.is_static = (schedule & 0xff) == 3;
    struct work *work = begin_loop((uint64_t)start, (uint64_t)end, (uint64_t)step, step > 0, directive);
    provide_shared_memory(work, reductions, memory);
    return low ? begin_next_iteration((uint64_t *)low, (uint64_t *)high) : true;
}

/* Called by GCC's code for a loop with task reductions or shared memory: begin it and the running thread's first
 * iteration. */
bool GOMP_loop_start(long start, long end, long step, long schedule, long chunk, long *low, long *high,
                     uintptr_t *reductions, void **memory) {
    return start_general_loop(start, end, step, schedule, (struct loop_schedule){.line = chunk, .place = PLACE}, low,
                              high, reductions, memory);
}

/* Called by GCC's code for an ordered loop with task reductions or shared memory: begin it and the running thread's
 * first iteration. */
bool GOMP_loop_ordered_start(long start, long end, long step, long schedule, long chunk, long *low, long *high,
                             uintptr_t *reductions, void **memory) {
    struct loop_schedule directive = {.is_ordered = true, .line = chunk, .place = PLACE};
    return start_general_loop(start, end, step, schedule, directive, low, high, reductions, memory);
}

/* Called by GCC's code for a doacross loop nest with task reductions or shared memory: begin it and the running
 * thread's first iteration. */
bool GOMP_loop_doacross_start(unsigned dimensions, long *counts, long schedule, long chunk, long *low, long *high,
                              uintptr_t *reductions, void **memory) {
    bool has_iteration = start_doacross_loop(
        dimensions, counts, (struct loop_schedule){(schedule & 0xff) == 3, false, chunk, PLACE}, low, high);
    provide_shared_memory(me->work, reductions, memory);
    return has_iteration;
}
