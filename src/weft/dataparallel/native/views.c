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

static struct copies *copies_of(const struct object *o) {
    struct copies *c = all;
    size_t bytes = o->high - o->low;
    while (c && (c->object != o || c->low != o->low)) c = c->next;
    if (c && c->bytes == bytes) return c;
    if (!c) {
        c = calloc(1, sizeof *c);
        if (!c) abort();
        c->next = all;
        all = c;
    }
    free(c->renewed), free(c->before), free(c->whole);
    *c = (struct copies){.object = o, .low = o->low, .bytes = bytes, .next = c->next};
    return c;
}

static void save_copy(char **copy, const struct object *o) {
    if (!*copy) *copy = malloc(o->high - o->low);
    if (!*copy) abort();
    memcpy(*copy, (void *)o->low, o->high - o->low);
}

void views_renew(struct object *o) {
    if (spread(o)) save_copy(&copies_of(o)->renewed, o);
}

static const struct widths *across_widths_of(const struct object *o) {
    for (int i = 0; i < here.across_count; i++)
        if (here.across[i].object == o) return &here.across[i].widths;
    return NULL;
}

/* A loop begins: what ACROSS reads ahead of the loop are the values before it. */
void views_before(void) {
    struct object *o;
    for (uintptr_t a = 0; (o = object_after(a)); a = o->high)
        if (spread(o) && across_widths_of(o)) save_copy(&copies_of(o)->before, o);
}

static bool is_fetched(const struct object *o) {
    for (int i = 0; i < here.remote_count; i++)
        if (here.remotes[i].object == o) return true;
    return false;
}

/* The loop's direction along an array's dimension: -1 where the loop runs down there. */
static int direction_of(const struct object *o, int k, const int direction[]) {
    for (int d = 0; d < o->root->rank && d < here.on->rank; d++) {
        const struct term *t = &here.at[d], *m = &o->map[d];
        if (m->axis == k && t->axis >= 0)
            return (t->coefficient < 0) != (m->coefficient < 0) ? -direction[t->axis] : direction[t->axis];
    }
    return 1;
}

/* What a processor sees of each index of a dimension. */
static unsigned char *visible_indices(const struct object *o, const struct share *s, int k, const int direction[]) {
    const struct widths *across = across_widths_of(o);
    int way = across ? direction_of(o, k, direction) : 1;
    unsigned char *state = malloc((size_t)(o->extent[k] > 0 ? o->extent[k] : 1));
    if (!state) abort();
    for (int64_t i = 0; i < o->extent[k]; i++) {
        int64_t below = s->first[k] - i, above = i - s->last[k];
        state[i] = SEEN_FAR;
        if (s->own[k][i]) state[i] = SEEN_OWN;
        else if (!s->any) continue;
        else if (across && below > 0 && below <= across->low[k]) state[i] = way > 0 ? SEEN_BEHIND : SEEN_AHEAD;
        else if (across && above > 0 && above <= across->high[k]) state[i] = way > 0 ? SEEN_AHEAD : SEEN_BEHIND;
        else if (below > 0 && below <= o->renewed.low[k]) state[i] = SEEN_EDGE;
        else if (above > 0 && above <= o->renewed.high[k]) state[i] = SEEN_EDGE;
        else if (scattered(o->root)) state[i] = SEEN_EDGE;
    }
    return state;
}

/* No number that means anything: two floats or a double that are none, or a large integer. */
static void fill_with_poison(char *to, size_t bytes) {
    static const unsigned char pattern[4] = {0xA7, 0xA7, 0xF8, 0x7F};
    for (size_t i = 0; i < bytes; i++) to[i] = (char)pattern[i % 4];
}

/* The value of an element of others: from the current memory, from a copy, or none. */
static void show_element(const struct object *o, const struct copies *c, char *at, const int counts[]) {
    size_t offset = (size_t)(at - (char *)o->low);
    bool far = counts[SEEN_FAR] > 0, carried = counts[SEEN_BEHIND] + counts[SEEN_AHEAD] > 0;
    if (!far && carried && counts[SEEN_EDGE] == 0) {
        if (counts[SEEN_AHEAD] && c->before) memcpy(at, c->before + offset, o->element);
        return;
    }
    bool corner = counts[SEEN_EDGE] + counts[SEEN_BEHIND] + counts[SEEN_AHEAD] > 1;
    if (!far && o->renewed_at && c->renewed && (o->corner || !corner)) memcpy(at, c->renewed + offset, o->element);
    else fill_with_poison(at, o->element);
}

static void install_array(struct object *o, const struct share *s, const int direction[]) {
    const struct copies *c = copies_of(o);
    unsigned char *state[WEFT_MAX_RANK];
    for (int k = 0; k < o->rank; k++) state[k] = visible_indices(o, s, k, direction);
    int64_t index[WEFT_MAX_RANK] = {0};
    int step = o->order == WEFT_ORDER_C ? -1 : 1, inner = step < 0 ? o->rank - 1 : 0, k;
    for (char *at = (char *)o->low; at < (char *)o->high; at += o->element) {
        int counts[SEEN_FAR + 1] = {0};
        for (int d = 0; d < o->rank; d++) counts[state[d][index[d]]]++;
        if (!s->any) counts[SEEN_FAR] = 1;
        if (counts[SEEN_OWN] < o->rank || !s->any) show_element(o, c, at, counts);
        for (k = inner; k >= 0 && k < o->rank && ++index[k] == o->extent[k]; k += step) index[k] = 0;
        if (k < 0 || k >= o->rank) break;
    }
    for (int d = 0; d < o->rank; d++) free(state[d]);
}

void views_install(int processor, const int direction[]) {
    struct object *o;
    for (uintptr_t a = 0; (o = object_after(a)); a = o->high) {
        if (!spread(o)) continue;
        save_copy(&copies_of(o)->whole, o);
        if (!is_fetched(o)) install_array(o, share_of(o, processor), direction);
    }
    for (int i = 0; i < here.private_count; i++)
        fill_with_poison((char *)here.privates[i].low, here.privates[i].high - here.privates[i].low);
}

static void restore_run(void *with, char *at, size_t bytes) {
    const struct object *o = with;
    memcpy(at, copies_of(o)->whole + (at - (char *)o->low), bytes);
}

/* The process itself has run as a processor: what is not its own is again that of all. */
void views_restore(int processor) {
    struct object *o;
    for (uintptr_t a = 0; (o = object_after(a)); a = o->high)
        if (spread(o) && copies_of(o)->whole) share_walk(o, share_of(o, processor), false, restore_run, o);
}
