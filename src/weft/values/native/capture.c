/* What the probes of a program call while `weft run` records it. A failure here ends the trace, never the program. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WEFT_CAPTURE
#include "capture.h"
#include "hash.h"
#include "include/weft.h"
#include "walk.h"
#include "writer.h"

#define VISIBLE __attribute__((visibility("default")))

enum { DEEP = 1 << 16, CHILDREN = 4096 };

/* What came under one name within an iteration; of a part, at one box of its array: a rank may have several. */
struct child {
    uint64_t box;
    uint32_t name, count; /* of a loop: its instances; of a probe: how often it was reached */
    int64_t last;
    int direction;
};

/* An open iteration; the one at the bottom is the program. */
struct frame {
    uint32_t place;
    int64_t index;
    bool off;
    int level; /* what its loop's rule says for what is inside */
    struct child *children;
    uint32_t used, room;
};

struct thread {
    struct frame *frames;
    uint32_t depth, room;
    uint16_t slot;
    bool inside; /* a signal's handler that probes, too */
};

static struct weft_values_header *header;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t thread_count;
static pthread_key_t thread_key;
static bool is_stopped;

/* ---- threads and their open iterations ---- */

/* Free a thread's state when the thread ends (destructor of the pthread key). */
static void free_thread(void *data) {
    struct thread *thread = data;
    for (uint32_t i = 0; i < thread->depth; i++) free(thread->frames[i].children);
    free(thread->frames);
    free(thread);
}

/* Open an iteration (or region) in a thread and return it; NULL without memory. */
static struct frame *open_iteration(struct thread *thread, uint32_t place, int64_t index) {
    if (thread->depth == thread->room) {
        uint32_t room = thread->room ? thread->room * 2 : 16;
        void *grown = room <= DEEP ? realloc(thread->frames, room * sizeof *thread->frames) : NULL;
        if (!grown) return NULL;
        thread->frames = grown;
        thread->room = room;
    }
    struct frame *frame = &thread->frames[thread->depth++];
    *frame = (struct frame){.place = place, .index = index, .level = WEFT_KEEP_UNSAID};
    return frame;
}

/* Return the running thread's state, created at its first probe; NULL without memory. */
static struct thread *find_or_make_thread(void) {
    struct thread *thread = pthread_getspecific(thread_key);
    if (thread) return thread;
    thread = calloc(1, sizeof *thread);
    if (!thread) return NULL;
    thread->slot = (uint16_t)__atomic_fetch_add(&thread_count, 1, __ATOMIC_RELAXED);
    if (!open_iteration(thread, 0, 0) || pthread_setspecific(thread_key, thread)) {
        free_thread(thread);
        return NULL;
    }
    return thread;
}

/* Return the counters of a loop or probe name within the current iteration, separately for each part (`box`) of its
 * array; NULL if there are too many. */
static struct child *find_or_add_child(struct frame *frame, uint32_t name, uint64_t box) {
    for (uint32_t i = 0; i < frame->used; i++)
        if (frame->children[i].name == name && frame->children[i].box == box) return &frame->children[i];
    if (frame->used == frame->room) {
        uint32_t room = frame->room ? frame->room * 2 : 8;
        if (room > CHILDREN) return NULL; /* each is looked for among all */
        void *grown = realloc(frame->children, room * sizeof *frame->children);
        if (!grown) return NULL;
        frame->children = grown;
        frame->room = room;
    }
    struct child *child = &frame->children[frame->used++];
    *child = (struct child){.name = name, .box = box};
    return child;
}

/* ---- what programs call: native ones by weft_values_entries, Python by name ---- */

VISIBLE uint32_t weft_values_place(int kind, const char *name, const char *file, uint32_t line, const char *function);
VISIBLE void weft_values_enter(uint32_t number, int64_t index);
VISIBLE void weft_values_nest(uint32_t number, int64_t index);
VISIBLE void weft_values_leave(uint32_t number);
VISIBLE void weft_values_probe(uint32_t number, const struct weft_array *array);

/* Begin a call from the program: take the lock and return the thread's state. NULL if nothing is recorded, or in a
 * signal handler that interrupted another call. */
static struct thread *begin_call(void) {
    if (is_stopped || !header) return NULL;
    struct thread *thread = find_or_make_thread();
    if (!thread || thread->inside) return NULL;
    thread->inside = true;
    pthread_mutex_lock(&lock);
    return thread;
}

static void end_call(struct thread *thread) {
    pthread_mutex_unlock(&lock);
    thread->inside = false;
}

/* Return the number of a place (a probe, loop or region of the program); 0 if nothing is recorded. */
uint32_t weft_values_place(int kind, const char *name, const char *file, uint32_t line, const char *function) {
    struct thread *thread = begin_call();
    if (!thread) return 0;
    uint32_t number =
        weft_find_or_add_place(thread->slot, kind, name, file ? file : "", line, function ? function : "");
    end_call(thread);
    return number;
}

