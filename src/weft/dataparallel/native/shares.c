/* Which elements and iterations are a processor's, with a grid. */
#include <stdlib.h>
#include <string.h>

#include "loops.h"
#include "objects.h"
#include "ownership.h"
#include "turns.h"

/* What was found of an object, until it is mapped anew. */
static struct kept_shares {
    const struct object *object;
    uintptr_t low;
    uint64_t version, root_version;
    struct share *of[MOST_PROCESSORS];
    struct kept_shares *next;
} *all;

/* Return whether an array has memory and is distributed along a dimension of the grid. */
bool is_distributed_in_memory(const struct object *object) {
    if (!object->array || !object->root || !object->low || !object->element) return false;
    for (int d = 0; d < object->root->rank; d++)
        if (find_grid_axis(object->root, d) >= 0 && object->map[d].axis != WEFT_ALL) return true;
    return false;
}

/* Free a processor's share of an array; NULL is ignored. */
static void free_share(struct share *share) {
    if (!share) return;
    for (int k = 0; k < WEFT_MAX_RANK; k++) free(share->own[k]);
    free(share);
}

/* Return the cached shares (which elements each processor owns) of an array, emptied if it was distributed anew. */
static struct kept_shares *find_or_add_cached_shares(const struct object *object) {
    struct kept_shares *kept = all;
    while (kept && (kept->object != object || kept->low != object->low)) kept = kept->next;
    if (kept && kept->version == object->version && kept->root_version == object->root->version) return kept;
    if (!kept) {
        kept = calloc(1, sizeof *kept);
        if (!kept) abort();
        kept->next = all;
        all = kept;
    }
    for (int p = 0; p < MOST_PROCESSORS; p++) {
        free_share(kept->of[p]);
        kept->of[p] = NULL;
    }
    kept->object = object;
    kept->low = object->low;
    kept->version = object->version;
    kept->root_version = object->root->version;
    return kept;
}

/* Return whether a processor is the first one along all axes of the grid onto which no dimension of the root is
 * distributed; such axes have one owner. */
static bool is_first_on_other_axes(const struct object *root, const int coordinates[], int axis_count) {
    bool used[WEFT_MAX_RANK] = {false};
    for (int d = 0; d < root->rank; d++)
        if (find_grid_axis(root, d) >= 0) used[find_grid_axis(root, d)] = true;
    for (int k = 0; k < axis_count; k++)
        if (!used[k] && coordinates[k]) return false;
    return true;
}

/* Take from a processor's share of an array all elements whose root coordinate in one dimension belongs to another
 * coordinate of the grid. */
static void restrict_share(struct share *share, const struct object *object, int root_dimension, int coordinate) {
    const struct term *mapping = &object->map[root_dimension];
    if (mapping->axis == WEFT_ALL) return;
    if (mapping->axis < 0) {
        share->any &= find_owner_coordinate(object->root, root_dimension, mapping->offset) == coordinate;
        return;
    }
    int k = mapping->axis;
    for (int64_t i = 0; i < object->extent[k]; i++)
        share->own[k][i] &=
            find_owner_coordinate(object->root, root_dimension,
                                  mapping->coefficient * (object->lower[k] + i) + mapping->offset) == coordinate;
}

/* Compute the first and last own index of each dimension of a processor's share of an array, and whether the share is
 * one box without holes. */
static void compute_share_bounds(struct share *share, const struct object *object) {
    share->box = true;
    for (int k = 0; k < object->rank; k++) {
        int64_t n = 0;
        share->first[k] = 0;
        share->last[k] = -1;
        for (int64_t i = object->extent[k] - 1; i >= 0; i--)
            if (share->own[k][i]) {
                share->first[k] = i;
                n++;
            }
        for (int64_t i = 0; i < object->extent[k]; i++)
            if (share->own[k][i]) share->last[k] = i;
        share->any &= n > 0;
        share->box &= n == share->last[k] - share->first[k] + 1;
    }
}

