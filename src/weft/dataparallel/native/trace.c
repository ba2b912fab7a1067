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

void weft_check_type(int variable_id, int type) {
    if (variable_id > 0 && variable_id < MOST_IDS) types[variable_id] = type;
}

/* --- what numbers mean --- */

/* Keep a loop's line number, file, name and index names, from a line of words with tabs between. */
static void parse_loop_line(int construct_id, char *text) {
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop) return;
    loop->line = (int)strtol(strsep(&text, "\t"), NULL, 10);
    loop->file = text ? strdup(strsep(&text, "\t")) : NULL;
    loop->name = text ? strdup(strsep(&text, "\t")) : NULL;
    for (int k = 0; text && k < WEFT_MAX_RANK; k++) loop->indices[k] = strdup(strsep(&text, "\t"));
    if (loop->file && loop->name) loops[construct_id] = loop;
}

/* Read the names of variables and loops from the file `names`. Return false if it cannot be opened. */
static bool read_names_file(const char *path) {
    FILE *file = fopen(path, "r");
    char line[8192];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *rest = line, *what = strsep(&rest, "\t");
        int id = rest ? atoi(strsep(&rest, "\t")) : 0;
        if (!rest || id < 1 || id >= MOST_IDS) continue;
        if (*what == 'v') variables[id] = strdup(rest);
        else parse_loop_line(id, rest);
    }
    if (file) fclose(file);
    return file != NULL;
}

/* Keep a variable's name and type that are known only while the program runs. */
void weft_check_name_variable(int variable_id, const char *name, int type) {
    if (variable_id <= 0 || variable_id >= MOST_IDS) return;
    free(variables[variable_id]);
    variables[variable_id] = strdup(name);
    types[variable_id] = type;
}

void weft_check_describe_loop(int construct_id, char *told) {
    if (construct_id > 0 && construct_id < MOST_IDS) parse_loop_line(construct_id, told);
}

/* Keep the file and line of a place that are known only while the program runs. */
void weft_check_describe_place(int site_id, const char *file, int line) {
    if (site_id <= 0 || site_id >= MOST_IDS) return;
    sites[site_id].file = strdup(file);
    sites[site_id].line = line;
}

static const char *name_of(int variable_id) {
    return variable_id > 0 && variable_id < MOST_IDS ? variables[variable_id] : NULL;
}
static int type_of(const struct object *object) {
    return object->data > 0 && object->data < MOST_IDS ? types[object->data] : 0;
}
static const struct loop *this_loop(void) {
    return weft_construct.id > 0 && weft_construct.id < MOST_IDS ? loops[weft_construct.id] : NULL;
}

/* --- the libraries --- */

/* Load the library that keeps the values of one processor and return its functions; NULL if it cannot be loaded. */
static struct weft_entries *open_values_library(const char *folder, int processor) {
    char path[TEXT], number[16];
    snprintf(path, sizeof path, "%s/%d.so", folder, processor);
    snprintf(number, sizeof number, "%d", processor);
    setenv("PMI_RANK", number, 1); /* whose values these are */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    struct weft_entries *(*give)(void) = NULL;
    if (library) *(void **)(&give) = dlsym(library, "weft_values_entries");
    return give ? give() : NULL;
}

/* Load the values' library of each processor and the names of variables and loops, then switch tracing on; say so on
 * stderr if that fails. */
static void open_all_values(const char *folder, int processor_count, bool has_directives) {
    char size[16], names[TEXT];
    const char *rank = getenv("PMI_RANK");
    char *before = rank ? strdup(rank) : NULL;
    snprintf(size, sizeof size, "%d", processor_count);
    setenv("PMI_SIZE", size, 1);
    bool good = true;
    for (int p = 0; p < processor_count; p++) good &= (kept[p] = open_values_library(folder, p)) != NULL;
    if (before) setenv("PMI_RANK", before, 1);
    else unsetenv("PMI_RANK");
    free(before);
    unsetenv("PMI_SIZE"), unsetenv("WEFT_INTERNAL_VALUES");
    snprintf(names, sizeof names, "%s/names", folder);
    if (good && read_names_file(names)) enable_tracing(processor_count, has_directives);
    else fprintf(stderr, "weft: the values of the program cannot be written to %s\n", folder);
}

/* When the program is loaded: if WEFT_INTERNAL_CHECK_TRACE names a folder, open it to keep the values of each
 * processor. */
