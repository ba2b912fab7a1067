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

static bool on; /* it is written down */
static struct weft_thread *owner;
static struct part *parts[PARTS];
static volatile struct {
    uintptr_t low, high;
} ranges[PARTS]; /* of the parts, for other threads */
static volatile bool strangers; /* another thread has touched one */
static int parts_n;
static uint32_t parts_made, epoch = 1;
static uint64_t runs, window_n;
static struct load window[WINDOW];
static struct group groups[GROUPS];
static const struct part *last_part;
static uint32_t last_place;
static struct group *last_group;

/* How many calls this thread has made: weft_find_current_call names the last of them. */
uint64_t weft_count_own_calls(void) { return weft_self ? weft_find_current_call().event + 1 : 0; }

/* Forgets the stores that are not written down yet. */
static void forget_groups(void) {
    for (int k = 0; k < weft_halo_open; k++) groups[k].part->open = 0;
    weft_halo_open = 0;
    window_n = 0;
    last_part = NULL;
}

/* Ends the watch of arrays with ghost cells. */
static void stop(void) {
    weft_close_ghost_log();
    on = false;
    forget_groups();
    weft_halo_on = weft_halo_waiting = 0;
}

/* Ends the watch for a reason, as what would be recorded from here on would not be complete. */
static void give_up(const char *why) {
    if (!on) return;
    weft_write_ghost_record(GAVE_UP, weft_count_own_calls(), NULL, 0, why, strlen(why));
    stop();
}

/* ---- values ---- */
/* Returns the value of a cell of a part, as a float. */
static float value_at(const struct part *p, uint32_t place) {
    const void *at = (const void *)(p->low + place * p->size);
#define AS(c, n, type)                                                                                                 \
    if (p->letter == c && p->size == (n)) return (float)*(const type *)at;
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
    const double *d = at;
    const float *f = at;
    if (p->letter == 'c' && p->size == 16) return (float)(d[0] + 0.618 * d[1]);
    if (p->letter == 'c' && p->size == 8) return (float)(f[0] + 0.618 * f[1]);
    return 0;
}

/* Returns whether values of a type can be recorded: its letter and its size in bytes. */
static bool type_known(int letter, size_t size) {
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

/* Whether a part's memory is still there: it may have gone back to the system without a word. */
static bool there(const struct part *p) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), low = p->low & ~(page - 1);
    static unsigned char *each;
    static size_t space;
    size_t n = (p->high - low + page - 1) / page;
    if (n > space) {
        free(each);
        each = malloc(n);
        space = each ? n : 0;
    }
    return each && mincore((void *)low, p->high - low, each) == 0;
}

/* Writes values down where they have changed. */
static bool look(struct part *p, struct cells *c, int kind, uint64_t moment) {
    WEFT_WORK(WEFT_HALO);
    if (!c->n) return false;
    for (uint32_t k = 0; k < c->n; k++) c->now[k] = value_at(p, c->places[k]);
    if (c->known && !memcmp(c->now, c->seen, c->n * sizeof *c->now)) return false;
    float *now = c->now;
    c->now = c->seen;
    c->seen = now;
    c->known = true;
    const uint32_t head[2] = {p->number, 0};
    weft_write_ghost_record(kind, moment, head, sizeof head, now, c->n * sizeof *now);
    return true;
}

static void part_end(struct part *p);

/* Whether something else than the stores that were seen has changed what neighbours copy. */
static void look_for_unseen(struct part *p, uint64_t moment) {
    if (p->open || (p->checked_at == moment && p->checked_epoch == epoch)) return;
    p->checked_at = moment;
    p->checked_epoch = epoch;
    look(p, &p->edge, UNSEEN, moment);
}

/* Writes the values of a part's ghost cells down if they have changed; returns whether the memory is still there. */
static bool look_at_ghosts(struct part *p, uint64_t moment) {
    if (p->looks && p->looked_at == moment && p->looked_stores == p->stores) return true;
    if (!there(p)) return false;
    p->looked_at = moment;
    p->looked_stores = p->stores;
    look_for_unseen(p, moment);
    if (look(p, &p->ghosts, GHOSTS, moment)) p->looks++;
    return true;
}

