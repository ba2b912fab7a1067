/* Ghost cells of programs that `weft cc` built: writes down what such a program does to the arrays that it declares
 * (weft_part of weft.h), in the form of weft/halo/log.py, as weft/halo/log_writer.py does for arrays of Python.
 *
 * Of an array the hooks ask about its shell only: the ghosts, and the cells that neighbours copy. A group is what one line
 * stored there between two calls of MPI, each cell once; it becomes one record of a use. With each of its cells come the
 * ghosts that were loaded since the store before it. Whether a value went from them into the cell, and whether it was one
 * that should not have, is for the analysis (weft.halo).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "halo.h"
#include "peek.h"
#include "process.h"

#define VISIBLE __attribute__((visibility("default")))

volatile int weft_halo_on, weft_halo_open;

static bool is_watching; /* it is written down */
static struct weft_thread *watch_thread;
static struct ghost_array *arrays[PARTS];
static volatile struct {
    uintptr_t low, high;
} ranges[PARTS]; /* of the parts, for other threads */
static volatile bool used_by_other_thread; /* another thread has touched one */
static int array_count;
static uint32_t arrays_made, epoch = 1;
static uint64_t groups_written, recent_load_count;
static struct load recent_loads[WINDOW];
static struct group groups[GROUPS];
static const struct ghost_array *last_array;
static uint32_t last_cell;
static struct group *last_group;

/* Return how many calls this thread has recorded; weft_find_current_call names the last of them. */
uint64_t weft_count_own_calls(void) { return weft_self ? weft_find_current_call().event + 1 : 0; }

/* Forget the stores that are not written down yet. */
static void forget_open_groups(void) {
    for (int k = 0; k < weft_halo_open; k++) groups[k].array->open = 0;
    weft_halo_open = 0;
    recent_load_count = 0;
    last_array = NULL;
}

/* End the watch of arrays with ghost cells, and close its file. */
static void end_own_watch(void) {
    weft_close_ghost_log();
    is_watching = false;
    forget_open_groups();
    weft_halo_on = weft_halo_waiting = 0;
}

/* End the watch and write why, as what would be recorded from here on would not be complete. */
static void give_up_watch(const char *reason) {
    if (!is_watching) return;
    weft_write_ghost_record(GAVE_UP, weft_count_own_calls(), NULL, 0, reason, strlen(reason));
    end_own_watch();
}

/* ---- values ---- */
/* Return the value of a cell as a float; of a complex number a sum of both parts. `place`: the cell's number in the
 * array. 0 for a type that is not known. */
static float read_cell_value(const struct ghost_array *array, uint32_t place) {
    const void *address = (const void *)(array->low + place * array->size);
#define AS(c, n, type)                                                                                                 \
    if (array->letter == c && array->size == (n)) return (float)*(const type *)address;
    AS('f', 8, double)
    AS('f', 4, float)
    AS('f', sizeof(long double), long double)
    AS('i', 4, int32_t)
    AS('i', 8, int64_t)
    AS('i', 2, int16_t)
    AS('i', 1, int8_t)
    AS('u', 4, uint32_t)
    AS('u', 8, uint64_t)
    AS('u', 2, uint16_t)
    AS('u', 1, uint8_t)
    AS('b', 1, uint8_t)
#undef AS
    const double *doubles = address;
    const float *floats = address;
    if (array->letter == 'c' && array->size == 16) return (float)(doubles[0] + 0.618 * doubles[1]);
    if (array->letter == 'c' && array->size == 8) return (float)(floats[0] + 0.618 * floats[1]);
    return 0;
}

/* Return whether values of a type can be recorded: its letter (f, i, u, b, c) and its size in bytes. */
static bool is_known_type(int letter, size_t size) {
    static const struct {
        char letter;
        uint8_t size;
    } known[] = {{'f', 4}, {'f', 8}, {'f', sizeof(long double)},
                 {'i', 1}, {'i', 2}, {'i', 4},
                 {'i', 8}, {'u', 1}, {'u', 2},
                 {'u', 4}, {'u', 8}, {'b', 1},
                 {'c', 8}, {'c', 16}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (known[k].letter == letter && known[k].size == size) return true;
    return false;
}

/* Return whether an array's memory is still there: it may have gone back to the system without a call that the recorder
 * sees. */
static bool is_memory_mapped(const struct ghost_array *array) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), low = array->low & ~(page - 1);
    static unsigned char *pages;
    static size_t space;
    size_t n = (array->high - low + page - 1) / page;
    if (n > space) {
        free(pages);
        pages = malloc(n);
        space = pages ? n : 0;
    }
    return pages && mincore((void *)low, array->high - low, pages) == 0;
}

