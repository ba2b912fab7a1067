/* A parallel loop, run by one processor after the other: see turns.h. */
#include "growing.h"
#include "turns.h"

#include "loops.h"
#include "objects.h"
#include "ownership.h"
#include "sites.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PENDING = 1024, RECORDS = 512, MOST_WRITTEN = 256 };

bool weft_traced;
int weft_access_level;

static int processors;
static bool directed; /* directives mean something: else the program runs as it is, as one processor */
static int me;         /* the processor that this process is in this loop */
static bool running;   /* in a loop that is traced */
static bool turning;   /* ... which is run in turn */
static bool child, finding;
static bool open;      /* an iteration of `me` has begun */
static int (*whose)(void); /* of shared memory: whose iteration this is; NULL: ON says so */
static int order[MOST_PROCESSORS];
static int direction[WEFT_MAX_RANK];

static struct {
    uintptr_t at, place;
    uint32_t size;
} pending[PENDING]; /* written in this iteration: read when it has ended, as hooks come before the store */
static int pending_count;

static struct object *written[MOST_WRITTEN]; /* distributed arrays, in this loop */
static int written_count;

static struct {
    double last, magnitude;
    int64_t terms;
} sums[MAX_CLAUSES]; /* what iterations added to each reduction */

static void *starts, *parts[MOST_PROCESSORS]; /* reductions before the loop, and what each processor has left */

void turns_begin(int count, bool directives) {
    processors = count;
    directed = directives;
    weft_traced = true;
}

/* --- shared memory --- */

/* What a processor wrote, and slots of reductions: these values are the memory's when all have had their turn. */
static struct stored {
    char *at;
    size_t bytes;
} *stores;
static size_t store_count, store_room;
static int slot_count;
static struct {
    int processor;
    struct stored part;
} slots[MAX_CLAUSES * 4];
static char *results; /* of processors that have had theirs: address, number of bytes, bytes, one behind the other */
static size_t results_used, results_room;

void turns_shared(int (*of)(void)) { whose = of; }

void turns_slot(int processor, char *at, size_t bytes) {
    if (!weft_traced || slot_count == (int)(sizeof slots / sizeof *slots)) return;
    slots[slot_count].processor = processor;
    slots[slot_count].part.at = at;
    slots[slot_count++].part.bytes = bytes;
}

static void note_store(uintptr_t at, size_t bytes) {
    if (store_count && stores[store_count - 1].at == (char *)at && stores[store_count - 1].bytes == bytes) return;
    GROW(stores, store_count, store_room, 4096);
    stores[store_count].at = (char *)at;
    stores[store_count++].bytes = bytes;
}

static void add_result(const void *at, size_t bytes) {
    while (results_used + bytes > results_room) GROW(results, results_room, results_room, 1 << 16);
    memcpy(results + results_used, at, bytes);
    results_used += bytes;
}

static void add_store(const struct stored *one) {
    add_result(one, sizeof *one);
    add_result(one->at, one->bytes);
}

/* This processor's stores become results, as do its slots. */
static void collect_stores(int processor) {
    for (size_t i = 0; i < store_count; i++) add_store(&stores[i]);
    for (int i = 0; i < slot_count; i++)
        if (slots[i].processor == processor) add_store(&slots[i].part);
    store_count = 0;
}

static void apply_results(void) {
    for (size_t at = 0; at < results_used;) {
        struct stored one;
        memcpy(&one, results + at, sizeof one);
        memcpy(one.at, results + at + sizeof one, one.bytes);
        at += sizeof one + one.bytes;
    }
    results_used = 0;
}

/* --- the pipe --- */

static int channel = -1;
static struct turn_event_record buffer[RECORDS];
static size_t buffered;

static void write_all(const void *bytes, size_t n) {
    for (const char *from = bytes; n;) {
        ssize_t some = write(channel, from, n);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) _exit(1);
        from += some;
        n -= (size_t)some;
    }
}

static void flush_events(void) {
    write_all(buffer, buffered * sizeof *buffer);
    buffered = 0;
}

static bool read_all(void *bytes, size_t n) {
    for (char *to = bytes; n;) {
        ssize_t some = read(channel, to, n);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) return false;
        to += some;
        n -= (size_t)some;
    }
    return true;
}

