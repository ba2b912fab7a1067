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

/* Switch tracing on, with so many processors. Without directives the program runs as it is, as one processor. */
void enable_tracing(int processor_count, bool has_directives) {
    processors = processor_count;
    directed = has_directives;
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
static char *results; /* of processors that have had theirs: address, number of bytes, bytes, one after the other */
static size_t results_used, results_room;

void turns_shared(int (*of)(void)) { whose = of; }

/* Register a processor's own slot of a reduction in shared memory for the next loop. */
void add_reduction_slot(int processor, char *memory, size_t bytes) {
    if (!weft_traced || slot_count == (int)(sizeof slots / sizeof *slots)) return;
    slots[slot_count].processor = processor;
    slots[slot_count].part.at = memory;
    slots[slot_count++].part.bytes = bytes;
}

/* Note that the processor wrote to shared memory, for collect_stores. */
static void note_shared_store(uintptr_t address, size_t bytes) {
    if (store_count && stores[store_count - 1].at == (char *)address && stores[store_count - 1].bytes == bytes) return;
    GROW(stores, store_count, store_room, 4096);
    stores[store_count].at = (char *)address;
    stores[store_count++].bytes = bytes;
}

/* Append bytes to the results of processors that have had their turn. */
static void append_result_bytes(const void *values, size_t bytes) {
    while (results_used + bytes > results_room) GROW(results, results_room, results_room, 1 << 16);
    memcpy(results + results_used, values, bytes);
    results_used += bytes;
}

static void add_stored_value(const struct stored *stored) {
    append_result_bytes(stored, sizeof *stored);
    append_result_bytes(stored->at, stored->bytes);
}

/* Append all values that a processor stored, and its reduction slots, to the results. */
static void collect_stores(int processor) {
    for (size_t i = 0; i < store_count; i++) add_stored_value(&stores[i]);
    for (int i = 0; i < slot_count; i++)
        if (slots[i].processor == processor) add_stored_value(&slots[i].part);
    store_count = 0;
}

/* Write the results of all processors to the shared memory, now that all have had their turn. */
static void write_results_to_memory(void) {
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

/* Write bytes to the pipe; end the process (a forked processor) if that fails. */
static void write_to_pipe(const void *bytes, size_t byte_count) {
    for (const char *from = bytes; byte_count;) {
        ssize_t some = write(channel, from, byte_count);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) _exit(1);
        from += some;
        byte_count -= (size_t)some;
    }
}

static void flush_events(void) {
    write_to_pipe(buffer, buffered * sizeof *buffer);
    buffered = 0;
}

/* Read bytes from the pipe. Return false at its end or on an error. */
static bool read_from_pipe(void *bytes, size_t byte_count) {
    for (char *to = bytes; byte_count;) {
        ssize_t some = read(channel, to, byte_count);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) return false;
        to += some;
        byte_count -= (size_t)some;
    }
    return true;
}

/* Hand on an event: a forked processor sends it through the pipe, the process itself keeps it at once. */
static void send_event(const struct turn_event_record *event) {
    if (!child) {
        trace_event(me, event);
        return;
    }
    buffer[buffered++] = *event;
    if (buffered == RECORDS) flush_events();
}

/* --- iterations and accesses --- */

/* Send an access as an event, with the value that memory holds now. */
static void send_access(uint32_t kind, uintptr_t address, uint32_t size, uintptr_t pc) {
    struct turn_event_record event = {.what = kind, .n = size, .place = pc, .at = address};
    memcpy(event.bytes, (void *)address, size);
    send_event(&event);
}

/* Send the iteration's writes with the values that they left, now that it has ended: hooks come before the store. */
static void send_pending_accesses(void) {
    for (int i = 0; i < pending_count; i++) send_access(TURN_WRITE, pending[i].at, pending[i].size, pending[i].place);
    pending_count = 0;
}

static bool is_floating_sum(const struct reduction *reduction) {
    return reduction->operation == WEFT_SUM && reduction->count == 1 && reduction->type >= WEFT_FLOAT &&
           reduction->type <= WEFT_LONG_DOUBLE;
}

/* End the processor's iteration: send its writes and sum up what it added to reductions. */
static void end_traced_iteration(void) {
    if (!open) return;
    open = false;
    send_pending_accesses();
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        if (!is_floating_sum(&weft_construct.reductions[i])) continue;
        double added = reduction_value(&weft_construct.reductions[i]) - sums[i].last;
        sums[i].magnitude += added < 0 ? -added : added;
        sums[i].terms++;
    }
}

/* In the copy that looks for the loop's direction: note in which direction each index first moves, and when all have,
 * send the directions and exit. */
