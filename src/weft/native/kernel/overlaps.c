/* Buffers of operations that are pending together, at least one of which is written.
 *
 * A sweep over the accesses of one rank in the order of their start. The pending ones lie in treaps (Aragon & Seidel
 * 1989) ordered by address, each node with the highest end below it, so one that meets a given span is found in logarithmic
 * time. There is one treap for each line of the program and direction, and a pair of lines is reported once: the cost does not
 * depend on how many accesses overlap.
 */
#include <stdlib.h>
#include <string.h>

#include "overlaps.h"
#include "ops.h"

struct node {
    uint32_t left, right, priority, holders;
    uint64_t most; /* the highest end below */
};

struct sweep {
    const struct weft_accesses *in;
    struct node *nodes;
    uint32_t *roots;  /* by site, direction, and whether all bytes are meant (see place_of_row) */
    uint32_t *places; /* roots that hold something */
    uint32_t *place_of, place_count;
    uint32_t *holder;  /* the row whose node stands for this row, NONE where it is not pending */
    uint32_t *of_args; /* by event: the row whose node stands for the persistent request made there */
    uint8_t *told;     /* bits by pair of sites */
    uint32_t *by_end;  /* rows that are pending for a while, in order of `end` */
    uint64_t pending, *steps;
    uint32_t *undecided;
};

/* Return the pseudo-random priority that keeps the treap balanced. */
static uint32_t hash_priority(uint32_t row) {
    uint32_t hash = row * 0x9e3779b9u;
    hash ^= hash >> 15;
    hash *= 0x85ebca6bu;
    return hash ^ hash >> 13;
}

/* Recompute the highest end address in a treap node's subtree. */
static void update_highest_end(struct sweep *sweep, uint32_t tree) {
    struct node *node = &sweep->nodes[tree];
    node->most = sweep->in->high[tree];
    if (node->left != NONE && sweep->nodes[node->left].most > node->most) node->most = sweep->nodes[node->left].most;
    if (node->right != NONE && sweep->nodes[node->right].most > node->most) node->most = sweep->nodes[node->right].most;
}

static bool is_before(const struct weft_accesses *accesses, uint32_t one, uint32_t other) {
    return accesses->low[one] != accesses->low[other] ? accesses->low[one] < accesses->low[other] : one < other;
}

/* Split a treap into the rows before `row` (by address) and the others. */
static void split_tree(struct sweep *sweep, uint32_t tree, uint32_t row, uint32_t *low, uint32_t *high) {
    if (tree == NONE) {
        *low = *high = NONE;
    } else if (is_before(sweep->in, tree, row)) {
        *low = tree;
        split_tree(sweep, sweep->nodes[tree].right, row, &sweep->nodes[tree].right, high);
        update_highest_end(sweep, tree);
    } else {
        *high = tree;
        split_tree(sweep, sweep->nodes[tree].left, row, low, &sweep->nodes[tree].left);
        update_highest_end(sweep, tree);
    }
}

/* Join two treaps, all rows of the first before those of the second, and return the root. */
static uint32_t join_trees(struct sweep *sweep, uint32_t low, uint32_t high) {
    if (low == NONE) return high;
    if (high == NONE) return low;
    if (sweep->nodes[low].priority > sweep->nodes[high].priority) {
        sweep->nodes[low].right = join_trees(sweep, sweep->nodes[low].right, high);
        update_highest_end(sweep, low);
        return low;
    }
    sweep->nodes[high].left = join_trees(sweep, low, sweep->nodes[high].left);
    update_highest_end(sweep, high);
    return high;
}

/* Insert a row into a treap and return the new root. */
static uint32_t insert_row(struct sweep *sweep, uint32_t tree, uint32_t row) {
    if (tree == NONE || sweep->nodes[row].priority > sweep->nodes[tree].priority) {
        split_tree(sweep, tree, row, &sweep->nodes[row].left, &sweep->nodes[row].right);
        update_highest_end(sweep, row);
        return row;
    }
    uint32_t *child = is_before(sweep->in, row, tree) ? &sweep->nodes[tree].left : &sweep->nodes[tree].right;
    *child = insert_row(sweep, *child, row);
    update_highest_end(sweep, tree);
    return tree;
}

/* Remove a row from a treap and return the new root. */
static uint32_t remove_row(struct sweep *sweep, uint32_t tree, uint32_t row) {
    if (tree == NONE) return NONE;
    if (tree == row) return join_trees(sweep, sweep->nodes[tree].left, sweep->nodes[tree].right);
    uint32_t *child = is_before(sweep->in, row, tree) ? &sweep->nodes[tree].left : &sweep->nodes[tree].right;
    *child = remove_row(sweep, *child, row);
    update_highest_end(sweep, tree);
    return tree;
}

#define FAR ((int64_t)1 << 60) /* no layout is longer */

