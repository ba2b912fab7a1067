/* What a processor sees of elements that are not its own: edges as they were last renewed, what the loop's clauses bring,
 * and else no value that means anything. */
#include <stdlib.h>
#include <string.h>

#include "loops.h"
#include "objects.h"
#include "scattered.h"
#include "turns.h"

enum { SEEN_OWN, SEEN_EDGE, SEEN_BEHIND, SEEN_AHEAD, SEEN_FAR };

/* Copies of an array: as it was last renewed, before this loop, and (of the processor that is the process itself) with the
 * elements of all. Owned by the table. */
static struct copies {
    const struct object *object;
    uintptr_t low;
    size_t bytes;
    char *renewed, *before, *whole;
    struct copies *next;
} *all;

/* Return the saved copies of an array; emptied if its size changed. */
static struct copies *find_or_add_copies(const struct object *object) {
    struct copies *copies = all;
    size_t bytes = object->high - object->low;
    while (copies && (copies->object != object || copies->low != object->low)) copies = copies->next;
    if (copies && copies->bytes == bytes) return copies;
    if (!copies) {
        copies = calloc(1, sizeof *copies);
        if (!copies) abort();
        copies->next = all;
        all = copies;
    }
    free(copies->renewed), free(copies->before), free(copies->whole);
    *copies = (struct copies){.object = object, .low = object->low, .bytes = bytes, .next = copies->next};
    return copies;
}

/* Copy an array's memory to *copy, which is allocated at the first time. */
static void save_array_copy(char **copy, const struct object *object) {
    if (!*copy) *copy = malloc(object->high - object->low);
    if (!*copy) abort();
    memcpy(*copy, (void *)object->low, object->high - object->low);
}

void views_renew(struct object *object) {
    if (is_distributed_in_memory(object)) save_array_copy(&find_or_add_copies(object)->renewed, object);
}

/* Return how wide the ACROSS clause of the loop makes an array's dependences; NULL if the clause does not name it. */
static const struct widths *find_across_widths(const struct object *object) {
    for (int i = 0; i < weft_construct.across_count; i++)
        if (weft_construct.across[i].object == object) return &weft_construct.across[i].widths;
    return NULL;
}

/* When a loop begins: save the arrays of its ACROSS clause, since reads ahead of the loop find the values from before
 * it. */
void save_arrays_before_across_loop(void) {
    struct object *object;
    for (uintptr_t address = 0; (object = find_object_from(address)); address = object->high)
        if (is_distributed_in_memory(object) && find_across_widths(object))
            save_array_copy(&find_or_add_copies(object)->before, object);
}

/* Return whether a REMOTE_ACCESS clause of the loop names an array. */
static bool is_named_remote(const struct object *object) {
    for (int i = 0; i < weft_construct.remote_count; i++)
        if (weft_construct.remotes[i].object == object) return true;
    return false;
}

/* Return the loop's direction along a dimension of an array: 1 upward, -1 downward. */
static int find_direction_along_dimension(const struct object *object, int dimension, const int direction[]) {
    for (int d = 0; d < object->root->rank && d < weft_construct.on->rank; d++) {
        const struct term *on_term = &weft_construct.at[d], *mapping = &object->map[d];
        if (mapping->axis == dimension && on_term->axis >= 0)
            return (on_term->coefficient < 0) != (mapping->coefficient < 0) ? -direction[on_term->axis]
                                                                            : direction[on_term->axis];
    }
    return 1;
}

/* Return for each index of a dimension what a processor sees of it (SEEN_OWN, SEEN_EDGE, SEEN_FAR, ...). The caller
 * frees the array. */
static unsigned char *classify_indices(const struct object *object, const struct share *share, int dimension,
                                       const int direction[]) {
    const struct widths *across = find_across_widths(object);
    int way = across ? find_direction_along_dimension(object, dimension, direction) : 1;
    unsigned char *state = malloc((size_t)(object->extent[dimension] > 0 ? object->extent[dimension] : 1));
    if (!state) abort();
    for (int64_t i = 0; i < object->extent[dimension]; i++) {
        int64_t below = share->first[dimension] - i, above = i - share->last[dimension];
        state[i] = SEEN_FAR;
        if (share->own[dimension][i]) state[i] = SEEN_OWN;
        else if (!share->any) continue;
        else if (across && below > 0 && below <= across->low[dimension]) state[i] = way > 0 ? SEEN_BEHIND : SEEN_AHEAD;
        else if (across && above > 0 && above <= across->high[dimension]) state[i] = way > 0 ? SEEN_AHEAD : SEEN_BEHIND;
        else if (below > 0 && below <= object->renewed.low[dimension]) state[i] = SEEN_EDGE;
        else if (above > 0 && above <= object->renewed.high[dimension]) state[i] = SEEN_EDGE;
        else if (is_distributed_by_table(object->root)) state[i] = SEEN_EDGE;
    }
    return state;
}