/* Write the values of a set of cells down if they have changed since last time. Return whether they have. `kind`: of
 * the record (halo_kinds.h). */
static bool write_changed_values(struct ghost_array *array, struct cell_set *cells, int kind, uint64_t moment) {
    WEFT_WORK(WEFT_HALO);
    if (!cells->n) return false;
    for (uint32_t k = 0; k < cells->n; k++) cells->now[k] = read_cell_value(array, cells->places[k]);
    if (cells->known && !memcmp(cells->now, cells->seen, cells->n * sizeof *cells->now)) return false;
    float *now = cells->now;
    cells->now = cells->seen;
    cells->seen = now;
    cells->known = true;
    const uint32_t head[2] = {array->number, 0};
    weft_write_ghost_record(kind, moment, head, sizeof head, now, cells->n * sizeof *now);
    return true;
}

static void end_array_watch(struct ghost_array *array);

/* Write down if something else than the stores that the hooks saw has changed the cells that neighbours copy. */
static void write_unseen_changes(struct ghost_array *array, uint64_t moment) {
    if (array->open || (array->checked_at == moment && array->checked_epoch == epoch)) return;
    array->checked_at = moment;
    array->checked_epoch = epoch;
    write_changed_values(array, &array->edge, UNSEEN, moment);
}

/* Write the values of an array's ghost cells down if they have changed. Return whether the array's memory is still
 * there. */
static bool write_ghost_values(struct ghost_array *array, uint64_t moment) {
    if (array->looks && array->looked_at == moment && array->looked_stores == array->stores) return true;
    if (!is_memory_mapped(array)) return false;
    array->looked_at = moment;
    array->looked_stores = array->stores;
    write_unseen_changes(array, moment);
    if (write_changed_values(array, &array->ghosts, GHOSTS, moment)) array->looks++;
    return true;
}

/* ---- groups ---- */
/* Write down the groups of stores that are open, in the order in which they began, with the values that they left: a
 * call may take values away, or bring some. */
void weft_write_open_stores(void) {
    if (!is_watching || !weft_halo_open || weft_self != watch_thread) return;
    WEFT_WORK(WEFT_HALO);
    int count = weft_halo_open;
    for (int k = 0; k < count; k++) {
        struct ghost_array *array = groups[k].array;
        weft_write_store_group(&groups[k]);
        groups_written++;
        if (!--array->open && is_memory_mapped(array))
            write_changed_values(array, &array->edge, OWNED, groups[k].moment);
    }
    weft_halo_open = 0;
    last_array = NULL;
    if (++epoch == EPOCHS) give_up_watch("there are too many stores");
    else if (weft_is_ghost_log_full()) give_up_watch("there are more than 512 MB of accesses");
}

/* Make room for one more element of `size` bytes in an array of `n`; return false without memory. */
static bool make_room_for_element(void **array, uint32_t n, uint32_t *space, size_t size) {
    if (n < *space) return true;
    uint32_t more = *space ? *space * 2 : FIRST;
    void *larger = realloc(*array, more * size);
    if (!larger) return false;
    *array = larger;
    *space = more;
    return true;
}

/* Return which of the group's lines of loads a load belongs to, a new one if there is none; READS if there are too
 * many. */
static uint32_t find_or_add_load_line(struct group *group, const struct load *load) {
    for (uint32_t line = 0; line < group->reads; line++)
        if (group->read[line].at == load->at && group->read[line].array == load->array) return line;
    if (group->reads == READS) return READS;
    group->read[group->reads] = *load;
    uint64_t own_run = groups_written + (uint64_t)(group - groups); /* it stores only behind what it loads */
    if (load->runs > own_run) group->read[group->reads].runs = own_run;
    group->hash = mix_hash(mix_hash(group->hash, load->at), load->array->number);
    return group->reads++;
}