/* ---- groups ---- */
/* All that is open is written down, in the order in which it began, with the values that it left. */
void weft_write_open_stores(void) {
    if (!on || !weft_halo_open || weft_self != owner) return;
    WEFT_WORK(WEFT_HALO);
    int n = weft_halo_open;
    for (int k = 0; k < n; k++) {
        struct part *p = groups[k].part;
        weft_write_store_group(&groups[k]);
        runs++;
        if (!--p->open && there(p)) look(p, &p->edge, OWNED, groups[k].moment);
    }
    weft_halo_open = 0;
    last_part = NULL;
    if (++epoch == EPOCHS) give_up("too many stores");
    else if (weft_is_ghost_log_full()) give_up("more than 512 MB of accesses");
}

/* Makes room for one more element in an array of `n`; returns false without memory. */
static bool grown(void **array, uint32_t n, uint32_t *space, size_t each) {
    if (n < *space) return true;
    uint32_t more = *space ? *space * 2 : FIRST;
    void *found = realloc(*array, more * each);
    if (!found) return false;
    *array = found;
    *space = more;
    return true;
}

/* The line of a load among those of a group. */
static uint32_t read_of(struct group *g, const struct load *l) {
    for (uint32_t r = 0; r < g->reads; r++)
        if (g->read[r].at == l->at && g->read[r].part == l->part) return r;
    if (g->reads == READS) return READS;
    g->read[g->reads] = *l;
    uint64_t own = runs + (uint64_t)(g - groups); /* what this group stores comes behind what it loads */
    if (l->runs > own) g->read[g->reads].runs = own;
    g->hash = mixed(mixed(g->hash, l->at), l->part->number);
    return g->reads++;
}

/* The ghosts loaded since the store before go with the cell that is stored now. */
static void take_window(struct group *g, uint32_t target) {
    uint64_t first = window_n > WINDOW ? window_n - WINDOW : 0;
    for (uint64_t k = first; k < window_n; k++) {
        const struct load *l = &window[k % WINDOW];
        uint32_t r = read_of(g, l);
        if (r == READS) continue;
        if (g->pairs_n == MOST_PAIRS || !grown((void **)&g->pairs, g->pairs_n, &g->pairs_space, sizeof *g->pairs)) {
            give_up("one line uses too many ghost cells");
            return;
        }
        g->pairs[g->pairs_n++] = (struct pair){.read = r, .ghost = l->place, .target = target};
        g->hash = mixed(g->hash, (uint64_t)l->place << 32 | target);
    }
    window_n = 0;
}

/* Returns the open group of stores that one place in the code makes into a part, a new one if there is none. */
static struct group *group_of(struct part *p, uintptr_t at, bool copies, uint64_t moment) {
    for (int k = 0; k < weft_halo_open; k++)
        if (groups[k].at == at && groups[k].part == p && groups[k].copies == copies) return &groups[k];
    if (weft_halo_open == GROUPS) weft_write_open_stores();
    if (!on) return NULL;
    look_for_unseen(p, moment);
    struct group *g = &groups[weft_halo_open++];
    g->at = at;
    g->part = p;
    g->copies = copies;
    g->of_ghosts = false;
    g->hash = mixed(mixed(at, p->number), copies);
    g->moment = moment;
    g->places_n = g->pairs_n = g->reads = 0;
    p->open++;
    return g;
}