__attribute__((constructor(102))) static void start_tracing(void) {
    const char *folder = getenv("WEFT_INTERNAL_CHECK_TRACE"), *turns = getenv("WEFT_INTERNAL_CHECK_TURNS");
    const char *accesses = getenv("WEFT_INTERNAL_CHECK_ACCESSES");
    if (!folder || !turns) return;
    int wanted = atoi(turns), processors = wanted ? wanted : 1;
    weft_access_level = accesses ? atoi(accesses) : 2;
    if (processors >= 1 && processors <= MOST_PROCESSORS) open_all_values(folder, processors, wanted > 0);
    unsetenv("WEFT_INTERNAL_CHECK_TRACE");
}

/* --- arrays as the libraries take them --- */

/* Set the type and size of an array description from a WEFT_ type. Return false for an unknown type. */
static bool set_number_type(struct weft_array *array, int type) {
    static const char letters[] = "\0iiiiuuuufffccbiii";
    static const uint8_t sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, sizeof(long double), 8, 16, 1, 2, 4, 8};
    if (type < WEFT_INT8 || type > WEFT_LOGICAL8) return false;
    array->type = (uint8_t)letters[type];
    array->size = sizes[type];
    return true;
}

/* Describe a part of an array for the values' library: `count` elements in each dimension from the index `first` (from
 * 0) on, whose values lie at `data`. Return false if the name or type is unknown. */
static bool describe_array_part(struct weft_array *description, const struct object *object, const void *data,
                                const int64_t first[], const int64_t count[]) {
    *description = (struct weft_array){.data = data, .dims = (uint8_t)object->rank};
    if (!set_number_type(description, type_of(object)) || !name_of(object->data)) return false;
    bool fortran = object->order == WEFT_ORDER_FORTRAN;
    if (fortran) description->order = WEFT_FIRST_FASTEST | WEFT_FROM_ONE;
    if (object->array) description->of = name_of(object->data);
    for (int k = 0; k < object->rank; k++) {
        description->shape[k] = count[k];
        description->stride[k] = object->stride[k];
        description->lower[k] = object->lower[k] + first[k] - fortran;
        description->whole[k] = object->extent[k];
    }
    return true;
}

/* Keep the values of a part of an array after the running loop for one processor: `count` elements in each dimension
 * from the index `low` (from 0) on. */
void trace_array_part(int processor, const struct object *object, const int64_t low[], const int64_t count[]) {
    const struct loop *loop = this_loop();
    struct weft_array array;
    char name[TEXT];
    const char *data = (const char *)object->low;
    for (int k = 0; k < object->rank; k++) data += low[k] * object->stride[k];
    if (!loop || !describe_array_part(&array, object, data, low, count)) return;
    snprintf(name, sizeof name, "%s behind the loop", name_of(object->data));
    struct weft_entries *values = kept[processor];
    values->probe(values->place(WEFT_IS_PROBE, name, loop->file, (uint32_t)loop->line, ""), &array);
}

/* Keep a reduction's result for one processor; `magnitude` and `terms`: sum of magnitudes and number of its terms,
 * which bound rounding errors. */
void trace_reduction(int processor, const struct reduction *reduction, double magnitude, int64_t terms) {
    const struct loop *loop = this_loop();
    struct weft_array array = {.data = (const void *)reduction->low, .scale = magnitude, .terms = (uint32_t)terms};
    if (!loop || !name_of(reduction->data) || !set_number_type(&array, reduction->type)) return;
    if (reduction->count > 1) {
        array.dims = 1;
        array.shape[0] = reduction->count;
        array.stride[0] = array.size;
    }
    struct weft_entries *values = kept[processor];
    values->probe(values->place(WEFT_IS_PROBE, name_of(reduction->data), loop->file, (uint32_t)loop->line, ""), &array);
}

/* --- loops and what happens in them --- */

/* Tell the values' library of each processor that the running loop begins, with the number of its instance. */
void trace_loop_begins(int processors) {
    const struct loop *loop = this_loop();
    for (int p = 0; loop && p < processors; p++) {
        entered[p] = false;
        kept[p]->nest(kept[p]->place(WEFT_IS_LOOP, loop->name, loop->file, (uint32_t)loop->line, ""),
                      weft_construct.instance);
    }
}