/* Note in a group of stores that the ghost cells loaded since the last store may have gone into the cell that is stored
 * now (`target`). Ends the watch if there are too many. */
static void attach_recent_loads(struct group *group, uint32_t target) {
    uint64_t first = recent_load_count > WINDOW ? recent_load_count - WINDOW : 0;
    for (uint64_t k = first; k < recent_load_count; k++) {
        const struct load *load = &recent_loads[k % WINDOW];
        uint32_t line = find_or_add_load_line(group, load);
        if (line == READS) continue;
        if (group->pairs_n == MOST_PAIRS ||
            !make_room_for_element((void **)&group->pairs, group->pairs_n, &group->pairs_space, sizeof *group->pairs)) {
            give_up_watch("one line uses too many ghost cells");
            return;
        }
        group->pairs[group->pairs_n++] = (struct pair){.read = line, .ghost = load->place, .target = target};
        group->hash = mix_hash(group->hash, (uint64_t)load->place << 32 | target);
    }
    recent_load_count = 0;
}

/* Return the open group of stores that one place in the code makes into an array, a new one if there is none; NULL if
 * the watch has ended. `copies`: the store is a copy, not computed. */
static struct group *find_or_open_group(struct ghost_array *array, uintptr_t code_address, bool copies,
                                        uint64_t moment) {
    for (int k = 0; k < weft_halo_open; k++)
        if (groups[k].at == code_address && groups[k].array == array && groups[k].copies == copies) return &groups[k];
    if (weft_halo_open == GROUPS) weft_write_open_stores();
    if (!is_watching) return NULL;
    write_unseen_changes(array, moment);
    struct group *group = &groups[weft_halo_open++];
    group->at = code_address;
    group->array = array;
    group->copies = copies;
    group->of_ghosts = false;
    group->hash = mix_hash(mix_hash(code_address, array->number), copies);
    group->moment = moment;
    group->places_n = group->pairs_n = group->reads = 0;
    array->open++;
    return group;
}

/* Record a store into a cell of an array, with the ghost cells that were loaded for it. */
static void record_store(struct ghost_array *array, uint32_t place, uintptr_t code_address, bool copies,
                         uint64_t moment) {
    WEFT_WORK(WEFT_HALO);
    bool is_ghost = (array->cells[place] & OF_CELL) == GHOST;
    array->stores += is_ghost;
    if (array == last_array && place == last_cell) { /* v = 0; v += a; v += b: one store */
        if (is_ghost) recent_load_count = 0;
        else attach_recent_loads(last_group, place);
        return;
    }
    if (array->cells[place] >> EPOCH_SHIFT == epoch) weft_write_open_stores();
    struct group *group = is_watching ? find_or_open_group(array, code_address, copies, moment) : NULL;
    if (!group) return;
    if (!make_room_for_element((void **)&group->places, group->places_n, &group->places_space, sizeof *group->places)) {
        give_up_watch("there was no memory left");
        return;
    }
    group->places[group->places_n++] = place;
    group->hash = mix_hash(group->hash, place);
    group->of_ghosts |= is_ghost;
    array->cells[place] = (array->cells[place] & OF_CELL) | epoch << EPOCH_SHIFT;
    if (is_ghost || copies) recent_load_count = 0;
    else attach_recent_loads(group, place);
    last_array = array;
    last_cell = place;
    last_group = group;
}

/* Record a load of a ghost cell, for the store that follows it. */
static void record_ghost_load(struct ghost_array *array, uint32_t place, uintptr_t code_address, uint64_t moment) {
    WEFT_WORK(WEFT_HALO);
    for (int k = 0; k < weft_halo_open; k++)
        if (groups[k].of_ghosts && groups[k].array == array) {
            weft_write_open_stores();
            break;
        }
    if (!is_watching || !write_ghost_values(array, moment)) return;
    recent_loads[recent_load_count++ % WINDOW] = (struct load){.array = array,
                                                               .place = place,
                                                               .at = code_address,
                                                               .looks = array->looks,
                                                               .runs = groups_written + (uint64_t)weft_halo_open};
}

/* Return the number of the array's cell that holds an address. */
static inline uint64_t find_cell(const struct ghost_array *array, uintptr_t address) {
    return LIKELY(array->shift >= 0) ? (address - array->low) >> array->shift : (address - array->low) / array->size;
}