/* Records a store into a cell of a part, with the ghost cells that were loaded for it. */
static void stored(struct part *p, uint32_t place, uintptr_t at, bool copies, uint64_t moment) {
    WEFT_WORK(WEFT_HALO);
    bool ghost = (p->cells[place] & OF_CELL) == GHOST;
    p->stores += ghost;
    if (p == last_part && place == last_place) { /* v = 0; v += a; v += b: one store */
        if (ghost) window_n = 0;
        else take_window(last_group, place);
        return;
    }
    if (p->cells[place] >> EPOCH_SHIFT == epoch) weft_write_open_stores();
    struct group *g = on ? group_of(p, at, copies, moment) : NULL;
    if (!g) return;
    if (!grown((void **)&g->places, g->places_n, &g->places_space, sizeof *g->places)) {
        give_up("there is no memory");
        return;
    }
    g->places[g->places_n++] = place;
    g->hash = mixed(g->hash, place);
    g->of_ghosts |= ghost;
    p->cells[place] = (p->cells[place] & OF_CELL) | epoch << EPOCH_SHIFT;
    if (ghost || copies) window_n = 0;
    else take_window(g, place);
    last_part = p;
    last_place = place;
    last_group = g;
}

/* Records a load of a ghost cell. */
static void loaded(struct part *p, uint32_t place, uintptr_t at, uint64_t moment) {
    WEFT_WORK(WEFT_HALO);
    for (int k = 0; k < weft_halo_open; k++)
        if (groups[k].of_ghosts && groups[k].part == p) {
            weft_write_open_stores();
            break;
        }
    if (!on || !look_at_ghosts(p, moment)) return;
    window[window_n++ % WINDOW] =
        (struct load){.part = p, .place = place, .at = at, .looks = p->looks, .runs = runs + (uint64_t)weft_halo_open};
}

static inline uint64_t place_of(const struct part *p, uintptr_t a) {
    return LIKELY(p->shift >= 0) ? (a - p->low) >> p->shift : (a - p->low) / p->size;
}

/* Returns a part that has some of the `n` bytes at an address, NULL for none. */
static inline struct part *part_at(uintptr_t a, size_t n) {
    static int before;
    if (before < parts_n && a < parts[before]->high && a + n > parts[before]->low) return parts[before];
    for (int k = 0; k < parts_n; k++)
        if (a < parts[k]->high && a + n > parts[k]->low) return parts[before = k];
    return NULL;
}

/* Another thread touches something: it may read no more than the ranges, as the parts may end meanwhile. */
static void touched_elsewhere(uintptr_t a, size_t n) {
    for (int k = 0; k < PARTS && !strangers; k++)
        if (a < ranges[k].high && a + n > ranges[k].low) strangers = true;
}

/* What the hooks call, by way of access.c. */
void weft_record_ghost_access(uintptr_t a, size_t n, unsigned kind, uintptr_t at) {
    if (UNLIKELY(weft_self != owner)) {
        touched_elsewhere(a, n);
        return;
    }
    if (UNLIKELY(strangers)) give_up("another thread than the one that declared the arrays uses them");
    struct part *p = on ? part_at(a, n) : NULL;
    if (kind & WEFT_HOOK_FREE) {
        if (p) weft_forget_arrays_of_unknown_widths(a, a + n);
        for (; p; p = part_at(a, n)) part_end(p);
    }
    if (!p) return;
    uint64_t first = a > p->low ? place_of(p, a) : 0, last = place_of(p, a + n - 1);
    if (LIKELY(first == last && !(p->cells[first] & OF_CELL))) return;
    if (last >= p->count) last = p->count - 1;
    bool copies = n > LONGEST_LOAD && n > p->size;
    uint64_t moment = UINT64_MAX;
    for (uint64_t place = first; place <= last; place++) {
        uint32_t class = p->cells[place] & OF_CELL;
        if (class == INNER) continue;
        if (moment == UINT64_MAX) {
            static uint64_t before;
            moment = weft_count_own_calls();
            if (moment != before) {
                weft_write_open_stores();
                window_n = 0;
            }
            before = moment;
        }
        if (kind & WEFT_HOOK_READ && class == GHOST && !copies) loaded(p, (uint32_t)place, at, moment);
        if (on && kind & WEFT_HOOK_WRITE) stored(p, (uint32_t)place, at, copies, moment);
        if (!on) return;
    }
}