static void send_event(const struct turn_event_record *e) {
    if (!child) {
        trace_event(me, e);
        return;
    }
    buffer[buffered++] = *e;
    if (buffered == RECORDS) flush_events();
}

/* --- iterations and accesses --- */

static void send_access(uint32_t what, uintptr_t at, uint32_t size, uintptr_t place) {
    struct turn_event_record e = {.what = what, .n = size, .place = place, .at = at};
    memcpy(e.bytes, (void *)at, size);
    send_event(&e);
}

static void send_pending_accesses(void) {
    for (int i = 0; i < pending_count; i++) send_access(TURN_WRITE, pending[i].at, pending[i].size, pending[i].place);
    pending_count = 0;
}

static bool is_floating_sum(const struct reduction *r) {
    return r->operation == WEFT_SUM && r->count == 1 && r->type >= WEFT_FLOAT && r->type <= WEFT_LONG_DOUBLE;
}

static void close_iteration(void) {
    if (!open) return;
    open = false;
    send_pending_accesses();
    for (int i = 0; i < here.reduction_count; i++) {
        if (!is_floating_sum(&here.reductions[i])) continue;
        double added = reduction_value(&here.reductions[i]) - sums[i].last;
        sums[i].magnitude += added < 0 ? -added : added;
        sums[i].terms++;
    }
}

/* Which way the loop runs: the first step of each index says so. */
static void note_directions(int rank, const int64_t index[]) {
    static int64_t last[WEFT_MAX_RANK];
    static bool seen;
    bool all = seen;
    for (int k = 0; k < rank; k++) {
        if (seen && !direction[k] && index[k] != last[k]) direction[k] = index[k] > last[k] ? 1 : -1;
        last[k] = index[k];
        all &= direction[k] != 0;
    }
    seen = true;
    if (!all) return;
    write_all(direction, sizeof direction);
    _exit(0);
}

bool turns_iteration(int rank, const int64_t index[]) {
    close_iteration();
    if (finding) note_directions(rank, index);
    if (finding || (turning && (whose ? whose() % processors != me : !runs_iteration(index)))) return true;
    open = true;
    for (int i = 0; i < here.reduction_count; i++)
        if (is_floating_sum(&here.reductions[i])) sums[i].last = reduction_value(&here.reductions[i]);
    struct turn_event_record e = {.what = TURN_ITERATION, .n = (uint32_t)rank};
    memcpy(e.index, index, sizeof *index * (size_t)rank);
    send_event(&e);
    return false;
}

static void note_written(struct object *o) {
    for (int i = 0; i < written_count; i++)
        if (written[i] == o) return;
    if (written_count < MOST_WRITTEN) written[written_count++] = o;
}

static bool is_in_reduction(const struct reduction *r, uintptr_t a) {
    return (a >= r->low && a < r->high) || a - (uintptr_t)r->location < r->location_bytes;
}

/* Private and reduction variables, and the loop's own, are left out inside of it. */
static bool is_left_out(uintptr_t a) {
    struct private *which;
    for (int i = 0; i < here.reduction_count; i++)
        if (is_in_reduction(&here.reductions[i], a)) return true;
    return among(here.privates, here.private_count, a, &which) || among(here.indices, here.index_count, a, &which);
}

void turns_access(uintptr_t a, size_t size, bool write, uintptr_t place) {
    if (!running || finding) return;
    struct object *o = object_at(a);
    if (!o || !o->element) return;
    bool wanted = whose ? o->array : spread(o);
    if (write && wanted) note_written(o);
    if (write && whose && turning && open) note_store(a, size);
    if (!open || weft_access_level < (write ? 1 : 2) || (write && !wanted) || is_left_out(a)) return;
    for (uintptr_t end = a + size; a < end; a += o->element) {
        uintptr_t at = a - (a - o->low) % o->element;
        if (o->element > sizeof((struct turn_event_record *)0)->bytes || at + o->element > o->high) return;
        if (!write) {
            send_access(TURN_READ, at, (uint32_t)o->element, place);
            continue;
        }
        if (pending_count && pending[pending_count - 1].at == at) continue;
        if (pending_count == PENDING) send_pending_accesses();
        pending[pending_count].at = at;
        pending[pending_count].place = place;
        pending[pending_count++].size = (uint32_t)o->element;
    }
}

