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
static uint32_t threads;
static pthread_key_t key;
static bool dead;

/* ---- threads and their open iterations ---- */

static void forget(void *given) {
    struct thread *mine = given;
    for (uint32_t i = 0; i < mine->depth; i++) free(mine->frames[i].children);
    free(mine->frames);
    free(mine);
}

static struct frame *push(struct thread *mine, uint32_t place, int64_t index) {
    if (mine->depth == mine->room) {
        uint32_t room = mine->room ? mine->room * 2 : 16;
        void *more = room <= DEEP ? realloc(mine->frames, room * sizeof *mine->frames) : NULL;
        if (!more) return NULL;
        mine->frames = more;
        mine->room = room;
    }
    struct frame *frame = &mine->frames[mine->depth++];
    *frame = (struct frame){.place = place, .index = index, .level = WEFT_KEEP_UNSAID};
    return frame;
}

static struct thread *current(void) {
    struct thread *mine = pthread_getspecific(key);
    if (mine) return mine;
    mine = calloc(1, sizeof *mine);
    if (!mine) return NULL;
    mine->slot = (uint16_t)__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    if (!push(mine, 0, 0) || pthread_setspecific(key, mine)) {
        forget(mine);
        return NULL;
    }
    return mine;
}

static struct child *child_of(struct frame *frame, uint32_t name, uint64_t box) {
    for (uint32_t i = 0; i < frame->used; i++)
        if (frame->children[i].name == name && frame->children[i].box == box) return &frame->children[i];
    if (frame->used == frame->room) {
        uint32_t room = frame->room ? frame->room * 2 : 8;
        if (room > CHILDREN) return NULL; /* each is looked for among all */
        void *more = realloc(frame->children, room * sizeof *frame->children);
        if (!more) return NULL;
        frame->children = more;
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

static struct thread *begin(void) {
    if (dead || !header) return NULL;
    struct thread *mine = current();
    if (!mine || mine->inside) return NULL;
    mine->inside = true;
    pthread_mutex_lock(&lock);
    return mine;
}

static void end(struct thread *mine) {
    pthread_mutex_unlock(&lock);
    mine->inside = false;
}

uint32_t weft_values_place(int kind, const char *name, const char *file, uint32_t line, const char *function) {
    struct thread *mine = begin();
    if (!mine) return 0;
    uint32_t number = weft_place_at(mine->slot, kind, name, file ? file : "", line, function ? function : "");
    end(mine);
    return number;
}

static bool wanted(const struct weft_rule *rule, int64_t index) {
    return rule->here && index >= rule->first && index <= rule->last &&
           (index - (rule->first == INT64_MIN ? 0 : rule->first)) % rule->step == 0;
}

static void pop(struct thread *mine) {
    struct frame *frame = &mine->frames[--mine->depth];
    free(frame->children);
    if (!frame->off) weft_record(mine->slot, WEFT_VALUE_LEAVE, frame->place, NULL, 0);
}

/* Ends the innermost open iteration of a loop, and all that is open within it. */
static bool close_loop(struct thread *mine, uint32_t name) {
    for (uint32_t i = mine->depth; name && i-- > 1;) {
        if (weft_places[mine->frames[i].place].name != name) continue;
        while (mine->depth > i) pop(mine);
        return true;
    }
    return false;
}

/* How often the loop was begun within its surroundings: another time where the index does not go on in its direction. */
static uint32_t instance_of(struct child *child, int64_t index) {
    int direction = index > child->last ? 1 : index < child->last ? -1 : 0;
    bool on = child->count && direction && (!child->direction || child->direction == direction);
    child->direction = on ? direction : 0;
    child->last = index;
    return on ? child->count - 1 : child->count++;
}

static void entered(uint32_t number, int64_t index, bool nested) {
    struct thread *mine = begin();
    if (!mine) return;
    if (number && number <= weft_place_count) {
        const struct place *place = &weft_places[number];
        if (!nested) close_loop(mine, place->name);
        struct frame *above = &mine->frames[mine->depth - 1];
        struct child *child = child_of(above, place->name, 0);
        struct weft_value_scope body = {.index = index, .instance = child ? instance_of(child, index) : 0};
        int level = place->own.level != WEFT_KEEP_UNSAID ? place->own.level : above->level;
        bool off = above->off || level == WEFT_KEEP_NONE || !wanted(&place->own, index) || !place->around.here;
        struct frame *frame = push(mine, number, index);
        if (frame) {
            frame->off = off;
            frame->level = level;
            if (!off) weft_record(mine->slot, WEFT_VALUE_ENTER, number, &body.index, sizeof body - sizeof body.head);
        }
    }
    end(mine);
}

/* As entered by languages that do not say where an iteration ends: the one before has. */
void weft_values_enter(uint32_t number, int64_t index) { entered(number, index, false); }

/* As entered by languages that do: a loop may be open within itself. */
void weft_values_nest(uint32_t number, int64_t index) { entered(number, index, true); }

void weft_values_leave(uint32_t number) {
    struct thread *mine = begin();
    if (!mine) return;
    if (number && number <= weft_place_count) {
        const struct place *place = &weft_places[number];
        bool named = place->kind == WEFT_PLACE_FINISH;
        if (!named) close_loop(mine, place->name);
        else if (!close_loop(mine, weft_namesake(WEFT_PLACE_LOOP, place->text)))
            close_loop(mine, weft_namesake(WEFT_PLACE_REGION, place->text));
    }
    end(mine);
}

static int level_of(const struct place *place, const struct frame *frame) {
    int level = place->own.level;
    if (level == WEFT_KEEP_UNSAID) level = frame->level;
    if (level == WEFT_KEEP_UNSAID) level = place->around.level;
    return level == WEFT_KEEP_UNSAID ? WEFT_KEEP_FULL : level;
}

/* From which level on a value is kept: an access that nobody put a probe at is more than a probe. */
static int least_level(const struct weft_array *array) {
    return array->order & WEFT_READ      ? WEFT_KEEP_FULL
           : array->order & WEFT_WRITTEN ? WEFT_KEEP_CHANGES
                                         : WEFT_KEEP_MINIMAL;
}

/* A number for where a part lies, 0 for what is no part. */
static uint64_t box_of(const struct weft_array *array) {
    uint64_t box = array->of != NULL;
    for (int d = 0; array->of && d < array->dims && d < 8; d++)
        box = weft_value_mix(weft_value_mix(box + (uint64_t)array->lower[d]) + (uint64_t)array->shape[d]);
    return box;
}

static void probed(struct thread *mine, uint32_t at, const struct weft_array *array) {
    struct place *place = &weft_places[at];
    struct frame *frame = &mine->frames[mine->depth - 1];
    struct child *child = child_of(frame, place->name, box_of(array));
    uint32_t ordinal = child ? child->count++ : 0;
    uint64_t times = place->times++;
    int level = level_of(place, frame);
    bool chosen = wanted(&place->own, frame->index) && wanted(&place->around, frame->index) &&
                  times % place->own.every == 0 && times % place->around.every == 0;
    if (frame->off || level < least_level(array) || !chosen) return;
    const char *why = weft_refusal(array);
    if (why) {
        weft_complain(mine->slot, at, why);
        return;
    }
    struct weft_value_probe probe = {.head = {.kind = WEFT_VALUE_PROBE, .thread = mine->slot, .place = at},
                                     .times = times,
                                     .count = weft_elements(array),
                                     .ordinal = ordinal,
                                     .type = array->type,
                                     .size = array->size,
                                     .dims = array->dims,
                                     .order = array->order,
                                     .terms = array->terms,
                                     .scale = array->scale};
    if (array->of) probe.array = weft_place_at(mine->slot, WEFT_PLACE_ARRAY, array->of, "", 1, "");
    weft_keep(&weft_places[at], &probe, array, level);
}

void weft_values_probe(uint32_t number, const struct weft_array *array) {
    struct thread *mine = begin();
    if (!mine) return;
    if (number && number <= weft_place_count) probed(mine, number, array);
    end(mine);
}

VISIBLE void weft_values_complain(uint32_t number, const char *what);
/* Python's own side could not take what a probe was given. */
void weft_values_complain(uint32_t number, const char *what) {
    struct thread *mine = begin();
    if (!mine) return;
    if (number && number <= weft_place_count) weft_complain(mine->slot, number, what);
    end(mine);
}

/* ---- life ---- */

static int told(const char *const *names) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text) return atoi(text);
    }
    return -1;
}

