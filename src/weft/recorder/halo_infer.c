/* Arrays with ghost cells whose widths no line declares. Such an array is watched from its declaration on as one with one
 * layer of ghosts in each dimension that the communicator may cut. A receive that fills more layers than that declares it
 * anew; what was written down of it before is then of another array, for the analysis. Whether all ranks' receives show the
 * widths that it was watched with, weft.halo.width_inference asks when the run is over; here a guess is enough.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "halo.h"
#include "process.h"

enum { MOST_WIDE = 4 }; /* as MOST_WIDE of inferring.py */

struct waiting {
    struct part given;
    struct said said;
    uintptr_t high;
    int64_t shape[DIMENSIONS], halo[DIMENSIONS], lower[DIMENSIONS], periodic[DIMENSIONS];
    bool filled; /* by a receive that was seen */
    struct waiting *next;
};

volatile int weft_halo_waiting;
static struct waiting *waiting;

static void forget(struct waiting *w) {
    free((char *)(uintptr_t)w->said.of);
    free(w);
}

/* Counts the arrays whose widths of ghosts are not known yet. */
static void count(void) {
    int n = 0;
    for (struct waiting *w = waiting; w; w = w->next) n++;
    weft_halo_waiting = n;
}

/* Ends the arrays in a range of memory whose widths are not known yet. */
void weft_forget_arrays_of_unknown_widths(uintptr_t low, uintptr_t high) {
    if (!waiting) return;
    for (struct waiting **link = &waiting, *w; (w = *link);)
        if (w->given.low < high && w->high > low) {
            const uint32_t head[2] = {w->said.before, 0};
            weft_write_ghost_record(ENDED, weft_count_own_calls(), head, sizeof head, NULL, 0);
            *link = w->next;
            forget(w);
        } else link = &w->next;
    count();
}

static bool declared(struct waiting *w) { return weft_watch_ghost_array(&w->given, w->shape, w->halo, &w->said); }

/* Widens the ghosts of an array to `halo`, as a receive has shown, and declares it anew. */
static void widen(struct waiting *w, const int64_t *halo) {
    bool more = false;
    int64_t wide[DIMENSIONS];
    for (int d = 0; d < w->given.dims; d++) {
        wide[d] = halo[d] > w->halo[d] ? halo[d] : w->halo[d];
        more |= wide[d] != w->halo[d];
        if (w->shape[d] <= 2 * wide[d]) return;
    }
    if (!more) return;
    memcpy(w->halo, wide, sizeof wide);
    declared(w);
}

/* Returns whether two arrays have one shape and one grid of ranks. */
static bool alike(const struct waiting *one, const struct waiting *other) {
    return one->given.dims == other->given.dims &&
           !memcmp(one->shape, other->shape, (size_t)one->given.dims * sizeof *one->shape) &&
           !memcmp(&one->said.grid, &other->said.grid, sizeof one->said.grid);
}

/* New values go to an array that has the size of the other one without its ghosts. */
static bool inner(const struct waiting *w, const struct waiting *of) {
    bool has = false;
    for (int d = 0; d < w->given.dims; d++) {
        if (of->given.dims != w->given.dims || w->shape[d] != of->shape[d] - 2 * of->halo[d]) return false;
        has |= w->halo[d] != 0;
    }
    return has && !w->filled;
}

/* Gives the widths that were found for an array to those like it. */
static void spread(struct waiting *from) {
    for (struct waiting *w = waiting; w; w = w->next) {
        if (w == from) continue;
        if (alike(w, from)) widen(w, from->halo);
        else if (inner(w, from)) {
            memset(w->halo, 0, sizeof w->halo);
            declared(w);
        }
    }
}

/* The layer that a box of elements is, by its first and its last one: as _face of inferring.py has it. */
static bool face(const struct waiting *w, const int64_t *first, const int64_t *last, int64_t *halo) {
    int thin = 0, outer = 0, axis = -1, end = -1;
    for (int d = 0; d < w->given.dims; d++) {
        int64_t n = w->shape[d], wide = last[d] - first[d] + 1;
        halo[d] = 0;
        if (wide < 1) return false;
        if (wide > MOST_WIDE || 2 * wide >= n) continue;
        thin++, axis = d;
        if (!first[d] || last[d] == n - 1) outer++, end = d;
    }
    if (thin > 1) axis = end;
    if (!thin || (thin > 1 && outer != 1)) return false;
    int64_t below = first[axis], above = w->shape[axis] - 1 - last[axis];
    int64_t layers = below < above ? last[axis] + 1 : w->shape[axis] - first[axis];
    if (below == above || layers > MOST_WIDE) return false;
    halo[axis] = layers;
    return true;
}

static void indices(const struct waiting *w, uint64_t place, int64_t *index) {
    for (int d = w->given.dims - 1; d >= 0; place /= (uint64_t)w->shape[d--])
        index[d] = (int64_t)(place % (uint64_t)w->shape[d]);
}

/* Learns from a receive into [low, high) how wide the ghosts of an array are. */
void weft_learn_ghost_widths(uintptr_t low, uintptr_t high) {
    if (!weft_is_ghost_watch_thread()) return;
    WEFT_WORK(WEFT_HALO);
    for (struct waiting *w = waiting; w; w = w->next) {
        if (low < w->given.low || high > w->high || low >= high) continue;
        int64_t first[DIMENSIONS], last[DIMENSIONS], halo[DIMENSIONS];
        indices(w, (low - w->given.low) / w->given.size, first);
        indices(w, (high - 1 - w->given.low) / w->given.size, last);
        if (!face(w, first, last, halo)) return;
        bool known = w->filled;
        w->filled = true;
        int64_t before[DIMENSIONS];
        memcpy(before, w->halo, sizeof before);
        widen(w, halo);
        if (!known || memcmp(before, w->halo, sizeof before)) spread(w);
        return;
    }
}

/* One layer in each dimension that the communicator may cut: if it has fewer, the first ones, of Fortran the last. */
static void guess(struct waiting *w) {
    int cut = w->said.grid.n > 0 && w->said.grid.n < w->given.dims ? w->said.grid.n : w->given.dims;
    for (int d = 0; d < w->given.dims; d++) w->halo[d] = d < cut && w->shape[d] > 2;
}

/* Begins to look for the widths of an array's ghosts, which no line declares; false without memory. */
bool weft_watch_array_of_unknown_widths(const struct part *given, const int64_t *shape, const struct said *said) {
    struct waiting *w = calloc(1, sizeof *w);
    if (!w) return false;
    w->given = *given;
    w->said = *said;
    w->said.of = strdup(said->of ? said->of : "");
    w->said.inferred = true;
    size_t n = (size_t)given->dims * sizeof *shape;
    memcpy(w->shape, shape, n);
    w->high = given->low + given->size;
    uint64_t cells = 1;
    for (int d = 0; d < given->dims; d++) cells *= (uint64_t)shape[d];
    w->high = given->low + cells * given->size;
    if (said->lower) w->said.lower = memcpy(w->lower, said->lower, n);
    if (said->periodic) w->said.periodic = memcpy(w->periodic, said->periodic, n);
    guess(w);
    for (struct waiting *other = waiting; other; other = other->next) {
        if (!other->filled) continue;
        if (alike(w, other)) memcpy(w->halo, other->halo, sizeof w->halo);
        else if (inner(w, other)) memset(w->halo, 0, sizeof w->halo);
    }
    if (!declared(w)) {
        forget(w);
        return false;
    }
    w->said.again = true; /* from now on */
    w->next = waiting;
    waiting = w;
    count();
    return true;
}