void turns_renewed(struct object *o) {
    if (directed) views_renew(o);
}

/* --- one processor after the other --- */

static bool fork_processor(bool look) {
    int ends[2];
    if (pipe(ends)) abort();
    pid_t pid = fork();
    if (pid < 0) abort();
    channel = ends[pid == 0];
    close(ends[pid != 0]);
    if (pid == 0) {
        child = true;
        finding = look;
        become_silent(channel);
        return true;
    }
    return false;
}

static void wait_for_child(void) {
    int status = 0;
    close(channel);
    while (wait(&status) < 0 && errno == EINTR) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) trace_ended(me, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* ACROSS passes values on from processor to processor: in the loop's direction. True in the copy that looks for it. */
static bool find_directions(void) {
    memset(direction, 0, sizeof direction);
    if (here.across_count) {
        if (fork_processor(true)) return true;
        if (!read_all(direction, sizeof direction)) memset(direction, 0, sizeof direction);
        wait_for_child();
    }
    for (int k = 0; k < WEFT_MAX_RANK; k++) direction[k] = direction[k] < 0 ? -1 : 1;
    return false;
}

/* Whether processor a comes before b in the loop's direction. */
static bool comes_before(int a, int b) {
    int one[WEFT_MAX_RANK], two[WEFT_MAX_RANK], sign[WEFT_MAX_RANK], axes = grid_place(a, one);
    grid_place(b, two);
    for (int k = 0; k < axes; k++) sign[k] = 1;
    for (int d = 0; d < here.on->rank; d++) {
        const struct term *t = &here.at[d];
        if (grid_axis(here.on, d) >= 0 && t->axis >= 0)
            sign[grid_axis(here.on, d)] = direction[t->axis] * (t->coefficient < 0 ? -1 : 1);
    }
    for (int k = 0; k < axes; k++)
        if (one[k] != two[k]) return (one[k] < two[k]) == (sign[k] > 0);
    return false;
}

static void find_order(void) {
    for (int n = 0; n < processors; n++) {
        int at = n;
        for (; at > 0 && comes_before(n, order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = n;
    }
}

static void read_run(void *with, char *at, size_t bytes) {
    bool *good = with;
    *good = *good && read_all(at, bytes);
}

static void write_run(void *with, char *at, size_t bytes) {
    (void)with;
    write_all(at, bytes);
}

/* What a processor leaves of shared memory: the arrays that it wrote, and all its stores. */
static void send_shared_memory(void) {
    send_event(&(struct turn_event_record){.what = TURN_ENDS});
    flush_events();
    write_all(&written_count, sizeof written_count);
    write_all(written, sizeof *written * (size_t)written_count);
    results_used = 0;
    collect_stores(me);
    write_all(&results_used, sizeof results_used);
    write_all(results, results_used);
    _exit(0);
}

static void receive_shared_memory(void) {
    struct object *of[MOST_WRITTEN];
    int n = 0;
    size_t bytes = 0;
    bool good = read_all(&n, sizeof n) && read_all(of, sizeof *of * (size_t)n) && read_all(&bytes, sizeof bytes);
    for (int i = 0; good && i < n; i++) note_written(of[i]);
    char *part = good ? malloc(bytes + 1) : NULL;
    if (part && read_all(part, bytes)) add_result(part, bytes);
    free(part);
}

/* What a processor leaves: the arrays that it wrote, its own elements of them, its part of each reduction. */
static void send_own_elements(void) {
    size_t bytes = reductions_bytes();
    char *part = malloc(bytes + 1);
    if (!part) _exit(1);
    send_event(&(struct turn_event_record){.what = TURN_ENDS});
    flush_events();
    write_all(&written_count, sizeof written_count);
    write_all(written, sizeof *written * (size_t)written_count);
    for (int i = 0; i < written_count; i++) share_walk(written[i], share_of(written[i], me), true, write_run, NULL);
    reductions_take(part);
    write_all(part, bytes);
    write_all(sums, sizeof *sums * (size_t)here.reduction_count);
    _exit(0);
}

static bool receive_own_elements(void) {
    struct object *of[MOST_WRITTEN];
    int n = 0;
    bool good = read_all(&n, sizeof n) && read_all(of, sizeof *of * (size_t)n);
    for (int i = 0; good && i < n; i++) {
        note_written(of[i]);
        share_walk(of[i], share_of(of[i], me), true, read_run, &good);
    }
    good = good && read_all(parts[me], reductions_bytes());
    for (int i = 0; good && i < here.reduction_count; i++) {
        double magnitude = sums[i].magnitude;
        int64_t terms = sums[i].terms;
        good = read_all(&sums[i], sizeof *sums);
        sums[i].magnitude += magnitude;
        sums[i].terms += terms;
    }
    return good;
}

static void take_turn(void) {
    struct turn_event_record e;
    while (read_all(&e, sizeof e)) {
        if (e.what == TURN_ENDS) {
            whose ? receive_shared_memory() : (void)receive_own_elements();
            return;
        }
        trace_event(me, &e);
    }
}

static void begin_turn(int processor) {
    me = processor;
    if (whose) return;
    views_install(me, direction);
    reductions_neutral();
    runs_begin(me);
}

static bool run_others(void) /* true in a copy of the process: it is one of them */
{
    for (int n = 0; n < processors - 1; n++) {
        me = order[n];
        if (fork_processor(false)) {
            begin_turn(me);
            return true;
        }
        take_turn();
        wait_for_child();
    }
    begin_turn(order[processors - 1]);
    return false;
}

static void save_starts(void) {
    size_t bytes = reductions_bytes();
    starts = malloc(bytes + 1);
    for (int p = 0; p < processors; p++) parts[p] = malloc(bytes + 1);
    if (!starts || !parts[processors - 1]) abort();
    reductions_take(starts);
    reductions_neutral();
    for (int p = 0; p < processors; p++) reductions_take(parts[p]);
    reductions_give(starts);
}

void turns_start(void) {
    running = true;
    open = false;
    pending_count = written_count = 0;
    memset(sums, 0, sizeof sums);
    turning = directed && (here.on || whose) && here.what == LOOP;
    me = 0;
    trace_loop(turning ? processors : 1);
    if (!turning) return;
    if (whose) {
        for (int p = 0; p < processors; p++) order[p] = p;
    } else {
        views_before();
        save_starts();
        if (find_directions()) return;
        find_order();
    }
    run_others();
}

/* --- the end of a loop --- */

static void combine_reductions(void) {
    reductions_take(parts[me]);
    for (int n = 0; n < processors; n++) reductions_combine(starts, parts[order[n]]);
    reductions_give(starts);
    views_restore(me);
    free(starts);
    for (int p = 0; p < processors; p++) free(parts[p]);
}

static void trace_written(struct object *o) {
    int64_t low[WEFT_MAX_RANK], count[WEFT_MAX_RANK];
    for (int p = 0; p < (turning && !whose ? processors : 1); p++) {
        const struct share *s = turning && !whose ? share_of(o, p) : NULL;
        if (s && (!s->any || !s->box)) continue;
        for (int k = 0; k < o->rank; k++) {
            low[k] = s ? s->first[k] : 0;
            count[k] = s ? s->last[k] - s->first[k] + 1 : o->extent[k];
        }
        trace_part(p, o, low, count);
    }
}

void turns_end(void) {
    if (!running) return;
    close_iteration();
    if (finding) {
        write_all(direction, sizeof direction);
        _exit(0);
    }
    if (child && whose) send_shared_memory();
    if (child) send_own_elements();
    trace_iterations_end(turning ? processors : 1);
    if (turning && whose) {
        collect_stores(me);
        apply_results();
    } else if (turning) {
        combine_reductions();
    }
    slot_count = 0;
    for (int i = 0; i < written_count; i++) trace_written(written[i]);
    for (int i = 0; i < here.reduction_count; i++)
        trace_reduction(me, &here.reductions[i], sums[i].magnitude, sums[i].terms);
    trace_loop_ends(turning ? processors : 1);
    running = turning = false;
}