/* Return the byte layout of a row's buffer; a contiguous one is described in `*whole`. */
static const struct weft_layout *find_layout(const struct weft_accesses *accesses, uint32_t row,
                                             struct weft_layout *whole) {
    static const uint32_t level[2];
    if (accesses->shape[row]) return &accesses->layouts[accesses->shape[row] - 1];
    uint64_t bytes = accesses->high[row] - accesses->low[row];
    whole->high = bytes < FAR ? (int64_t)bytes : FAR;
    whole->length = whole->end = whole->reach = &whole->high;
    whole->level = level;
    return whole;
}

/* Return whether two buffers whose address ranges overlap have a byte in common. If the step budget does not suffice,
 * remember the pair as undecided and return false. */
static bool share_bytes(const struct sweep *sweep, uint32_t pending, uint32_t row) {
    const struct weft_accesses *accesses = sweep->in;
    if (!accesses->shape[pending] && !accesses->shape[row]) return true;
    if (*sweep->steps) --*sweep->steps;
    static const int64_t nothing;
    struct weft_layout whole = {.count = 1, .offset = &nothing}; /* one of both at most is whole */
    const struct weft_layout *one = find_layout(accesses, pending, &whole), *other = find_layout(accesses, row, &whole);
    int result = weft_do_layouts_meet(one, other, (int64_t)(accesses->low[row] - accesses->low[pending]), sweep->steps);
    if (result < 0 && sweep->undecided[0] == NONE) sweep->undecided[0] = pending, sweep->undecided[1] = row;
    return result > 0;
}

/* Return a row of a treap whose buffer shares bytes with `row` and belongs to another operation; NONE if there is
 * none. */
static uint32_t find_overlapping_row(const struct sweep *sweep, uint32_t tree, uint32_t row) {
    const struct weft_accesses *accesses = sweep->in;
    if (tree == NONE || sweep->nodes[tree].most <= accesses->low[row]) return NONE;
    uint32_t found = find_overlapping_row(sweep, sweep->nodes[tree].left, row);
    if (found != NONE || accesses->low[tree] >= accesses->high[row]) return found;
    if (accesses->high[tree] > accesses->low[row] && accesses->args[tree] != accesses->args[row] &&
        share_bytes(sweep, tree, row))
        return tree;
    return find_overlapping_row(sweep, sweep->nodes[tree].right, row);
}

/* Of rows of a layout there are trees of their own: when the steps are used up the others are still looked at. */
enum { WRITES = 1, SHAPED = 2, PLACES = 4 };

/* Return the index of the treap for a row: one for each program line, direction and kind of layout. */
static uint32_t find_tree_index(const struct weft_accesses *accesses, uint32_t row) {
    return PLACES * accesses->site[row] + (accesses->shape[row] ? SHAPED : 0) + (accesses->writes[row] ? WRITES : 0);
}

/* Add a row to the pending accesses; starts of one persistent request at one line share a treap node. */
static void add_pending(struct sweep *sweep, uint32_t row) {
    const struct weft_accesses *accesses = sweep->in;
    bool is_persistent = accesses->args[row] != accesses->begin[row];
    uint32_t *same_request = &sweep->of_args[accesses->args[row]];
    if (is_persistent && *same_request != NONE && accesses->site[*same_request] == accesses->site[row]) {
        sweep->holder[row] = *same_request;
        sweep->nodes[*same_request].holders++;
        return;
    }
    sweep->holder[row] = row;
    sweep->nodes[row] = (struct node){NONE, NONE, hash_priority(row), 1, accesses->high[row]};
    if (is_persistent) *same_request = row;
    uint32_t tree = find_tree_index(accesses, row);
    if (sweep->roots[tree] == NONE) {
        sweep->place_of[tree] = sweep->place_count;
        sweep->places[sweep->place_count++] = tree;
    }
    sweep->roots[tree] = insert_row(sweep, sweep->roots[tree], row);
}

/* Remove a row from the pending accesses. */
static void remove_pending(struct sweep *sweep, uint32_t row) {
    const struct weft_accesses *accesses = sweep->in;
    uint32_t holder = sweep->holder[row];
    if (holder == NONE || --sweep->nodes[holder].holders) return;
    if (sweep->of_args[accesses->args[holder]] == holder) sweep->of_args[accesses->args[holder]] = NONE;
    uint32_t tree = find_tree_index(accesses, holder);
    sweep->roots[tree] = remove_row(sweep, sweep->roots[tree], holder);
    if (sweep->roots[tree] != NONE) return;
    uint32_t last = sweep->places[--sweep->place_count];
    sweep->places[sweep->place_of[tree]] = last;
    sweep->place_of[last] = sweep->place_of[tree];
}

/* Return the event at which an access ends; one that never ends gets the event after the last. */
static uint64_t find_end(const struct weft_accesses *accesses, uint64_t row) {
    return (uint64_t)accesses->end[row] < accesses->events ? (uint64_t)accesses->end[row] : accesses->events;
}