/* Tell the values' library of each processor that the loop's iterations are over: what follows comes after them. */
void trace_iterations_end(int processors) {
    const struct loop *loop = this_loop();
    for (int p = 0; loop && loop->indices[0] && p < processors; p++)
        kept[p]->leave(kept[p]->place(WEFT_IS_LOOP, loop->indices[0], loop->file, (uint32_t)loop->line, ""));
}

/* Tell the values' library of each processor that the loop has ended. */
void trace_loop_ends(int processors) {
    const struct loop *loop = this_loop();
    for (int p = 0; loop && p < processors; p++)
        kept[p]->leave(kept[p]->place(WEFT_IS_LOOP, loop->name, loop->file, (uint32_t)loop->line, ""));
}

/* Tell a processor's values' library that it begins an iteration: only the indices that changed. */
static void trace_iteration(int processor, const struct turn_event_record *event, const struct loop *loop) {
    struct weft_entries *values = kept[processor];
    bool changed = !entered[processor];
    for (uint32_t k = 0; k < event->n; k++) {
        changed |= last[processor][k] != event->index[k] || k + 1 == event->n;
        if (!changed || !loop->indices[k]) continue;
        values->enter(values->place(WEFT_IS_LOOP, loop->indices[k], loop->file, (uint32_t)loop->line, ""),
                      event->index[k]);
        last[processor][k] = event->index[k];
    }
    entered[processor] = true;
}

/* Return the number of an access's place in a processor's values; its line is looked up when the program has ended.
 * Kept in a cache. */
static uint32_t find_place_number(int processor, const struct turn_event_record *event, const struct object *object,
                                  const struct loop *loop) {
    uint64_t h =
        (event->place * 0x9E3779B97F4A7C15u) ^ (uint64_t)processor * 31 ^ (uint64_t)object->data * 131 ^ event->what;
    __typeof__(*cache) *c = &cache[(h >> 20) % CACHE];
    if (c->number && c->place == event->place && c->processor == processor && c->data == object->data &&
        c->what == event->what && c->loop == loop)
        return c->number;
    char name[TEXT], file[TEXT];
    snprintf(name, sizeof name, event->what == TURN_READ ? "read of %s" : "%s", name_of(object->data));
    uint64_t site = event->place >> 2;
    if (event->place < 0x400000 && site < MOST_IDS && sites[site].file) {
        c->number = kept[processor]->place(WEFT_IS_PROBE, name, sites[site].file, (uint32_t)sites[site].line, "");
    } else {
        snprintf(file, sizeof file, "=%#llx=%s", (unsigned long long)event->place - 1, loop->file);
        c->number = kept[processor]->place(WEFT_IS_PROBE, name, file, 0, "");
    }
    c->place = event->place;
    c->processor = processor;
    c->data = object->data;
    c->what = event->what;
    c->loop = loop;
    return c->number;
}

/* Keep the value that an access read or wrote, with the element's index. */
static void trace_access(int processor, const struct turn_event_record *event, const struct loop *loop) {
    static const int64_t one[WEFT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct object *object = find_object_at(event->at);
    struct weft_array array;
    int64_t index[WEFT_MAX_RANK];
    if (!object || !name_of(object->data)) return;
    compute_element_index(object, event->at, index);
    for (int k = 0; k < object->rank; k++) index[k] -= object->lower[k];
    if (!describe_array_part(&array, object, event->bytes, index, one)) return;
    array.order |= event->what == TURN_READ ? WEFT_READ : WEFT_WRITTEN;
    kept[processor]->probe(find_place_number(processor, event, object, loop), &array);
}

/* Keep what a processor did in the running loop: an iteration that it began, or an access. */
void trace_event(int processor, const struct turn_event_record *event) {
    const struct loop *loop = this_loop();
    if (!loop) return;
    if (event->what == TURN_ITERATION) trace_iteration(processor, event, loop);
    else trace_access(processor, event, loop);
}

/* Say on stderr that a processor did not come to the loop's end; `signal`: what ended it, 0 if it exited. */
void trace_report_death(int processor, int signal) {
    const struct loop *loop = this_loop();
    fprintf(stderr, "weft: processor %d did not finish %s%s%s\n", processor, loop ? loop->name : "a loop",
            signal ? ": it was ended by " : "", signal ? strsignal(signal) : "");
}