/* Return the watched array with ghost cells that contains some of the `size` bytes at an address, NULL for none. */
static inline struct ghost_array *find_array_at(uintptr_t address, size_t size) {
    static int last;
    if (last < array_count && address < arrays[last]->high && address + size > arrays[last]->low) return arrays[last];
    for (int k = 0; k < array_count; k++)
        if (address < arrays[k]->high && address + size > arrays[k]->low) return arrays[last = k];
    return NULL;
}

/* Note that another thread touches one of the arrays. It may read no more than the ranges of addresses, as the arrays
 * may end meanwhile. */
static void note_foreign_access(uintptr_t address, size_t size) {
    for (int k = 0; k < PARTS && !used_by_other_thread; k++)
        if (address < ranges[k].high && address + size > ranges[k].low) used_by_other_thread = true;
}

/* Record an access of the program to `size` bytes, if they are ghost cells or cells that neighbours copy. The hooks of
 * `weft cc` programs call it, by way of record_access. `kind`: WEFT_HOOK_*; `code_address`: the instruction that makes
 * it. */
void weft_record_ghost_access(uintptr_t address, size_t size, unsigned kind, uintptr_t code_address) {
    if (UNLIKELY(weft_self != watch_thread)) {
        note_foreign_access(address, size);
        return;
    }
    if (UNLIKELY(used_by_other_thread)) give_up_watch("another thread than the one that declared the arrays uses them");
    struct ghost_array *array = is_watching ? find_array_at(address, size) : NULL;
    if (kind & WEFT_HOOK_FREE) {
        if (array) weft_forget_arrays_of_unknown_widths(address, address + size);
        for (; array; array = find_array_at(address, size)) end_array_watch(array);
    }
    if (!array) return;
    uint64_t first = address > array->low ? find_cell(array, address) : 0, last = find_cell(array, address + size - 1);
    if (LIKELY(first == last && !(array->cells[first] & OF_CELL))) return;
    if (last >= array->count) last = array->count - 1;
    bool copies = size > LONGEST_LOAD && size > array->size;
    uint64_t moment = UINT64_MAX;
    for (uint64_t place = first; place <= last; place++) {
        uint32_t class = array->cells[place] & OF_CELL;
        if (class == INNER) continue;
        if (moment == UINT64_MAX) {
            static uint64_t before;
            moment = weft_count_own_calls();
            if (moment != before) {
                weft_write_open_stores();
                recent_load_count = 0;
            }
            before = moment;
        }
        if (kind & WEFT_HOOK_READ && class == GHOST && !copies)
            record_ghost_load(array, (uint32_t)place, code_address, moment);
        if (is_watching && kind & WEFT_HOOK_WRITE) record_store(array, (uint32_t)place, code_address, copies, moment);
        if (!is_watching) return;
    }
}

/* ---- parts ---- */
/* Return whether a cell is a ghost (GHOST), one that neighbours copy (EDGE), or inside (INNER). */
static int classify_cell(const struct ghost_array *array, uint64_t place) {
    bool is_edge = false, has_no_ghosts = true;
    /* Without ghosts: what is computed from other arrays' ghosts goes into the outermost cells. */
    for (int d = 0; d < array->dims; d++) has_no_ghosts &= !array->halo[d];
    for (int d = array->dims - 1; d >= 0; d--) {
        int64_t n = array->shape[d], width = array->halo[d], index = (int64_t)(place % (uint64_t)n);
        place /= (uint64_t)n;
        if (index < width || index >= n - width) return GHOST;
        is_edge |= index < 2 * width + has_no_ghosts || index >= n - 2 * width - has_no_ghosts;
    }
    return is_edge ? EDGE : INNER;
}

/* Have the hooks report accesses to the ghosts and to the cells that neighbours copy (`change` 1), or no longer
 * (-1). */
static void watch_shell_cells(const struct ghost_array *array, int change) {
    for (uint64_t k = 0; k < array->count;) {
        uint64_t first = k;
        while (k < array->count && (array->cells[k] & OF_CELL) != INNER) k++;
        if (k > first)
            weft_change_watched_addresses(array->low + first * array->size, array->low + k * array->size, change);
        while (k < array->count && (array->cells[k] & OF_CELL) == INNER) k++;
    }
}