/* Sort the rows by the event at which they end (counting sort). Return false without memory. */
static bool sort_rows_by_end(struct sweep *sweep) {
    const struct weft_accesses *accesses = sweep->in;
    uint32_t *first = calloc(accesses->events + 2, sizeof *first);
    sweep->by_end = malloc((accesses->count + 1) * sizeof *sweep->by_end);
    if (!first || !sweep->by_end) {
        free(first);
        return false;
    }
    for (uint64_t row = 0; row < accesses->count; row++)
        if (accesses->end[row] > accesses->begin[row]) first[find_end(accesses, row) + 1]++, sweep->pending++;
    for (uint64_t e = 0; e <= accesses->events; e++) first[e + 1] += first[e];
    for (uint64_t row = 0; row < accesses->count; row++)
        if (accesses->end[row] > accesses->begin[row]) sweep->by_end[first[find_end(accesses, row)]++] = (uint32_t)row;
    free(first);
    return true;
}

/* Return whether an overlap of these two program lines was listed already. */
static bool is_pair_reported(const struct sweep *sweep, uint32_t one, uint32_t two) {
    uint64_t bit = (uint64_t)one * sweep->in->sites + two;
    return sweep->told[bit >> 3] >> (bit & 7) & 1;
}

/* Sweep over the accesses of a rank in the order of their starts and list the first overlap of each pair of program
 * lines. Return how many were listed. */
static uint64_t find_overlaps(struct sweep *sweep, uint64_t most_pairs, uint32_t *earlier, uint32_t *later) {
    const struct weft_accesses *accesses = sweep->in;
    uint64_t ended_count = 0, found = 0;
    for (uint32_t row = 0; row < accesses->count; row++) {
        while (ended_count < sweep->pending && accesses->end[sweep->by_end[ended_count]] <= accesses->begin[row])
            remove_pending(sweep, sweep->by_end[ended_count++]);
        for (uint32_t k = 0; k < sweep->place_count && found < most_pairs; k++) {
            uint32_t tree = sweep->places[k];
            if (!(tree & WRITES) && !accesses->writes[row]) continue;
            if (is_pair_reported(sweep, tree / PLACES, accesses->site[row])) continue;
            if (!*sweep->steps && (tree & SHAPED || accesses->shape[row])) continue;
            uint32_t other = find_overlapping_row(sweep, sweep->roots[tree], row);
            if (other == NONE) continue;
            uint64_t bit = (uint64_t)(tree / PLACES) * accesses->sites + accesses->site[row];
            sweep->told[bit >> 3] |= (uint8_t)(1u << (bit & 7));
            earlier[found] = other;
            later[found++] = row;
        }
        if (accesses->end[row] > accesses->begin[row]) add_pending(sweep, row);
    }
    return found;
}

/* List pairs of accesses of one rank that are pending at the same time and share bytes, at least one of them a write,
 * once for each pair of program lines. Return how many, or -1 without memory. */
int64_t weft_find_overlaps(const struct weft_accesses *accesses, uint64_t most_pairs, uint32_t *earlier,
                           uint32_t *later, uint64_t *steps, uint32_t *undecided) {
    uint64_t tree_count = PLACES * (uint64_t)accesses->sites;
    struct sweep sweep = {.in = accesses, .steps = steps, .undecided = undecided};
    undecided[0] = undecided[1] = NONE;
    sweep.nodes = malloc((accesses->count + 1) * sizeof *sweep.nodes);
    sweep.holder = malloc((accesses->count + 1) * sizeof *sweep.holder);
    sweep.of_args = malloc((accesses->events + 1) * sizeof *sweep.of_args);
    sweep.roots = malloc((tree_count + 1) * sizeof *sweep.roots);
    sweep.places = malloc((tree_count + 1) * sizeof *sweep.places);
    sweep.place_of = malloc((tree_count + 1) * sizeof *sweep.place_of);
    sweep.told =
        calloc((uint64_t)accesses->sites * accesses->sites / 8 + 1, 1); /* pages that nobody touches cost nothing */
    int64_t found = -1;
    if (sweep.nodes && sweep.holder && sweep.of_args && sweep.roots && sweep.places && sweep.place_of && sweep.told &&
        sort_rows_by_end(&sweep)) {
        memset(sweep.holder, 0xff, accesses->count * sizeof *sweep.holder);
        memset(sweep.of_args, 0xff, accesses->events * sizeof *sweep.of_args);
        memset(sweep.roots, 0xff, tree_count * sizeof *sweep.roots);
        found = (int64_t)find_overlaps(&sweep, most_pairs, earlier, later);
    }
    free(sweep.nodes);
    free(sweep.holder);
    free(sweep.of_args);
    free(sweep.roots);
    free(sweep.places);
    free(sweep.place_of);
    free(sweep.told);
    free(sweep.by_end);
    return found;
}