/* ---- parts ---- */
/* Returns whether a cell of a part is a ghost, at the edge that neighbours copy, or inside. */
static int class_of(const struct part *p, uint64_t place) {
    bool edge = false, bare = true; /* without ghosts: what is made of other arrays' goes into its outermost cells */
    for (int d = 0; d < p->dims; d++) bare &= !p->halo[d];
    for (int d = p->dims - 1; d >= 0; d--) {
        int64_t n = p->shape[d], width = p->halo[d], at = (int64_t)(place % (uint64_t)n);
        place /= (uint64_t)n;
        if (at < width || at >= n - width) return GHOST;
        edge |= at < 2 * width + bare || at >= n - 2 * width - bare;
    }
    return edge ? EDGE : INNER;
}

/* Tells the hooks of each run of cells of the shell that lie one behind the other. */
static void shell_watch(const struct part *p, int by) {
    for (uint64_t k = 0; k < p->count;) {
        uint64_t first = k;
        while (k < p->count && (p->cells[k] & OF_CELL) != INNER) k++;
        if (k > first) weft_change_watched_addresses(p->low + first * p->size, p->low + k * p->size, by);
        while (k < p->count && (p->cells[k] & OF_CELL) == INNER) k++;
    }
}

/* Frees the lists of a set of cells. */
static void cells_free(struct cells *c) {
    free(c->places);
    free(c->seen);
    free(c->now);
}

/* Frees what is known of a part. */
static void part_free(struct part *p) {
    if (p->cells) munmap(p->cells, p->count * sizeof *p->cells);
    cells_free(&p->edge);
    cells_free(&p->ghosts);
    free(p);
}

/* Ends the watch of a part, whose memory is used for something else from here on. */
static void part_end(struct part *p) {
    weft_write_open_stores();
    window_n = 0;
    shell_watch(p, -1);
    for (int k = 0; k < parts_n; k++)
        if (parts[k] == p) {
            parts[k] = parts[--parts_n];
            ranges[k] = ranges[parts_n];
            ranges[parts_n].high = 0;
            break;
        }
    part_free(p);
}

/* Makes the lists for a set of `n` cells; false without memory. */
static bool cells_make(struct cells *c, uint32_t n) {
    c->places = malloc(n * sizeof *c->places + 1);
    c->seen = malloc(n * sizeof *c->seen + 1);
    c->now = malloc(n * sizeof *c->now + 1);
    return c->places && c->seen && c->now;
}

/* Marks which cells of a part are ghosts and which are at its edge; false without memory. */
static bool shell_make(struct part *p) {
    uint32_t counts[3] = {0};
    p->cells = mmap(NULL, p->count * sizeof *p->cells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p->cells == MAP_FAILED) {
        p->cells = NULL;
        return false;
    }
    for (uint64_t k = 0; k < p->count; k++) {
        int class = class_of(p, k);
        counts[class]++;
        if (class != INNER) p->cells[k] = (uint32_t)class;
    }
    if (!counts[GHOST]) counts[EDGE] = 0; /* nobody copies them */
    if (!cells_make(&p->edge, counts[EDGE]) || !cells_make(&p->ghosts, counts[GHOST])) return false;
    for (uint64_t k = 0; k < p->count; k++) {
        struct cells *c = p->cells[k] == EDGE ? &p->edge : p->cells[k] == GHOST ? &p->ghosts : NULL;
        if (c && counts[p->cells[k]]) c->places[c->n++] = (uint32_t)k;
    }
    return true;
}

/* Copies the shape and the widths of ghosts into a part; returns whether they make sense. */
static bool sizes_taken(struct part *p, const int64_t *shape, const int64_t *halo) {
    p->count = 1;
    for (int d = 0; d < p->dims; d++) {
        if (halo[d] < 0 || shape[d] <= 2 * halo[d] || (uint64_t)shape[d] > INT32_MAX / p->count) return false;
        p->shape[d] = shape[d];
        p->halo[d] = halo[d];
        p->count *= (uint64_t)shape[d];
    }
    p->high = p->low + p->count * p->size;
    if (!p->low || !there(p)) return false;
    if (weft_is_readable((const void *)p->low, p->high - p->low)) return true;
    weft_note_unreadable_buffer();
    return false;
}

