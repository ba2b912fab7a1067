/* What `weft check --trace` keeps: the values of processors, each by a library of its own (weft.values), as a rank's.
 *
 *   WEFT_INTERNAL_CHECK_TRACE      the folder of the values' libraries (0.so, 1.so, ...) and of `names`
 *   WEFT_INTERNAL_CHECK_TURNS      how many processors; 0: without directives, as one
 *   WEFT_INTERNAL_CHECK_ACCESSES   what of accesses is wanted: 0 none, 1 writes, 2 reads, too
 *
 * `names` has a line for each variable and loop, words with a tab between: v ID NAME; l ID LINE FILE NAME INDEX...
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loops.h"
#include "objects.h"
#include "turns.h"
#include "weft.h"

#define WEFT_OFF /* only what libraries give */

enum { MOST_IDS = 1 << 16, CACHE = 1 << 14, TEXT = 1024 };

static struct weft_entries *kept[MOST_PROCESSORS];
static char *variables[MOST_IDS];
static int types[MOST_IDS];
static struct loop {
    char *name, *file, *indices[WEFT_MAX_RANK];
    int line;
} *loops[MOST_IDS];

static struct {
    char *file;
    int line;
} sites[MOST_IDS]; /* places that are told by number */

/* Places of accesses by processor: what was made of them. */
static struct {
    int processor, data;
    uint32_t what, number;
    uint64_t place;
    const struct loop *loop;
} cache[CACHE];

static int64_t last[MOST_PROCESSORS][WEFT_MAX_RANK];
static bool entered[MOST_PROCESSORS]; /* an iteration of this loop */

void weft_check_type(int data, int type) {
    if (data > 0 && data < MOST_IDS) types[data] = type;
}

/* --- what numbers mean --- */

static void read_loop(int id, char *rest) {
    struct loop *l = calloc(1, sizeof *l);
    if (!l) return;
    l->line = (int)strtol(strsep(&rest, "\t"), NULL, 10);
    l->file = rest ? strdup(strsep(&rest, "\t")) : NULL;
    l->name = rest ? strdup(strsep(&rest, "\t")) : NULL;
    for (int k = 0; rest && k < WEFT_MAX_RANK; k++) l->indices[k] = strdup(strsep(&rest, "\t"));
    if (l->file && l->name) loops[id] = l;
}

static bool read_names(const char *path) {
    FILE *file = fopen(path, "r");
    char line[8192];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *rest = line, *what = strsep(&rest, "\t");
        int id = rest ? atoi(strsep(&rest, "\t")) : 0;
        if (!rest || id < 1 || id >= MOST_IDS) continue;
        if (*what == 'v') variables[id] = strdup(rest);
        else read_loop(id, rest);
    }
    if (file) fclose(file);
    return file != NULL;
}

/* Numbers whose meaning is known while the program runs only. */
void weft_check_named(int data, const char *name, int type) {
    if (data <= 0 || data >= MOST_IDS) return;
    free(variables[data]);
    variables[data] = strdup(name);
    types[data] = type;
}

void weft_check_looped(int construct, char *told) {
    if (construct > 0 && construct < MOST_IDS) read_loop(construct, told);
}

void weft_check_placed(int site, const char *file, int line) {
    if (site <= 0 || site >= MOST_IDS) return;
    sites[site].file = strdup(file);
    sites[site].line = line;
}

static const char *name_of(int data) { return data > 0 && data < MOST_IDS ? variables[data] : NULL; }
static int type_of(const struct object *o) { return o->data > 0 && o->data < MOST_IDS ? types[o->data] : 0; }
static const struct loop *this_loop(void) { return here.id > 0 && here.id < MOST_IDS ? loops[here.id] : NULL; }

/* --- the libraries --- */

static struct weft_entries *open_values(const char *folder, int processor) {
    char path[TEXT], number[16];
    snprintf(path, sizeof path, "%s/%d.so", folder, processor);
    snprintf(number, sizeof number, "%d", processor);
    setenv("PMI_RANK", number, 1); /* whose values these are */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    struct weft_entries *(*give)(void) = NULL;
    if (library) *(void **)(&give) = dlsym(library, "weft_values_entries");
    return give ? give() : NULL;
}