/* Return whether a rule records the iteration with this index on this rank. */
static bool is_index_wanted(const struct weft_rule *rule, int64_t index) {
    return rule->here && index >= rule->first && index <= rule->last &&
           (index - (rule->first == INT64_MIN ? 0 : rule->first)) % rule->step == 0;
}

/* Close the innermost open iteration of a thread. */
static void close_innermost_iteration(struct thread *thread) {
    struct frame *frame = &thread->frames[--thread->depth];
    free(frame->children);
    if (!frame->off) weft_write_record(thread->slot, WEFT_VALUE_LEAVE, frame->place, NULL, 0);
}

/* Close the innermost open iteration of a loop, with everything open inside it. Return false if the loop is not
 * open. */
static bool close_loop(struct thread *thread, uint32_t name) {
    for (uint32_t i = thread->depth; name && i-- > 1;) {
        if (weft_places[thread->frames[i].place].name != name) continue;
        while (thread->depth > i) close_innermost_iteration(thread);
        return true;
    }
    return false;
}

/* Note that a loop begins the iteration `index`, and return how often the loop was started before within its
 * surroundings. An index that does not continue in the loop's direction starts it anew. */
static uint32_t count_loop_start(struct child *child, int64_t index) {
    int direction = index > child->last ? 1 : index < child->last ? -1 : 0;
    bool goes_on = child->count && direction && (!child->direction || child->direction == direction);
    child->direction = goes_on ? direction : 0;
    child->last = index;
    return goes_on ? child->count - 1 : child->count++;
}

/* Record the begin of an iteration or region. `is_nested`: keep an open iteration of the same loop open around it. */
static void enter_scope(uint32_t number, int64_t index, bool is_nested) {
    struct thread *thread = begin_call();
    if (!thread) return;
    if (number && number <= weft_place_count) {
        const struct place *place = &weft_places[number];
        if (!is_nested) close_loop(thread, place->name);
        struct frame *above = &thread->frames[thread->depth - 1];
        struct child *child = find_or_add_child(above, place->name, 0);
        struct weft_value_scope body = {.index = index, .instance = child ? count_loop_start(child, index) : 0};
        int level = place->own.level != WEFT_KEEP_UNSAID ? place->own.level : above->level;
        bool is_off =
            above->off || level == WEFT_KEEP_NONE || !is_index_wanted(&place->own, index) || !place->around.here;
        struct frame *frame = open_iteration(thread, number, index);
        if (frame) {
            frame->off = is_off;
            frame->level = level;
            if (!is_off)
                weft_write_record(thread->slot, WEFT_VALUE_ENTER, number, &body.index, sizeof body - sizeof body.head);
        }
    }
    end_call(thread);
}

/* Record the begin of an iteration, for languages that do not tell when one ends: it ends the loop's previous
 * iteration. */
void weft_values_enter(uint32_t number, int64_t index) { enter_scope(number, index, false); }

/* Record the begin of an iteration, for languages that also tell its end: the loop may be open within itself. */
void weft_values_nest(uint32_t number, int64_t index) { enter_scope(number, index, true); }

/* Record the end of a loop or region, given by its place, or by its name for a place of kind FINISH. */
void weft_values_leave(uint32_t number) {
    struct thread *thread = begin_call();
    if (!thread) return;
    if (number && number <= weft_place_count) {
        const struct place *place = &weft_places[number];
        bool is_named = place->kind == WEFT_PLACE_FINISH;
        if (!is_named) close_loop(thread, place->name);
        else if (!close_loop(thread, weft_find_namesake(WEFT_PLACE_LOOP, place->text)))
            close_loop(thread, weft_find_namesake(WEFT_PLACE_REGION, place->text));
    }
    end_call(thread);
}

/* Return how much of a probe's values to keep (enum weft_values_level): by its own rule, else its loop's, else its
 * file's or procedure's. */
static int find_keep_level(const struct place *place, const struct frame *frame) {
    int level = place->own.level;
    if (level == WEFT_KEEP_UNSAID) level = frame->level;
    if (level == WEFT_KEEP_UNSAID) level = place->around.level;
    return level == WEFT_KEEP_UNSAID ? WEFT_KEEP_FULL : level;
}

/* Return the lowest level at which a value is kept: program accesses without a probe need a higher one than probes. */
static int find_least_keep_level(const struct weft_array *array) {
    return array->order & WEFT_READ      ? WEFT_KEEP_FULL
           : array->order & WEFT_WRITTEN ? WEFT_KEEP_CHANGES
                                         : WEFT_KEEP_MINIMAL;
}

/* Return a hash of which part of a global array an array is; 0 if it is no part. */
static uint64_t hash_array_part(const struct weft_array *array) {
    uint64_t box = array->of != NULL;
    for (int dimension = 0; array->of && dimension < array->dims && dimension < 8; dimension++)
        box =
            weft_value_mix(weft_value_mix(box + (uint64_t)array->lower[dimension]) + (uint64_t)array->shape[dimension]);
    return box;
}