static void note_loop_directions(int dimension_count, const int64_t index[]) {
    static int64_t last[WEFT_MAX_RANK];
    static bool seen;
    bool all = seen;
    for (int k = 0; k < dimension_count; k++) {
        if (seen && !direction[k] && index[k] != last[k]) direction[k] = index[k] > last[k] ? 1 : -1;
        last[k] = index[k];
        all &= direction[k] != 0;
    }
    seen = true;
    if (!all) return;
    write_to_pipe(direction, sizeof direction);
    _exit(0);
}

/* Begin an iteration of a traced loop. Return true if it is another processor's and must be passed over. */
bool enter_traced_iteration(int dimension_count, const int64_t index[]) {
    end_traced_iteration();
    if (finding) note_loop_directions(dimension_count, index);
    if (finding || (turning && (whose ? whose() % processors != me : !is_own_iteration(index)))) return true;
    open = true;
    for (int i = 0; i < weft_construct.reduction_count; i++)
        if (is_floating_sum(&weft_construct.reductions[i]))
            sums[i].last = reduction_value(&weft_construct.reductions[i]);
    struct turn_event_record event = {.what = TURN_ITERATION, .n = (uint32_t)dimension_count};
    memcpy(event.index, index, sizeof *index * (size_t)dimension_count);
    send_event(&event);
    return false;
}

/* Note that the loop writes a distributed array. */
static void note_written_array(struct object *object) {
    for (int i = 0; i < written_count; i++)
        if (written[i] == object) return;
    if (written_count < MOST_WRITTEN) written[written_count++] = object;
}

static bool is_in_reduction(const struct reduction *reduction, uintptr_t address) {
    return (address >= reduction->low && address < reduction->high) ||
           address - (uintptr_t)reduction->location < reduction->location_bytes;
}

/* Return whether an address belongs to a private or reduction variable or a loop index: these are not traced. */
static bool is_untraced_variable(uintptr_t address) {
    struct private *which;
    for (int i = 0; i < weft_construct.reduction_count; i++)
        if (is_in_reduction(&weft_construct.reductions[i], address)) return true;
    return find_variable_at(weft_construct.privates, weft_construct.private_count, address, &which) ||
           find_variable_at(weft_construct.indices, weft_construct.index_count, address, &which);
}

/* Trace an access in a loop, element by element, if such accesses are wanted. Writes are sent when the iteration has
 * ended. */
void trace_program_access(uintptr_t address, size_t size, bool is_write, uintptr_t pc) {
    if (!running || finding) return;
    struct object *object = find_object_at(address);
    if (!object || !object->element) return;
    bool wanted = whose ? object->array : is_distributed_in_memory(object);
    if (is_write && wanted) note_written_array(object);
    if (is_write && whose && turning && open) note_shared_store(address, size);
    if (!open || weft_access_level < (is_write ? 1 : 2) || (is_write && !wanted) || is_untraced_variable(address))
        return;
    for (uintptr_t end = address + size; address < end; address += object->element) {
        uintptr_t at = address - (address - object->low) % object->element;
        if (object->element > sizeof((struct turn_event_record *)0)->bytes || at + object->element > object->high)
            return;
        if (!is_write) {
            send_access(TURN_READ, at, (uint32_t)object->element, pc);
            continue;
        }
        if (pending_count && pending[pending_count - 1].at == at) continue;
        if (pending_count == PENDING) send_pending_accesses();
        pending[pending_count].at = at;
        pending[pending_count].place = pc;
        pending[pending_count++].size = (uint32_t)object->element;
    }
}

void turns_renewed(struct object *object) {
    if (directed) views_renew(object);
}

/* --- one processor after the other --- */

/* Fork the process for one processor's turn, joined by a pipe. Return true in the copy. `finds_direction`: it only
 * finds out in which direction the loop runs. */
static bool fork_processor(bool finds_direction) {
    int ends[2];
    if (pipe(ends)) abort();
    pid_t pid = fork();
    if (pid < 0) abort();
    channel = ends[pid == 0];
    close(ends[pid != 0]);
    if (pid == 0) {
        child = true;
        finding = finds_direction;
        silence_forked_copy(channel);
        return true;
    }
    return false;
}