/* Fill memory with a pattern that is no meaningful number: NaN as floats or doubles, a large integer. */
static void fill_with_poison(char *to, size_t bytes) {
    static const unsigned char pattern[4] = {0xA7, 0xA7, 0xF8, 0x7F};
    for (size_t i = 0; i < bytes; i++) to[i] = (char)pattern[i % 4];
}

/* Give an element of other processors the value that this one sees: the current one, one from a saved copy, or a
 * pattern that means nothing. `seen_counts`: how many of its indices are seen in which way. */
static void set_visible_value(const struct object *object, const struct copies *copies, char *element,
                              const int seen_counts[]) {
    size_t offset = (size_t)(element - (char *)object->low);
    bool far = seen_counts[SEEN_FAR] > 0, carried = seen_counts[SEEN_BEHIND] + seen_counts[SEEN_AHEAD] > 0;
    if (!far && carried && seen_counts[SEEN_EDGE] == 0) {
        if (seen_counts[SEEN_AHEAD] && copies->before) memcpy(element, copies->before + offset, object->element);
        return;
    }
    bool corner = seen_counts[SEEN_EDGE] + seen_counts[SEEN_BEHIND] + seen_counts[SEEN_AHEAD] > 1;
    if (!far && object->renewed_at && copies->renewed && (object->corner || !corner))
        memcpy(element, copies->renewed + offset, object->element);
    else fill_with_poison(element, object->element);
}

/* Replace all elements of an array that are not a processor's own by what it sees of them. */
static void install_view_of_array(struct object *object, const struct share *share, const int direction[]) {
    const struct copies *copies = find_or_add_copies(object);
    unsigned char *state[WEFT_MAX_RANK];
    for (int k = 0; k < object->rank; k++) state[k] = classify_indices(object, share, k, direction);
    int64_t index[WEFT_MAX_RANK] = {0};
    int step = object->order == WEFT_ORDER_C ? -1 : 1, inner = step < 0 ? object->rank - 1 : 0, k;
    for (char *at = (char *)object->low; at < (char *)object->high; at += object->element) {
        int counts[SEEN_FAR + 1] = {0};
        for (int d = 0; d < object->rank; d++) counts[state[d][index[d]]]++;
        if (!share->any) counts[SEEN_FAR] = 1;
        if (counts[SEEN_OWN] < object->rank || !share->any) set_visible_value(object, copies, at, counts);
        for (k = inner; k >= 0 && k < object->rank && ++index[k] == object->extent[k]; k += step) index[k] = 0;
        if (k < 0 || k >= object->rank) break;
    }
    for (int d = 0; d < object->rank; d++) free(state[d]);
}

/* Let memory show what one processor sees: its own elements, renewed edges and fetched elements; all else, and private
 * variables, gets a pattern that means nothing. */
void show_view_of_processor(int processor, const int direction[]) {
    struct object *object;
    for (uintptr_t address = 0; (object = find_object_from(address)); address = object->high) {
        if (!is_distributed_in_memory(object)) continue;
        save_array_copy(&find_or_add_copies(object)->whole, object);
        if (!is_named_remote(object))
            install_view_of_array(object, find_or_compute_share(object, processor), direction);
    }
    for (int i = 0; i < weft_construct.private_count; i++)
        fill_with_poison((char *)weft_construct.privates[i].low,
                         weft_construct.privates[i].high - weft_construct.privates[i].low);
}

static void restore_saved_run(void *object_pointer, char *memory, size_t bytes) {
    const struct object *object = object_pointer;
    memcpy(memory, find_or_add_copies(object)->whole + (memory - (char *)object->low), bytes);
}

/* Undo show_view_of_processor: elements that are not the processor's own get the values of all again. */
void undo_view_of_processor(int processor) {
    struct object *object;
    for (uintptr_t address = 0; (object = find_object_from(address)); address = object->high)
        if (is_distributed_in_memory(object) && find_or_add_copies(object)->whole)
            visit_runs_of_elements(object, find_or_compute_share(object, processor), false, restore_saved_run, object);
}
