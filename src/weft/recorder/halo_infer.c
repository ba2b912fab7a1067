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

enum { MOST_WIDE = 4 }; /* as in width_inference.py */

struct undeclared_array {
    struct ghost_array given;
    struct declaration declaration;
    uintptr_t high;
    int64_t shape[DIMENSIONS], halo[DIMENSIONS], lower[DIMENSIONS], periodic[DIMENSIONS];
    bool filled; /* by a receive that was seen */
    struct undeclared_array *next;
};

volatile int weft_halo_waiting;
static struct undeclared_array *undeclared_arrays;

/* Free what is known of an array whose widths are not declared. */
static void free_undeclared(struct undeclared_array *array) {
    free((char *)(uintptr_t)array->declaration.of);
    free(array);
}

/* Set weft_halo_waiting, which the access hooks read, to the number of arrays whose widths are not declared. */
static void update_undeclared_count(void) {
    int n = 0;
    for (struct undeclared_array *array = undeclared_arrays; array; array = array->next) n++;
    weft_halo_waiting = n;
}

/* Forget the arrays between these addresses whose widths are not declared, and write down that they end. */
void weft_forget_arrays_of_unknown_widths(uintptr_t low, uintptr_t high) {
    if (!undeclared_arrays) return;
    for (struct undeclared_array **link = &undeclared_arrays, *array; (array = *link);)
        if (array->given.low < high && array->high > low) {
            const uint32_t head[2] = {array->declaration.before, 0};
            weft_write_ghost_record(ENDED, weft_count_own_calls(), head, sizeof head, NULL, 0);
            *link = array->next;
            free_undeclared(array);
        } else link = &array->next;
    update_undeclared_count();
}

/* Watch an array with the widths that are known of its ghosts so far; return whether that is possible. */
static bool watch_with_known_widths(struct undeclared_array *array) {
    return weft_watch_ghost_array(&array->given, array->shape, array->halo, &array->declaration);
}

/* Widen the ghosts of an array to `halo`, as a receive has shown, and watch it anew. */
static void widen_ghosts(struct undeclared_array *array, const int64_t *halo) {
    bool more = false;
    int64_t wider[DIMENSIONS];
    for (int d = 0; d < array->given.dims; d++) {
        wider[d] = halo[d] > array->halo[d] ? halo[d] : array->halo[d];
        more |= wider[d] != array->halo[d];
        if (array->shape[d] <= 2 * wider[d]) return;
    }
    if (!more) return;
    memcpy(array->halo, wider, sizeof wider);
    watch_with_known_widths(array);
}

/* Return whether two arrays have one shape and one grid of ranks. */
static bool are_alike(const struct undeclared_array *first, const struct undeclared_array *second) {
    return first->given.dims == second->given.dims &&
           !memcmp(first->shape, second->shape, (size_t)first->given.dims * sizeof *first->shape) &&
           !memcmp(&first->declaration.grid, &second->declaration.grid, sizeof first->declaration.grid);
}

/* Return whether an array probably holds new values for the inner part of another one, and so has no ghosts: it has the
 * size of that one without its ghosts, and no receive has gone into it. */
static bool is_inner_part(const struct undeclared_array *array, const struct undeclared_array *outer) {
    bool has_guessed_ghosts = false;
    for (int d = 0; d < array->given.dims; d++) {
        if (outer->given.dims != array->given.dims || array->shape[d] != outer->shape[d] - 2 * outer->halo[d])
            return false;
        has_guessed_ghosts |= array->halo[d] != 0;
    }
    return has_guessed_ghosts && !array->filled;
}

/* Give the widths that a receive has shown for an array to all arrays of the same shape and grid of ranks. Arrays that
 * are the inner part of this one get widths of 0. */
static void spread_ghost_widths(struct undeclared_array *from) {
    for (struct undeclared_array *array = undeclared_arrays; array; array = array->next) {
        if (array == from) continue;
        if (are_alike(array, from)) widen_ghosts(array, from->halo);
        else if (is_inner_part(array, from)) {
            memset(array->halo, 0, sizeof array->halo);
            watch_with_known_widths(array);
        }
    }
}

/* Find the layers of ghosts that a received box of elements fills, by the indices of its first and its last element:
 * set `halo` to their number in one dimension and 0 in the others. Return false if it is no such box (as _find_side of
 * weft/halo/width_inference.py). */