static void open_all(const char *folder, int processors, bool directives) {
    char size[16], names[TEXT];
    const char *rank = getenv("PMI_RANK");
    char *before = rank ? strdup(rank) : NULL;
    snprintf(size, sizeof size, "%d", processors);
    setenv("PMI_SIZE", size, 1);
    bool good = true;
    for (int p = 0; p < processors; p++) good &= (kept[p] = open_values(folder, p)) != NULL;
    if (before) setenv("PMI_RANK", before, 1);
    else unsetenv("PMI_RANK");
    free(before);
    unsetenv("PMI_SIZE"), unsetenv("WEFT_INTERNAL_VALUES");
    snprintf(names, sizeof names, "%s/names", folder);
    if (good && read_names(names)) turns_begin(processors, directives);
    else fprintf(stderr, "weft: the values of the program cannot be kept in %s\n", folder);
}

__attribute__((constructor(102))) static void start(void) {
    const char *folder = getenv("WEFT_INTERNAL_CHECK_TRACE"), *turns = getenv("WEFT_INTERNAL_CHECK_TURNS");
    const char *accesses = getenv("WEFT_INTERNAL_CHECK_ACCESSES");
    if (!folder || !turns) return;
    int wanted = atoi(turns), processors = wanted ? wanted : 1;
    weft_access_level = accesses ? atoi(accesses) : 2;
    if (processors >= 1 && processors <= MOST_PROCESSORS) open_all(folder, processors, wanted > 0);
    unsetenv("WEFT_INTERNAL_CHECK_TRACE");
}

/* --- arrays as the libraries take them --- */

static bool set_number_type(struct weft_array *array, int type) {
    static const char letters[] = "\0iiiiuuuufffccbiii";
    static const uint8_t sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, sizeof(long double), 8, 16, 1, 2, 4, 8};
    if (type < WEFT_INT8 || type > WEFT_LOGICAL8) return false;
    array->type = (uint8_t)letters[type];
    array->size = sizes[type];
    return true;
}

/* The element at `first`, counted from 0, and `count` of them; its values begin at `data`. */
static bool part_of(struct weft_array *array, const struct object *o, const void *data, const int64_t first[],
                    const int64_t count[]) {
    *array = (struct weft_array){.data = data, .dims = (uint8_t)o->rank};
    if (!set_number_type(array, type_of(o)) || !name_of(o->data)) return false;
    bool fortran = o->order == WEFT_ORDER_FORTRAN;
    if (fortran) array->order = WEFT_FIRST_FASTEST | WEFT_FROM_ONE;
    if (o->array) array->of = name_of(o->data);
    for (int k = 0; k < o->rank; k++) {
        array->shape[k] = count[k];
        array->stride[k] = o->stride[k];
        array->lower[k] = o->lower[k] + first[k] - fortran;
        array->whole[k] = o->extent[k];
    }
    return true;
}

void trace_part(int processor, const struct object *o, const int64_t low[], const int64_t count[]) {
    const struct loop *l = this_loop();
    struct weft_array array;
    char name[TEXT];
    const char *data = (const char *)o->low;
    for (int k = 0; k < o->rank; k++) data += low[k] * o->stride[k];
    if (!l || !part_of(&array, o, data, low, count)) return;
    snprintf(name, sizeof name, "%s behind the loop", name_of(o->data));
    struct weft_entries *to = kept[processor];
    to->probe(to->place(WEFT_IS_PROBE, name, l->file, (uint32_t)l->line, ""), &array);
}

void trace_reduction(int processor, const struct reduction *r, double magnitude, int64_t terms) {
    const struct loop *l = this_loop();
    struct weft_array array = {.data = (const void *)r->low, .scale = magnitude, .terms = (uint32_t)terms};
    if (!l || !name_of(r->data) || !set_number_type(&array, r->type)) return;
    if (r->count > 1) {
        array.dims = 1;
        array.shape[0] = r->count;
        array.stride[0] = array.size;
    }
    struct weft_entries *to = kept[processor];
    to->probe(to->place(WEFT_IS_PROBE, name_of(r->data), l->file, (uint32_t)l->line, ""), &array);
}

