/* Own computations: a statement of a sequential part that the owner of one element runs.
 *
 * A statement is run again and again, each time for another element. What its places may access is the same relative
 * to that element, so their sites are kept from one time to the next: `homes` says where the own elements lie, and is
 * moved along with the statement's index. All is forgotten with all other sites (forget_sites), when the statement is
 * of another array, when the element lies in another block of a grid, and when the statement is run as plain code.
 * Places in functions that it calls have other callers, too: their sites are closed at its end.
 */
#include "growing.h"
#include "owned.h"

#include "access.h"
#include "loops.h"
#include "objects.h"
#include "ownership.h"
#include "ran.h"
#include "regions.h"
#include "sites.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 16
#define MOST_CALLED 64

struct statement {
    uint32_t forgotten; /* weft_sites_forgotten, as long as what is here holds */
    uint16_t context;
    const void *base;
    int data;
    struct object *object;
    uint64_t blocks;
    int aspect_count;
    int64_t index[WEFT_MAX_RANK]; /* of the last time */
    struct aspect aspects[ROOM];
    uintptr_t homes[ROOM];
    int64_t moves[ROOM][WEFT_MAX_RANK]; /* what the next index of each dimension adds to a home */
};

uint16_t weft_context;

static struct statement **statements; /* of each construct */
static size_t statement_room;
static uint16_t context_count;

static struct statement *current;
static int inner; /* statements within one of them, of an array without distribution, or that the system does */
static unsigned depth; /* of the function that the current one stands in */

/* Sites that were opened in functions which the current statement calls. */
static struct site *called[MOST_CALLED];
static int called_count;

/* Return what is kept of a statement with an owner (own computations), by its construct; a new entry if it has not run
 * before. */
static struct statement *find_or_add_statement(int construct_id) {
    if (construct_id < 0) construct_id = 0;
    GROW_TO(statements, (size_t)construct_id, statement_room);
    struct statement *statement = statements[construct_id];
    if (statement) return statement;
    statement = statements[construct_id] = calloc(1, sizeof *statement);
    if (!statement) abort();
    statement->forgotten = weft_sites_forgotten - 1;
    statement->context =
        context_count < UINT16_MAX ? ++context_count : UINT16_MAX; /* the last one is shared: see weft_check_own_end */
    return statement;
}

static bool is_still_valid(const struct statement *statement) { return statement->forgotten == weft_sites_forgotten; }

/* All sites, and where the current statement's own elements lie. */
void forget_sites_and_own_elements(void) {
    forget_sites();
    weft_construct.aspect_count = 0;
}

/* Compute how the own element of a new aspect's array moves with each index of the statement's element (bytes). */
void derive_moves_of_own_element(struct aspect *aspect) {
    int64_t *moves = current->moves[aspect - weft_construct.aspects];
    const struct object *object = aspect->object, *on = current->object;
    memset(moves, 0, sizeof current->moves[0]);
    for (int d = 0; d < object->root->rank; d++) {
        const struct term *mapping = &object->map[d];
        int on_dimension =
            object->root->kinds[d] == WEFT_WHOLE ? -1 : find_paired_dimension(object->root, d, weft_construct.on);
        if (on_dimension < 0 || mapping->axis < 0 || weft_construct.at[on_dimension].axis == WEFT_ALL ||
            mapping->coefficient == 0)
            continue;
        struct term t = on == on->root ? (struct term){on_dimension, 1, 0} : on->map[on_dimension];
        if (t.axis >= 0) moves[t.axis] += t.coefficient / mapping->coefficient * object->stride[mapping->axis];
    }
}

/* Note a site (what one place in the code may access) that was opened in a function which the statement with an owner
 * calls; it is closed at the statement's end. */
void note_site_in_called_function(struct site *site) {
    if (weft_depth && weft_depth == depth) return;
    if (called_count < MOST_CALLED) called[called_count] = site;
    called_count++;
}

/* Close all sites (what places in the code may access) that were opened in functions which the statement called, since
 * these have other callers, too. */
static void close_called_sites(void) {
    if (called_count > MOST_CALLED) forget_sites();
    for (int i = 0; i < called_count && i < MOST_CALLED; i++) {
        struct site *site = called[i];
        if (site->key) {
            site->key = 0;
            site->home = &weft_nowhere;
            site->low = 1;
            site->reach = 0;
            weft_sites_changed++;
        }
    }
    called_count = 0;
}

/* Move a statement with an owner to its element of this time: set the element's coordinates, and move the own elements
 * of all arrays along with its index. */