/* Begins to watch a part, and writes its declaration down. */
static void part_add(struct part *p, const struct said *said) {
    p->number = parts_made++;
    ranges[parts_n].low = p->low;
    ranges[parts_n].high = p->high;
    parts[parts_n++] = p;
    uint64_t moment = weft_count_own_calls();
    weft_write_array_declaration(p, said, moment);
    look(p, &p->edge, OWNED, moment);
    look_at_ghosts(p, moment);
    shell_watch(p, 1);
    weft_halo_on = 1;
}

bool weft_is_ghost_watch_thread(void) { return on && weft_self == owner; }

/* Begins to watch an array with ghost cells of these widths; returns whether that is possible. */
bool weft_watch_ghost_array(const struct part *given, const int64_t *shape, const int64_t *halo, struct said *said) {
    weft_write_open_stores();
    struct part *p = on ? calloc(1, sizeof *p) : NULL;
    if (!p) return false;
    *p = *given;
    p->shift = p->size && !(p->size & (p->size - 1)) ? __builtin_ctzll(p->size) : -1;
    if (!sizes_taken(p, shape, halo) || !shell_make(p)) {
        part_free(p);
        return false;
    }
    for (int k = parts_n - 1; k >= 0; k--)
        if (p->low < parts[k]->high && p->high > parts[k]->low) part_end(parts[k]);
    if (parts_n == PARTS) {
        part_free(p);
        return false;
    }
    part_add(p, said);
    said->before = p->number;
    return true;
}

/* `halo` NULL: its widths are told by receives. */
static void declare(const struct part *given, const int64_t *shape, const int64_t *halo, struct said *said) {
    if (!weft_recording || !weft_self || weft_replay_path[0] || weft_level != WEFT_LEVEL_TRACE ||
        weft_is_left_out(WEFT_ACCESSES) || weft_is_left_out(WEFT_HALO))
        return;
    WEFT_WORK(WEFT_HALO);
    if (!weft_accessing) {
        weft_record_access_note("uses of ghost cells: the program was not built with `weft cc`");
        return;
    }
    if (!owner) {
        owner = weft_self;
        on = weft_open_ghost_log();
    }
    if (!weft_is_ghost_watch_thread()) return;
    bool fits = given->low && given->dims > 0 && given->dims <= DIMENSIONS && type_known(given->letter, given->size);
    uint64_t cells = 1;
    for (int d = 0; fits && d < given->dims; d++)
        if ((fits = shape[d] > 0 && (uint64_t)shape[d] <= INT32_MAX / cells)) cells *= (uint64_t)shape[d];
    if (fits) weft_forget_arrays_of_unknown_widths(given->low, given->low + cells * given->size);
    fits = fits && said->lag >= 0 &&
           (halo ? weft_watch_ghost_array(given, shape, halo, said)
                 : weft_watch_array_of_unknown_widths(given, shape, said));
    if (!fits)
        weft_record_access_note("uses of ghost cells: an array was declared that cannot be one, or is one too many");
}

/* An array whose outermost cells, `halo` of them at both ends of each dimension, are copies of what other ranks own. */
VISIBLE void weft_halo_part(const void *data, int letter, size_t size, const char *of, int dims, const int64_t *shape,
                            const int64_t *halo, const void *comm, int lag, const char *const at[2], int line);
/* Called by a C program: declares an array with ghost cells that is cut over a communicator. */
void weft_halo_part(const void *data, int letter, size_t size, const char *of, int dims, const int64_t *shape,
                    const int64_t *halo, const void *comm, int lag, const char *const at[2], int line) {
    struct said said = {.of = of, .file = at[0], .function = at[1], .line = line, .lag = lag};
    weft_read_process_grid(*(const MPI_Comm *)comm, &said.grid);
    const struct part given = {.low = (uintptr_t)data, .letter = letter, .size = size, .dims = dims};
    declare(&given, shape, halo, &said);
}