/* --- loops and what happens in them --- */

void trace_loop(int processors) {
    const struct loop *l = this_loop();
    for (int p = 0; l && p < processors; p++) {
        entered[p] = false;
        kept[p]->nest(kept[p]->place(WEFT_IS_LOOP, l->name, l->file, (uint32_t)l->line, ""), here.instance);
    }
}

/* What comes now stands behind the iterations. */
void trace_iterations_end(int processors) {
    const struct loop *l = this_loop();
    for (int p = 0; l && l->indices[0] && p < processors; p++)
        kept[p]->leave(kept[p]->place(WEFT_IS_LOOP, l->indices[0], l->file, (uint32_t)l->line, ""));
}

void trace_loop_ends(int processors) {
    const struct loop *l = this_loop();
    for (int p = 0; l && p < processors; p++)
        kept[p]->leave(kept[p]->place(WEFT_IS_LOOP, l->name, l->file, (uint32_t)l->line, ""));
}

static void enter_iteration(int processor, const struct turn_event_record *e, const struct loop *l) {
    struct weft_entries *to = kept[processor];
    bool changed = !entered[processor];
    for (uint32_t k = 0; k < e->n; k++) {
        changed |= last[processor][k] != e->index[k] || k + 1 == e->n;
        if (!changed || !l->indices[k]) continue;
        to->enter(to->place(WEFT_IS_LOOP, l->indices[k], l->file, (uint32_t)l->line, ""), e->index[k]);
        last[processor][k] = e->index[k];
    }
    entered[processor] = true;
}

/* The place of an access: its line is looked up when the program has ended (places.c). */
static uint32_t place_of(int processor, const struct turn_event_record *e, const struct object *o,
                         const struct loop *l) {
    uint64_t h = (e->place * 0x9E3779B97F4A7C15u) ^ (uint64_t)processor * 31 ^ (uint64_t)o->data * 131 ^ e->what;
    __typeof__(*cache) *c = &cache[(h >> 20) % CACHE];
    if (c->number && c->place == e->place && c->processor == processor && c->data == o->data && c->what == e->what &&
        c->loop == l)
        return c->number;
    char name[TEXT], file[TEXT];
    snprintf(name, sizeof name, e->what == TURN_READ ? "read of %s" : "%s", name_of(o->data));
    uint64_t site = e->place >> 2;
    if (e->place < 0x400000 && site < MOST_IDS && sites[site].file) {
        c->number = kept[processor]->place(WEFT_IS_PROBE, name, sites[site].file, (uint32_t)sites[site].line, "");
    } else {
        snprintf(file, sizeof file, "=%#llx=%s", (unsigned long long)e->place - 1, l->file);
        c->number = kept[processor]->place(WEFT_IS_PROBE, name, file, 0, "");
    }
    c->place = e->place;
    c->processor = processor;
    c->data = o->data;
    c->what = e->what;
    c->loop = l;
    return c->number;
}

static void keep_access(int processor, const struct turn_event_record *e, const struct loop *l) {
    static const int64_t one[WEFT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct object *o = object_at(e->at);
    struct weft_array array;
    int64_t index[WEFT_MAX_RANK];
    if (!o || !name_of(o->data)) return;
    index_of(o, e->at, index);
    for (int k = 0; k < o->rank; k++) index[k] -= o->lower[k];
    if (!part_of(&array, o, e->bytes, index, one)) return;
    array.order |= e->what == TURN_READ ? WEFT_READ : WEFT_WRITTEN;
    kept[processor]->probe(place_of(processor, e, o, l), &array);
}

void trace_event(int processor, const struct turn_event_record *e) {
    const struct loop *l = this_loop();
    if (!l) return;
    if (e->what == TURN_ITERATION) enter_iteration(processor, e, l);
    else keep_access(processor, e, l);
}

void trace_ended(int processor, int signal) {
    const struct loop *l = this_loop();
    fprintf(stderr, "weft: processor %d did not come to the end of %s%s%s\n", processor, l ? l->name : "a loop",
            signal ? ": it was ended by " : "", signal ? strsignal(signal) : "");
}