/* Wait until the forked processor has ended, and say so if it died or failed. */
static void wait_for_processor(void) {
    int status = 0;
    close(channel);
    while (wait(&status) < 0 && errno == EINTR) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) trace_report_death(me, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* Find out by a forked copy in which direction each index of an ACROSS loop runs, since values pass from processor to
 * processor that way. Return true in the copy. */
static bool find_loop_directions(void) {
    memset(direction, 0, sizeof direction);
    if (weft_construct.across_count) {
        if (fork_processor(true)) return true;
        if (!read_from_pipe(direction, sizeof direction)) memset(direction, 0, sizeof direction);
        wait_for_processor();
    }
    for (int k = 0; k < WEFT_MAX_RANK; k++) direction[k] = direction[k] < 0 ? -1 : 1;
    return false;
}

/* Return whether one processor has its turn before another, in the loop's direction. */
static bool does_processor_come_before(int first_processor, int second_processor) {
    int one[WEFT_MAX_RANK], two[WEFT_MAX_RANK], sign[WEFT_MAX_RANK], axes = find_grid_coordinates(first_processor, one);
    find_grid_coordinates(second_processor, two);
    for (int k = 0; k < axes; k++) sign[k] = 1;
    for (int d = 0; d < weft_construct.on->rank; d++) {
        const struct term *on_term = &weft_construct.at[d];
        if (find_grid_axis(weft_construct.on, d) >= 0 && on_term->axis >= 0)
            sign[find_grid_axis(weft_construct.on, d)] = direction[on_term->axis] * (on_term->coefficient < 0 ? -1 : 1);
    }
    for (int k = 0; k < axes; k++)
        if (one[k] != two[k]) return (one[k] < two[k]) == (sign[k] > 0);
    return false;
}

/* Sort the processors into the order of their turns. */
static void sort_processors(void) {
    for (int n = 0; n < processors; n++) {
        int at = n;
        for (; at > 0 && does_processor_come_before(n, order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = n;
    }
}

static void receive_run(void *is_good, char *memory, size_t bytes) {
    bool *good = is_good;
    *good = *good && read_from_pipe(memory, bytes);
}

static void send_run(void *unused, char *memory, size_t bytes) {
    (void)unused;
    write_to_pipe(memory, bytes);
}

/* End a forked processor of shared memory: send which arrays it wrote and all values that it stored, then exit. */
static void send_shared_memory(void) {
    send_event(&(struct turn_event_record){.what = TURN_ENDS});
    flush_events();
    write_to_pipe(&written_count, sizeof written_count);
    write_to_pipe(written, sizeof *written * (size_t)written_count);
    results_used = 0;
    collect_stores(me);
    write_to_pipe(&results_used, sizeof results_used);
    write_to_pipe(results, results_used);
    _exit(0);
}

/* Receive which arrays a processor of shared memory wrote and add the values that it stored to the results. */
static void receive_shared_memory(void) {
    struct object *of[MOST_WRITTEN];
    int n = 0;
    size_t bytes = 0;
    bool good = read_from_pipe(&n, sizeof n) && read_from_pipe(of, sizeof *of * (size_t)n) &&
                read_from_pipe(&bytes, sizeof bytes);
    for (int i = 0; good && i < n; i++) note_written_array(of[i]);
    char *part = good ? malloc(bytes + 1) : NULL;
    if (part && read_from_pipe(part, bytes)) append_result_bytes(part, bytes);
    free(part);
}

/* End a forked processor: send the arrays that it wrote, its own elements of them and its part of each reduction, then
 * exit. */
static void send_own_elements(void) {
    size_t bytes = count_reduction_bytes();
    char *part = malloc(bytes + 1);
    if (!part) _exit(1);
    send_event(&(struct turn_event_record){.what = TURN_ENDS});
    flush_events();
    write_to_pipe(&written_count, sizeof written_count);
    write_to_pipe(written, sizeof *written * (size_t)written_count);
    for (int i = 0; i < written_count; i++)
        visit_runs_of_elements(written[i], find_or_compute_share(written[i], me), true, send_run, NULL);
    copy_reductions_to(part);
    write_to_pipe(part, bytes);
    write_to_pipe(sums, sizeof *sums * (size_t)weft_construct.reduction_count);
    _exit(0);
}

/* Receive a processor's own elements into memory, and its part of each reduction. Return false if the pipe broke
 * off. */
static bool receive_own_elements(void) {
    struct object *of[MOST_WRITTEN];
    int n = 0;
    bool good = read_from_pipe(&n, sizeof n) && read_from_pipe(of, sizeof *of * (size_t)n);
    for (int i = 0; good && i < n; i++) {
        note_written_array(of[i]);
        visit_runs_of_elements(of[i], find_or_compute_share(of[i], me), true, receive_run, &good);
    }
    good = good && read_from_pipe(parts[me], count_reduction_bytes());
    for (int i = 0; good && i < weft_construct.reduction_count; i++) {
        double magnitude = sums[i].magnitude;
        int64_t terms = sums[i].terms;
        good = read_from_pipe(&sums[i], sizeof *sums);
        sums[i].magnitude += magnitude;
        sums[i].terms += terms;
    }
    return good;
}

/* Receive all events of a forked processor, then what it leaves in memory. */
static void receive_results_of_turn(void) {
    struct turn_event_record event;
    while (read_from_pipe(&event, sizeof event)) {
        if (event.what == TURN_ENDS) {
            whose ? receive_shared_memory() : (void)receive_own_elements();
            return;
        }
        trace_event(me, &event);
    }
}

/* Become a processor: show only what it sees of others' elements, begin reductions with the neutral element, and find
 * its iterations. */
static void begin_turn(int processor) {
    me = processor;
    if (whose) return;
    show_view_of_processor(me, direction);
    set_reductions_to_neutral();
    compute_own_iterations(me);
}

/* Run the loop on all processors in turn: the last one is this process, each other one a forked copy. Return true in a
 * copy. */
static bool run_processors_in_turn(void) {
    for (int n = 0; n < processors - 1; n++) {
        me = order[n];
        if (fork_processor(false)) {
            begin_turn(me);
            return true;
        }
        receive_results_of_turn();
        wait_for_processor();
    }
    begin_turn(order[processors - 1]);
    return false;
}

/* Save the reductions' values before the loop, and prepare a neutral part for each processor. */
static void save_reductions_before_loop(void) {
    size_t bytes = count_reduction_bytes();
    starts = malloc(bytes + 1);
    for (int p = 0; p < processors; p++) parts[p] = malloc(bytes + 1);
    if (!starts || !parts[processors - 1]) abort();
    copy_reductions_to(starts);
    set_reductions_to_neutral();
    for (int p = 0; p < processors; p++) copy_reductions_to(parts[p]);
    copy_reductions_from(starts);
}

/* Start a traced loop: if its iterations are distributed, run it on all processors in turn, each but the last in a
 * forked copy. */
void start_traced_loop(void) {
    running = true;
    open = false;
    pending_count = written_count = 0;
    memset(sums, 0, sizeof sums);
    turning = directed && (weft_construct.on || whose) && weft_construct.what == LOOP;
    me = 0;
    trace_loop_begins(turning ? processors : 1);
    if (!turning) return;
    if (whose) {
        for (int p = 0; p < processors; p++) order[p] = p;
    } else {
        save_arrays_before_across_loop();
        save_reductions_before_loop();
        if (find_loop_directions()) return;
        sort_processors();
    }
    run_processors_in_turn();
}

/* --- the end of a loop --- */

/* Combine all processors' parts of the reductions, in the order of their turns, and show all elements again. */
static void combine_reductions_of_processors(void) {
    copy_reductions_to(parts[me]);
    for (int n = 0; n < processors; n++) combine_reduction_buffers(starts, parts[order[n]]);
    copy_reductions_from(starts);
    undo_view_of_processor(me);
    free(starts);
    for (int p = 0; p < processors; p++) free(parts[p]);
}

/* Keep the values of an array that the loop wrote: each processor's own part, or the whole where all share memory. */
static void trace_written_array(struct object *object) {
    int64_t low[WEFT_MAX_RANK], count[WEFT_MAX_RANK];
    for (int p = 0; p < (turning && !whose ? processors : 1); p++) {
        const struct share *share = turning && !whose ? find_or_compute_share(object, p) : NULL;
        if (share && (!share->any || !share->box)) continue;
        for (int k = 0; k < object->rank; k++) {
            low[k] = share ? share->first[k] : 0;
            count[k] = share ? share->last[k] - share->first[k] + 1 : object->extent[k];
        }
        trace_array_part(p, object, low, count);
    }
}

/* End a traced loop: a forked processor sends what it leaves and exits; the process itself joins all results and keeps
 * the values. */
void end_traced_loop(void) {
    if (!running) return;
    end_traced_iteration();
    if (finding) {
        write_to_pipe(direction, sizeof direction);
        _exit(0);
    }
    if (child && whose) send_shared_memory();
    if (child) send_own_elements();
    trace_iterations_end(turning ? processors : 1);
    if (turning && whose) {
        collect_stores(me);
        write_results_to_memory();
    } else if (turning) {
        combine_reductions_of_processors();
    }
    slot_count = 0;
    for (int i = 0; i < written_count; i++) trace_written_array(written[i]);
    for (int i = 0; i < weft_construct.reduction_count; i++)
        trace_reduction(me, &weft_construct.reductions[i], sums[i].magnitude, sums[i].terms);
    trace_loop_ends(turning ? processors : 1);
    running = turning = false;
}