/* The same, where `lower` says which cell of the whole array is the first that this rank owns. */
VISIBLE void weft_halo_part_at(const void *data, int letter, size_t size, const char *of, int dims,
                               const int64_t *shape, const int64_t *halo, const int64_t *lower, const int64_t *periodic,
                               int lag, const char *const at[2], int line);
/* Called by a C program: declares an array with ghost cells by its place in the whole array. */
void weft_halo_part_at(const void *data, int letter, size_t size, const char *of, int dims, const int64_t *shape,
                       const int64_t *halo, const int64_t *lower, const int64_t *periodic, int lag,
                       const char *const at[2], int line) {
    struct said said = {
        .of = of, .file = at[0], .function = at[1], .line = line, .lag = lag, .lower = lower, .periodic = periodic};
    const struct part given = {.low = (uintptr_t)data, .letter = letter, .size = size, .dims = dims};
    declare(&given, shape, halo, &said);
}

/* Returns the communicator of a Fortran handle. */
static MPI_Comm of_fortran(int handle) {
    MPI_Comm comm = MPI_COMM_NULL;
    if (sizeof comm == sizeof handle) {
        memcpy(&comm, &handle, sizeof comm);
        return comm;
    }
    MPI_Comm (*known)(int) = NULL;
    *(void **)(&known) = dlsym(RTLD_DEFAULT, "PMPI_Comm_f2c");
    return known ? known(handle) : comm;
}

/* Fortran's first index is the fastest. */
static void turn(const int64_t *given, int64_t *turned, int dims) {
    for (int d = 0; d < dims && d < DIMENSIONS; d++) turned[d] = given[dims - 1 - d];
}

/* The same of Fortran: with a communicator, or with `lower` and `periodic` in its place. */
VISIBLE void weft_halo_part_fortran(const void *data, int letter, size_t size, const char *of, int dims,
                                    const int64_t *shape, const int64_t *halo, const int *comm, const int64_t *lower,
                                    const int64_t *periodic);
/* Called by a Fortran program: declares an array with ghost cells. */
void weft_halo_part_fortran(const void *data, int letter, size_t size, const char *of, int dims, const int64_t *shape,
                            const int64_t *halo, const int *comm, const int64_t *lower, const int64_t *periodic) {
    int64_t lengths[DIMENSIONS], widths[DIMENSIONS], firsts[DIMENSIONS], rounds[DIMENSIONS];
    struct said said = {.of = of,
                        .file = "",
                        .function = "",
                        .lower = lower ? firsts : NULL,
                        .periodic = periodic ? rounds : NULL,
                        .reversed = true};
    weft_read_process_grid(comm ? of_fortran(*comm) : MPI_COMM_NULL, &said.grid);
    const struct part given = {.low = (uintptr_t)data, .letter = letter, .size = size, .dims = dims};
    turn(shape, lengths, dims);
    if (halo) turn(halo, widths, dims);
    if (lower) turn(lower, firsts, dims);
    if (periodic) turn(periodic, rounds, dims);
    declare(&given, lengths, halo ? widths : NULL, &said);
}

VISIBLE void weft_halo_part_end(const void *data);
/* Called by the program: an array with ghost cells ends. */
void weft_halo_part_end(const void *data) {
    struct part *p = weft_is_ghost_watch_thread() ? part_at((uintptr_t)data, 1) : NULL;
    if (!p) return;
    weft_forget_arrays_of_unknown_widths(p->low, p->high);
    part_end(p);
}

/* MPI is finalized, or the program ends without it: nobody gets anything any more. */
void weft_end_ghost_watch(void) {
    if (on && strangers) give_up("another thread than the one that declared the arrays uses them");
    if (!on) return;
    weft_write_open_stores();
    if (on) weft_write_ghost_record(END, weft_count_own_calls(), NULL, 0, NULL, 0);
    stop();
}

/* A child of the process is not the rank. */
void weft_end_ghost_watch_in_child(void) {
    weft_drop_ghost_log_in_child();
    on = false;
    weft_halo_on = weft_halo_open = weft_halo_waiting = 0;
}