/* Free the lists of a set of cells. */
static void free_cell_set(struct cell_set *cells) {
    free(cells->places);
    free(cells->seen);
    free(cells->now);
}

/* Free what is known of an array. */
static void free_array(struct ghost_array *array) {
    if (array->cells) munmap(array->cells, array->count * sizeof *array->cells);
    free_cell_set(&array->edge);
    free_cell_set(&array->ghosts);
    free(array);
}

/* End the watch of an array, whose memory is used for something else from here on. */
static void end_array_watch(struct ghost_array *array) {
    weft_write_open_stores();
    recent_load_count = 0;
    watch_shell_cells(array, -1);
    for (int k = 0; k < array_count; k++)
        if (arrays[k] == array) {
            arrays[k] = arrays[--array_count];
            ranges[k] = ranges[array_count];
            ranges[array_count].high = 0;
            break;
        }
    free_array(array);
}

/* Make the lists for a set of `n` cells; return false without memory. */
static bool make_cell_set(struct cell_set *cells, uint32_t n) {
    cells->places = malloc(n * sizeof *cells->places + 1);
    cells->seen = malloc(n * sizeof *cells->seen + 1);
    cells->now = malloc(n * sizeof *cells->now + 1);
    return cells->places && cells->seen && cells->now;
}

/* Find out which cells of an array are ghosts, and which neighbours copy; return false without memory. */
static bool mark_shell_cells(struct ghost_array *array) {
    uint32_t counts[3] = {0};
    array->cells =
        mmap(NULL, array->count * sizeof *array->cells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (array->cells == MAP_FAILED) {
        array->cells = NULL;
        return false;
    }
    for (uint64_t k = 0; k < array->count; k++) {
        int class = classify_cell(array, k);
        counts[class]++;
        if (class != INNER) array->cells[k] = (uint32_t)class;
    }
    if (!counts[GHOST]) counts[EDGE] = 0; /* nobody copies them */
    if (!make_cell_set(&array->edge, counts[EDGE]) || !make_cell_set(&array->ghosts, counts[GHOST])) return false;
    for (uint64_t k = 0; k < array->count; k++) {
        struct cell_set *cells = array->cells[k] == EDGE    ? &array->edge
                                 : array->cells[k] == GHOST ? &array->ghosts
                                                            : NULL;
        if (cells && counts[array->cells[k]]) cells->places[cells->n++] = (uint32_t)k;
    }
    return true;
}

/* Copy the shape and the widths of ghosts into an array; return whether they make sense and its memory can be read. */
static bool set_array_sizes(struct ghost_array *array, const int64_t *shape, const int64_t *halo) {
    array->count = 1;
    for (int d = 0; d < array->dims; d++) {
        if (halo[d] < 0 || shape[d] <= 2 * halo[d] || (uint64_t)shape[d] > INT32_MAX / array->count) return false;
        array->shape[d] = shape[d];
        array->halo[d] = halo[d];
        array->count *= (uint64_t)shape[d];
    }
    array->high = array->low + array->count * array->size;
    if (!array->low || !is_memory_mapped(array)) return false;
    if (weft_is_readable((const void *)array->low, array->high - array->low)) return true;
    weft_note_unreadable_buffer();
    return false;
}

/* Begin to watch an array, and write down its declaration and its first values. */
static void begin_array_watch(struct ghost_array *array, const struct declaration *declaration) {
    array->number = arrays_made++;
    ranges[array_count].low = array->low;
    ranges[array_count].high = array->high;
    arrays[array_count++] = array;
    uint64_t moment = weft_count_own_calls();
    weft_write_array_declaration(array, declaration, moment);
    write_changed_values(array, &array->edge, OWNED, moment);
    write_ghost_values(array, moment);
    watch_shell_cells(array, 1);
    weft_halo_on = 1;
}

/* Return whether this is the thread that declared the arrays, and accesses to them are written down. */
bool weft_is_ghost_watch_thread(void) { return is_watching && weft_self == watch_thread; }

/* Begin to watch an array of this shape, `halo` ghost cells wide in each dimension; return whether that is possible.
 * The declaration gets the array's number as `before`. */
bool weft_watch_ghost_array(const struct ghost_array *given, const int64_t *shape, const int64_t *halo,
                            struct declaration *declaration) {
    weft_write_open_stores();
    struct ghost_array *array = is_watching ? calloc(1, sizeof *array) : NULL;
    if (!array) return false;
    *array = *given;
    array->shift = array->size && !(array->size & (array->size - 1)) ? __builtin_ctzll(array->size) : -1;
    if (!set_array_sizes(array, shape, halo) || !mark_shell_cells(array)) {
        free_array(array);
        return false;
    }
    for (int k = array_count - 1; k >= 0; k--)
        if (array->low < arrays[k]->high && array->high > arrays[k]->low) end_array_watch(arrays[k]);
    if (array_count == PARTS) {
        free_array(array);
        return false;
    }
    begin_array_watch(array, declaration);
    declaration->before = array->number;
    return true;
}

/* Begin to watch an array as the program declares it, if a run is recorded whose program was built with `weft cc`; else
 * note why not. `halo` NULL: receives show the widths of the ghosts. */
static void declare_array(const struct ghost_array *given, const int64_t *shape, const int64_t *halo,
                          struct declaration *declaration) {
    if (!weft_recording || !weft_self || weft_replay_path[0] || weft_level != WEFT_LEVEL_TRACE ||
        weft_is_left_out(WEFT_ACCESSES) || weft_is_left_out(WEFT_HALO))
        return;
    WEFT_WORK(WEFT_HALO);
    if (!weft_accessing) {
        weft_record_access_note("uses of ghost cells, because the program was not built with `weft cc`");
        return;
    }
    if (!watch_thread) {
        watch_thread = weft_self;
        is_watching = weft_open_ghost_log();
    }
    if (!weft_is_ghost_watch_thread()) return;
    bool fits = given->low && given->dims > 0 && given->dims <= DIMENSIONS && is_known_type(given->letter, given->size);
    uint64_t cells = 1;
    for (int d = 0; fits && d < given->dims; d++)
        if ((fits = shape[d] > 0 && (uint64_t)shape[d] <= INT32_MAX / cells)) cells *= (uint64_t)shape[d];
    if (fits) weft_forget_arrays_of_unknown_widths(given->low, given->low + cells * given->size);
    fits = fits && declaration->lag >= 0 &&
           (halo ? weft_watch_ghost_array(given, shape, halo, declaration)
                 : weft_watch_array_of_unknown_widths(given, shape, declaration));
    if (!fits)
        weft_record_access_note("uses of ghost cells of an array, because its declaration is invalid or one too many");
}

/* An array whose outermost cells, `halo` of them at both ends of each dimension, are copies of what other ranks own. */
VISIBLE void weft_halo_part(const void *data, int letter, size_t size, const char *name, int dims, const int64_t *shape,
                            const int64_t *halo, const void *comm, int lag, const char *const place[2], int line);
/* Called by a C program (weft.h): declare an array whose outermost cells, `halo` of them at both ends of each
 * dimension, are copies of what neighbours in a communicator own. `place`: file and function of
 * the declaration. */
void weft_halo_part(const void *data, int letter, size_t size, const char *name, int dims, const int64_t *shape,
                    const int64_t *halo, const void *comm, int lag, const char *const place[2], int line) {
    struct declaration declaration = {.of = name, .file = place[0], .function = place[1], .line = line, .lag = lag};
    weft_read_process_grid(*(const MPI_Comm *)comm, &declaration.grid);
    const struct ghost_array given = {.low = (uintptr_t)data, .letter = letter, .size = size, .dims = dims};
    declare_array(&given, shape, halo, &declaration);
}

/* The same, where `lower` says which cell of the whole array is the first that this rank owns. */
VISIBLE void weft_halo_part_at(const void *data, int letter, size_t size, const char *name, int dims,
                               const int64_t *shape, const int64_t *halo, const int64_t *lower, const int64_t *periodic,
                               int lag, const char *const place[2], int line);
/* Called by a C program (weft.h): declare an array with ghost cells by its place in the whole array. `lower`: which
 * cell of the whole array is the first that this rank owns; `periodic`: dimensions that wrap around. */
void weft_halo_part_at(const void *data, int letter, size_t size, const char *name, int dims, const int64_t *shape,
                       const int64_t *halo, const int64_t *lower, const int64_t *periodic, int lag,
                       const char *const place[2], int line) {
    struct declaration declaration = {.of = name,
                                      .file = place[0],
                                      .function = place[1],
                                      .line = line,
                                      .lag = lag,
                                      .lower = lower,
                                      .periodic = periodic};
    const struct ghost_array given = {.low = (uintptr_t)data, .letter = letter, .size = size, .dims = dims};
    declare_array(&given, shape, halo, &declaration);
}

/* Return the communicator of a Fortran handle. */
static MPI_Comm find_comm_of_fortran(int handle) {
    MPI_Comm comm = MPI_COMM_NULL;
    if (sizeof comm == sizeof handle) {
        memcpy(&comm, &handle, sizeof comm);
        return comm;
    }
    MPI_Comm (*known)(int) = NULL;
    *(void **)(&known) = dlsym(RTLD_DEFAULT, "PMPI_Comm_f2c");
    return known ? known(handle) : comm;
}

/* Copy `dims` numbers in reverse order, as Fortran's first index is the fastest. */
static void reverse_dimensions(const int64_t *given, int64_t *reversed, int dims) {
    for (int d = 0; d < dims && d < DIMENSIONS; d++) reversed[d] = given[dims - 1 - d];
}

/* The same of Fortran: with a communicator, or with `lower` and `periodic` in its place. */
VISIBLE void weft_halo_part_fortran(const void *data, int letter, size_t size, const char *name, int dims,
                                    const int64_t *shape, const int64_t *halo, const int *comm, const int64_t *lower,
                                    const int64_t *periodic);
/* Called by a Fortran program (weft_probes.f90): declare an array with ghost cells, cut over a communicator, or at a
 * place in the whole array where `lower` and `periodic` are not NULL. */
void weft_halo_part_fortran(const void *data, int letter, size_t size, const char *name, int dims, const int64_t *shape,
                            const int64_t *halo, const int *comm, const int64_t *lower, const int64_t *periodic) {
    int64_t lengths[DIMENSIONS], widths[DIMENSIONS], firsts[DIMENSIONS], rounds[DIMENSIONS];
    struct declaration declaration = {.of = name,
                                      .file = "",
                                      .function = "",
                                      .lower = lower ? firsts : NULL,
                                      .periodic = periodic ? rounds : NULL,
                                      .reversed = true};
    weft_read_process_grid(comm ? find_comm_of_fortran(*comm) : MPI_COMM_NULL, &declaration.grid);
    const struct ghost_array given = {.low = (uintptr_t)data, .letter = letter, .size = size, .dims = dims};
    reverse_dimensions(shape, lengths, dims);
    if (halo) reverse_dimensions(halo, widths, dims);
    if (lower) reverse_dimensions(lower, firsts, dims);
    if (periodic) reverse_dimensions(periodic, rounds, dims);
    declare_array(&given, lengths, halo ? widths : NULL, &declaration);
}

VISIBLE void weft_halo_part_end(const void *data);
/* Called by the program: end the watch of the array with ghost cells at this address. */
void weft_halo_part_end(const void *data) {
    struct ghost_array *array = weft_is_ghost_watch_thread() ? find_array_at((uintptr_t)data, 1) : NULL;
    if (!array) return;
    weft_forget_arrays_of_unknown_widths(array->low, array->high);
    end_array_watch(array);
}

/* End the watch of all arrays with ghost cells, as MPI is finalized or the program ends: no message comes any more. */
void weft_end_ghost_watch(void) {
    if (is_watching && used_by_other_thread)
        give_up_watch("another thread than the one that declared the arrays uses them");
    if (!is_watching) return;
    weft_write_open_stores();
    if (is_watching) weft_write_ghost_record(END, weft_count_own_calls(), NULL, 0, NULL, 0);
    end_own_watch();
}

/* End the watch in a child of fork(), which is not the rank. */
void weft_end_ghost_watch_in_child(void) {
    weft_drop_ghost_log_in_child();
    is_watching = false;
    weft_halo_on = weft_halo_open = weft_halo_waiting = 0;
}