static bool find_ghost_layers(const struct undeclared_array *array, const int64_t *first, const int64_t *last,
                              int64_t *halo) {
    int thin = 0, outer = 0, axis = -1, end = -1;
    for (int d = 0; d < array->given.dims; d++) {
        int64_t n = array->shape[d], wide = last[d] - first[d] + 1;
        halo[d] = 0;
        if (wide < 1) return false;
        if (wide > MOST_WIDE || 2 * wide >= n) continue;
        thin++, axis = d;
        if (!first[d] || last[d] == n - 1) outer++, end = d;
    }
    if (thin > 1) axis = end;
    if (!thin || (thin > 1 && outer != 1)) return false;
    int64_t below = first[axis], above = array->shape[axis] - 1 - last[axis];
    int64_t layers = below < above ? last[axis] + 1 : array->shape[axis] - first[axis];
    if (below == above || layers > MOST_WIDE) return false;
    halo[axis] = layers;
    return true;
}

/* Set `index` to the indices of the array's element number `place`. */
static void find_indices(const struct undeclared_array *array, uint64_t place, int64_t *index) {
    for (int d = array->given.dims - 1; d >= 0; place /= (uint64_t)array->shape[d--])
        index[d] = (int64_t)(place % (uint64_t)array->shape[d]);
}

/* Learn from a receive into [low, high) how wide the ghosts of an array are. */
void weft_learn_ghost_widths(uintptr_t low, uintptr_t high) {
    if (!weft_is_ghost_watch_thread()) return;
    WEFT_WORK(WEFT_HALO);
    for (struct undeclared_array *array = undeclared_arrays; array; array = array->next) {
        if (low < array->given.low || high > array->high || low >= high) continue;
        int64_t first[DIMENSIONS], last[DIMENSIONS], halo[DIMENSIONS];
        find_indices(array, (low - array->given.low) / array->given.size, first);
        find_indices(array, (high - 1 - array->given.low) / array->given.size, last);
        if (!find_ghost_layers(array, first, last, halo)) return;
        bool was_filled = array->filled;
        array->filled = true;
        int64_t before[DIMENSIONS];
        memcpy(before, array->halo, sizeof before);
        widen_ghosts(array, halo);
        if (!was_filled || memcmp(before, array->halo, sizeof before)) spread_ghost_widths(array);
        return;
    }
}

/* Guess one layer of ghosts in each dimension that the communicator may cut: if it has fewer dimensions, in the first
 * ones. */
static void guess_ghost_widths(struct undeclared_array *array) {
    int cut_count = array->declaration.grid.n > 0 && array->declaration.grid.n < array->given.dims
                        ? array->declaration.grid.n
                        : array->given.dims;
    for (int d = 0; d < array->given.dims; d++) array->halo[d] = d < cut_count && array->shape[d] > 2;
}

/* Watch an array whose widths of ghosts no line declares, with guessed ones until receives show them; return false if
 * that is not possible. */
bool weft_watch_array_of_unknown_widths(const struct ghost_array *given, const int64_t *shape,
                                        const struct declaration *declaration) {
    struct undeclared_array *array = calloc(1, sizeof *array);
    if (!array) return false;
    array->given = *given;
    array->declaration = *declaration;
    array->declaration.of = strdup(declaration->of ? declaration->of : "");
    array->declaration.inferred = true;
    size_t bytes = (size_t)given->dims * sizeof *shape;
    memcpy(array->shape, shape, bytes);
    array->high = given->low + given->size;
    uint64_t cells = 1;
    for (int d = 0; d < given->dims; d++) cells *= (uint64_t)shape[d];
    array->high = given->low + cells * given->size;
    if (declaration->lower) array->declaration.lower = memcpy(array->lower, declaration->lower, bytes);
    if (declaration->periodic) array->declaration.periodic = memcpy(array->periodic, declaration->periodic, bytes);
    guess_ghost_widths(array);
    for (struct undeclared_array *other = undeclared_arrays; other; other = other->next) {
        if (!other->filled) continue;
        if (are_alike(array, other)) memcpy(array->halo, other->halo, sizeof array->halo);
        else if (is_inner_part(array, other)) memset(array->halo, 0, sizeof array->halo);
    }
    if (!watch_with_known_widths(array)) {
        free_undeclared(array);
        return false;
    }
    array->declaration.again = true; /* from now on */
    array->next = undeclared_arrays;
    undeclared_arrays = array;
    update_undeclared_count();
    return true;
}