/* Record the array at a probe, if its rules ask for it. */
static void record_probe(struct thread *thread, uint32_t number, const struct weft_array *array) {
    struct place *place = &weft_places[number];
    struct frame *frame = &thread->frames[thread->depth - 1];
    struct child *child = find_or_add_child(frame, place->name, hash_array_part(array));
    uint32_t ordinal = child ? child->count++ : 0;
    uint64_t times = place->times++;
    int level = find_keep_level(place, frame);
    bool chosen = is_index_wanted(&place->own, frame->index) && is_index_wanted(&place->around, frame->index) &&
                  times % place->own.every == 0 && times % place->around.every == 0;
    if (frame->off || level < find_least_keep_level(array) || !chosen) return;
    const char *why = weft_find_refusal(array);
    if (why) {
        weft_report_problem(thread->slot, number, why);
        return;
    }
    struct weft_value_probe probe = {.head = {.kind = WEFT_VALUE_PROBE, .thread = thread->slot, .place = number},
                                     .times = times,
                                     .count = weft_count_elements(array),
                                     .ordinal = ordinal,
                                     .type = array->type,
                                     .size = array->size,
                                     .dims = array->dims,
                                     .order = array->order,
                                     .terms = array->terms,
                                     .scale = array->scale};
    if (array->of) probe.array = weft_find_or_add_place(thread->slot, WEFT_PLACE_ARRAY, array->of, "", 1, "");
    weft_keep_probe(&weft_places[number], &probe, array, level);
}

/* Record an array at a place; called by probes. */
void weft_values_probe(uint32_t number, const struct weft_array *array) {
    struct thread *thread = begin_call();
    if (!thread) return;
    if (number && number <= weft_place_count) record_probe(thread, number, array);
    end_call(thread);
}

VISIBLE void weft_values_complain(uint32_t number, const char *what);

/* Record why the Python side could not take a probe's value. */
void weft_values_complain(uint32_t number, const char *what) {
    struct thread *thread = begin_call();
    if (!thread) return;
    if (number && number <= weft_place_count) weft_report_problem(thread->slot, number, what);
    end_call(thread);
}

/* ---- life ---- */

/* Return the number in the first of several environment variables that is set; -1 if none is. */
static int read_number_variable(const char *const *variables) {
    for (; *variables; variables++) {
        const char *text = getenv(*variables);
        if (text && *text) return atoi(text);
    }
    return -1;
}

/* Close the value trace at exit. */
static void close_trace(void) {
    if (!header || is_stopped) return;
    pthread_mutex_lock(&lock);
    weft_values_close();
    is_stopped = true;
    pthread_mutex_unlock(&lock);
}

/* Record nothing in a forked child. */
static void stop_in_child(void) {
    is_stopped = true;
    pthread_mutex_init(&lock, NULL);
}

/* Create this process's value trace in a folder, unless the run's plan is invalid. */
static void open_trace(const char *folder) {
    static const char *const ranks[] = {"PMI_RANK",    "PMIX_RANK",    "OMPI_COMM_WORLD_RANK",
                                        "PALS_RANKID", "SLURM_PROCID", NULL};
    static const char *const sizes[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL};
    char path[4096], host[64] = "";
    int rank = read_number_variable(ranks);
    snprintf(path, sizeof path, "%s/plan", folder);
    if (!weft_read_rules(path, rank < 0 ? 0 : rank) || pthread_key_create(&thread_key, free_thread)) return;
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/%s-%d-%d.values", folder, host, (int)getpid(), rank < 0 ? 0 : rank);
    header = weft_values_create(path, weft_rules_limit());
    if (!header) return;
    header->rank = rank;
    header->size = read_number_variable(sizes);
    atexit(close_trace);
    pthread_atfork(NULL, NULL, stop_in_child);
}

/* Return whether this process is only a child of a rank, which inherited the rank's environment; the first caller
 * becomes the owner. */
static bool is_child_of_rank(void) {
    const char *owner = getenv("WEFT_INTERNAL_VALUES_OWNER");
    if (owner && atoi(owner) != (int)getpid()) return true;
    char own_pid[16];
    snprintf(own_pid, sizeof own_pid, "%d", (int)getpid());
    setenv("WEFT_INTERNAL_VALUES_OWNER", own_pid, 1);
    return false;
}

/* Open a value trace if `weft run` asks for one in the environment. */
static void start_capture(void) {
    const char *folder = getenv("WEFT_INTERNAL_VALUES");
    if (folder && *folder && !is_child_of_rank()) open_trace(folder);
}

static struct weft_entries entries = {weft_values_place, weft_values_enter, weft_values_nest, weft_values_leave,
                                      weft_values_probe};

VISIBLE struct weft_entries *weft_values_entries(void);

/* Return the functions that probes call; NULL if nothing is to be recorded. */
struct weft_entries *weft_values_entries(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_capture);
    return header && !is_stopped ? &entries : NULL;
}