/* Return which elements of an array a processor owns, computed at the first call. The result belongs to the cache. */
const struct share *find_or_compute_share(struct object *object, int processor) {
    struct kept_shares *kept = find_or_add_cached_shares(object);
    if (kept->of[processor]) return kept->of[processor];
    struct share *share = kept->of[processor] = calloc(1, sizeof *share);
    int at[WEFT_MAX_RANK], axes = find_grid_coordinates(processor, at);
    if (!share) abort();
    share->any = is_first_on_other_axes(object->root, at, axes);
    for (int k = 0; k < object->rank; k++) {
        share->own[k] = malloc((size_t)(object->extent[k] > 0 ? object->extent[k] : 1));
        if (!share->own[k]) abort();
        memset(share->own[k], 1, (size_t)(object->extent[k] > 0 ? object->extent[k] : 1));
    }
    for (int d = 0; d < object->root->rank; d++)
        if (find_grid_axis(object->root, d) >= 0) restrict_share(share, object, d, at[find_grid_axis(object->root, d)]);
    compute_share_bounds(share, object);
    return share;
}

/* Which coordinates of the ON array's root are a processor's, by dimension; SHADOW_COMPUTE adds the edges. */
static unsigned char *runs[WEFT_MAX_RANK];
static bool runs_any;

/* Compute which coordinates of the ON array belong to a processor, for is_own_iteration. SHADOW_COMPUTE adds the shadow
 * edges. */
void compute_own_iterations(int processor) {
    int at[WEFT_MAX_RANK], axes = find_grid_coordinates(processor, at);
    const struct object *root = weft_construct.on;
    runs_any = is_first_on_other_axes(root, at, axes);
    for (int d = 0; d < root->rank; d++) {
        int axis = find_grid_axis(root, d);
        int64_t low = 0, high = 0, n = root->extent[d];
        free(runs[d]);
        runs[d] = NULL;
        if (axis < 0 || weft_construct.at[d].axis == WEFT_ALL || n < 1) continue;
        for (int i = 0; i < weft_construct.computed_count; i++)
            if (weft_construct.computed[i].object->root == root) {
                low = weft_construct.computed[i].widths.low[d];
                high = weft_construct.computed[i].widths.high[d];
            }
        runs[d] = calloc(1, (size_t)n);
        if (!runs[d]) abort();
        for (int64_t x = 0; x < n; x++)
            for (int64_t y = x - high; y <= x + low && !runs[d][x]; y++)
                runs[d][x] = y >= 0 && y < n && find_owner_coordinate(root, d, root->lower[d] + y) == at[axis];
    }
}

/* Return whether the loop's ON clause gives an iteration to the processor of the last compute_own_iterations. One
 * outside the bounds goes to the nearest element. */
bool is_own_iteration(const int64_t index[]) {
    for (int d = 0; runs_any && d < weft_construct.on->rank; d++) {
        if (!runs[d]) continue;
        const struct term *on_term = &weft_construct.at[d];
        int64_t x =
            on_term->axis >= 0 ? on_term->coefficient * index[on_term->axis] + on_term->offset : on_term->offset;
        x -= weft_construct.on->lower[d];
        if (!runs[d][x < 0 ? 0 : x >= weft_construct.on->extent[d] ? weft_construct.on->extent[d] - 1 : x])
            return false;
    }
    return runs_any;
}

/* Call `visit` for each run of neighbouring elements that are (`is_owned`) or are not a processor's, in the order of
 * memory. */
void visit_runs_of_elements(const struct object *object, const struct share *share, bool is_owned, run_of *visit,
                            void *context) {
    int inner = object->order == WEFT_ORDER_C ? object->rank - 1 : 0, step = object->order == WEFT_ORDER_C ? -1 : 1;
    int64_t index[WEFT_MAX_RANK] = {0};
    for (char *row = (char *)object->low; row < (char *)object->high;) {
        bool mine = share->any;
        for (int k = 0; k < object->rank; k++) mine &= k == inner || share->own[k][index[k]];
        for (int64_t i = 0, n; i < object->extent[inner]; i += n) {
            bool is = mine && share->own[inner][i];
            for (n = 1; i + n < object->extent[inner] && (mine && share->own[inner][i + n]) == is;) n++;
            if (is == is_owned) visit(context, row + (size_t)i * object->element, (size_t)n * object->element);
        }
        row += (size_t)object->extent[inner] * object->element;
        int k = inner + step;
        while (k >= 0 && k < object->rank && ++index[k] == object->extent[k]) {
            index[k] = 0;
            k += step;
        }
        if (k < 0 || k >= object->rank) break;
    }
}