static void move_statement_to_element(struct statement *statement, int dimension_count, const int64_t index[]) {
    const struct object *object = statement->object;
    weft_construct.on = object->root;
    for (int d = 0; d < object->root->rank; d++) {
        struct term m = object == object->root ? (struct term){d, 1, 0} : object->map[d];
        if (m.axis >= 0 && m.axis < dimension_count)
            m = (struct term){WEFT_CONSTANT, 0, m.coefficient * index[m.axis] + m.offset};
        weft_construct.at[d] = m;
    }
    for (int k = 0; k < dimension_count; k++) {
        int64_t by = index[k] - statement->index[k];
        statement->index[k] = index[k];
        for (int i = 0; by && i < statement->aspect_count; i++)
            statement->homes[i] += (uintptr_t)(by * statement->moves[i][k]);
    }
}

/* Return whether, with a grid of processors, this time's element lies in the same blocks as the last one. */
static bool is_element_in_last_blocks(const struct statement *statement) {
    for (int i = 0; i < weft_construct.aspect_count; i++)
        if (!weft_construct.aspects[i].remote) derive_aspect_mapping(&weft_construct.aspects[i]);
    update_current_blocks();
    return weft_construct.blocks == statement->blocks;
}

/* Begin a statement that only the owner of one array element runs (own computations). The places of accesses that were
 * checked in its last run need no new check if the element has the same owner. Inside a loop or another such statement
 * it is ordinary code. */
void weft_check_own_begin(int construct_id, int variable_id, const void *base, int dimension_count,
                          const int64_t index[]) {
    if (now.off || weft_construct.started || weft_construct.what != SEQUENTIAL || inner || weft_io) {
        bool inside = weft_construct.what == OWNED || inner ||
                      (weft_io && !now.off && !weft_construct.started && weft_construct.what == SEQUENTIAL);
        inner += inside;
        if (!now.off && construct_id < (int)statement_room && is_still_valid(find_or_add_statement(construct_id)))
            forget_sites();
        return;
    }
    struct statement *statement = find_or_add_statement(construct_id);
    bool kept = is_still_valid(statement);
    if (!kept || statement->base != base || statement->data != variable_id || dimension_count > WEFT_MAX_RANK) {
        struct object *object = find_object(variable_id, base);
        if (kept) {
            forget_sites();
            kept = false;
        }
        if (!object || !object->root || dimension_count > WEFT_MAX_RANK) {
            inner++;
            return;
        }
        statement->object = object;
        statement->base = base;
        statement->data = variable_id;
        statement->aspect_count = 0;
    }
    count_run(construct_id);
    current = statement;
    depth = weft_depth;
    weft_construct.what = OWNED;
    weft_construct.id = construct_id;
    weft_construct.rank = 0;
    weft_construct.private_count = weft_construct.index_count = weft_construct.reduction_count =
        weft_construct.across_count = weft_construct.computed_count = weft_construct.tie_count = 0;
    weft_construct.aspects = statement->aspects;
    weft_construct.homes = statement->homes;
    weft_construct.aspect_room = ROOM;
    weft_construct.aspect_count = statement->aspect_count;
    weft_context = statement->context;
    move_statement_to_element(statement, dimension_count, index);
    advance_time();
    now.looked = true;
    if (kept && has_grid() && !is_element_in_last_blocks(statement)) forget_sites_and_own_elements();
    statement->forgotten = weft_sites_forgotten;
    if (weft_construct.aspect_count == 0) add_aspects_of_clauses();
}

/* End a statement that only an element's owner runs, and keep its sites (what places in the code may access) for the
 * next time. */
void weft_check_own_end(int construct_id) {
    (void)construct_id;
    if (now.off || weft_construct.what != OWNED || inner) {
        inner -= inner > 0;
        return;
    }
    struct statement *statement = current;
    close_called_sites();
    /* What was opened since all was forgotten is no longer known to be the statement's. */
    if (!is_still_valid(statement) || statement->context == UINT16_MAX) forget_sites();
    statement->aspect_count = weft_construct.aspect_count;
    statement->blocks = weft_construct.blocks;
    weft_construct.aspects = weft_aspects;
    weft_construct.homes = weft_homes;
    weft_construct.aspect_room = MAX_ASPECTS;
    weft_construct.what = SEQUENTIAL;
    weft_construct.on = NULL;
    weft_construct.aspect_count = 0;
    weft_context = 0;
    advance_time();
    now.looked = weft_on_host || weft_sequential_checked || weft_in_region || weft_task.in_task;
}
