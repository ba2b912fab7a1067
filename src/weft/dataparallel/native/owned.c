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

static struct statement *statement_of(int construct) {
    if (construct < 0) construct = 0;
    GROW_TO(statements, (size_t)construct, statement_room);
    struct statement *s = statements[construct];
    if (s) return s;
    s = statements[construct] = calloc(1, sizeof *s);
    if (!s) abort();
    s->forgotten = weft_sites_forgotten - 1;
    s->context = context_count < UINT16_MAX ? ++context_count : UINT16_MAX; /* the last one is shared: see own_end */
    return s;
}

static bool holds(const struct statement *s) { return s->forgotten == weft_sites_forgotten; }

/* All sites, and where the current statement's own elements lie. */
void owned_forget(void) {
    forget_sites();
    here.aspect_count = 0;
}

/* How a new aspect's home moves with the statement's index. */
void owned_more(struct aspect *v) {
    int64_t *moves = current->moves[v - here.aspects];
    const struct object *o = v->object, *on = current->object;
    memset(moves, 0, sizeof current->moves[0]);
    for (int d = 0; d < o->root->rank; d++) {
        const struct term *m = &o->map[d];
        int e = o->root->kinds[d] == WEFT_WHOLE ? -1 : paired(o->root, d, here.on);
        if (e < 0 || m->axis < 0 || here.at[e].axis == WEFT_ALL || m->coefficient == 0) continue;
        struct term t = on == on->root ? (struct term){e, 1, 0} : on->map[e];
        if (t.axis >= 0) moves[t.axis] += t.coefficient / m->coefficient * o->stride[m->axis];
    }
}

/* A site was opened for the current statement. */
void owned_opened(struct site *s) {
    if (weft_depth && weft_depth == depth) return;
    if (called_count < MOST_CALLED) called[called_count] = s;
    called_count++;
}

static void close_called(void) {
    if (called_count > MOST_CALLED) forget_sites();
    for (int i = 0; i < called_count && i < MOST_CALLED; i++) {
        struct site *s = called[i];
        if (s->key) {
            s->key = 0;
            s->home = &weft_nowhere;
            s->low = 1;
            s->reach = 0;
            weft_sites_changed++;
        }
    }
    called_count = 0;
}

/* The ON array's coordinates of this time's element, and the homes, where it is that of another index. */
static void move_on(struct statement *s, int rank, const int64_t index[]) {
    const struct object *o = s->object;
    here.on = o->root;
    for (int d = 0; d < o->root->rank; d++) {
        struct term m = o == o->root ? (struct term){d, 1, 0} : o->map[d];
        if (m.axis >= 0 && m.axis < rank) m = (struct term){WEFT_CONSTANT, 0, m.coefficient * index[m.axis] + m.offset};
        here.at[d] = m;
    }
    for (int k = 0; k < rank; k++) {
        int64_t by = index[k] - s->index[k];
        s->index[k] = index[k];
        for (int i = 0; by && i < s->aspect_count; i++) s->homes[i] += (uintptr_t)(by * s->moves[i][k]);
    }
}

/* With a grid: whether this time's element lies in the blocks of the last one. */
static bool in_the_same_blocks(const struct statement *s) {
    for (int i = 0; i < here.aspect_count; i++)
        if (!here.aspects[i].remote) aspect_lay(&here.aspects[i]);
    find_blocks();
    return here.blocks == s->blocks;
}

void weft_check_own_begin(int construct, int data, const void *base, int rank, const int64_t index[]) {
    if (now.off || here.started || here.what != SEQUENTIAL || inner || weft_io) {
        bool inside = here.what == OWNED || inner || (weft_io && !now.off && !here.started && here.what == SEQUENTIAL);
        inner += inside;
        if (!now.off && construct < (int)statement_room && holds(statement_of(construct))) forget_sites();
        return;
    }
    struct statement *s = statement_of(construct);
    bool kept = holds(s);
    if (!kept || s->base != base || s->data != data || rank > WEFT_MAX_RANK) {
        struct object *o = object_of(data, base);
        if (kept) {
            forget_sites();
            kept = false;
        }
        if (!o || !o->root || rank > WEFT_MAX_RANK) {
            inner++;
            return;
        }
        s->object = o;
        s->base = base;
        s->data = data;
        s->aspect_count = 0;
    }
    ran(construct);
    current = s;
    depth = weft_depth;
    here.what = OWNED;
    here.id = construct;
    here.rank = 0;
    here.private_count = here.index_count = here.reduction_count = here.across_count = here.computed_count =
        here.tie_count = 0;
    here.aspects = s->aspects;
    here.homes = s->homes;
    here.aspect_room = ROOM;
    here.aspect_count = s->aspect_count;
    weft_context = s->context;
    move_on(s, rank, index);
    tick();
    now.looked = true;
    if (kept && gridded() && !in_the_same_blocks(s)) owned_forget();
    s->forgotten = weft_sites_forgotten;
    if (here.aspect_count == 0) construct_remotes();
}

void weft_check_own_end(int construct) {
    (void)construct;
    if (now.off || here.what != OWNED || inner) {
        inner -= inner > 0;
        return;
    }
    struct statement *s = current;
    close_called();
    /* What was opened since all was forgotten is no longer known to be the statement's. */
    if (!holds(s) || s->context == UINT16_MAX) forget_sites();
    s->aspect_count = here.aspect_count;
    s->blocks = here.blocks;
    here.aspects = weft_aspects;
    here.homes = weft_homes;
    here.aspect_room = MAX_ASPECTS;
    here.what = SEQUENTIAL;
    here.on = NULL;
    here.aspect_count = 0;
    weft_context = 0;
    tick();
    now.looked = weft_on_host || weft_sequential_checked || weft_in_region || weft_task.in_task;
}