static void close_trace(void) {
    if (!header || dead) return;
    pthread_mutex_lock(&lock);
    weft_values_close();
    dead = true;
    pthread_mutex_unlock(&lock);
}

static void child_after_fork(void) {
    dead = true;
    pthread_mutex_init(&lock, NULL);
}

static void open_trace(const char *folder) {
    static const char *const ranks[] = {"PMI_RANK",    "PMIX_RANK",    "OMPI_COMM_WORLD_RANK",
                                        "PALS_RANKID", "SLURM_PROCID", NULL};
    static const char *const sizes[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL};
    char path[4096], host[64] = "";
    int rank = told(ranks);
    snprintf(path, sizeof path, "%s/plan", folder);
    if (!weft_rules_read(path, rank < 0 ? 0 : rank) || pthread_key_create(&key, forget)) return;
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/%s-%d-%d.values", folder, host, (int)getpid(), rank < 0 ? 0 : rank);
    header = weft_values_create(path, weft_rules_limit());
    if (!header) return;
    header->rank = rank;
    header->size = told(sizes);
    atexit(close_trace);
    pthread_atfork(NULL, NULL, child_after_fork);
}

/* A child of a rank has its environment and is not a rank. */
static bool somebody_elses(void) {
    const char *owner = getenv("WEFT_INTERNAL_VALUES_OWNER");
    if (owner && atoi(owner) != (int)getpid()) return true;
    char mine[16];
    snprintf(mine, sizeof mine, "%d", (int)getpid());
    setenv("WEFT_INTERNAL_VALUES_OWNER", mine, 1);
    return false;
}

static void start(void) {
    const char *folder = getenv("WEFT_INTERNAL_VALUES");
    if (folder && *folder && !somebody_elses()) open_trace(folder);
}

static struct weft_entries entries = {weft_values_place, weft_values_enter, weft_values_nest, weft_values_leave,
                                      weft_values_probe};

VISIBLE struct weft_entries *weft_values_entries(void);
/* What probes call; NULL where nothing is to be kept. */
struct weft_entries *weft_values_entries(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    return header && !dead ? &entries : NULL;
}
