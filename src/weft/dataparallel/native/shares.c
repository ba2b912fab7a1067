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

bool spread(const struct object *o) {
    if (!o->array || !o->root || !o->low || !o->element) return false;
    for (int d = 0; d < o->root->rank; d++)
        if (grid_axis(o->root, d) >= 0 && o->map[d].axis != WEFT_ALL) return true;
    return false;
}

static void drop(struct share *s) {
    if (!s) return;
    for (int k = 0; k < WEFT_MAX_RANK; k++) free(s->own[k]);
    free(s);
}

static struct kept_shares *held_of(const struct object *o) {
    struct kept_shares *h = all;
    while (h && (h->object != o || h->low != o->low)) h = h->next;
    if (h && h->version == o->version && h->root_version == o->root->version) return h;
    if (!h) {
        h = calloc(1, sizeof *h);
        if (!h) abort();
        h->next = all;
        all = h;
    }
    for (int p = 0; p < MOST_PROCESSORS; p++) {
        drop(h->of[p]);
        h->of[p] = NULL;
    }
    h->object = o;
    h->low = o->low;
    h->version = o->version;
    h->root_version = o->root->version;
    return h;
}

/* Axes of the grid that no dimension of the root lies on have one owner: the first. */
static bool on_others(const struct object *root, const int at[], int axes) {
    bool used[WEFT_MAX_RANK] = {false};
    for (int d = 0; d < root->rank; d++)
        if (grid_axis(root, d) >= 0) used[grid_axis(root, d)] = true;
    for (int k = 0; k < axes; k++)
        if (!used[k] && at[k]) return false;
    return true;
}

static void narrow(struct share *s, const struct object *o, int d, int part) {
    const struct term *m = &o->map[d];
    if (m->axis == WEFT_ALL) return;
    if (m->axis < 0) {
        s->any &= grid_part(o->root, d, m->offset) == part;
        return;
    }
    int k = m->axis;
    for (int64_t i = 0; i < o->extent[k]; i++)
        s->own[k][i] &= grid_part(o->root, d, m->coefficient * (o->lower[k] + i) + m->offset) == part;
}

static void limits(struct share *s, const struct object *o) {
    s->box = true;
    for (int k = 0; k < o->rank; k++) {
        int64_t n = 0;
        s->first[k] = 0;
        s->last[k] = -1;
        for (int64_t i = o->extent[k] - 1; i >= 0; i--)
            if (s->own[k][i]) {
                s->first[k] = i;
                n++;
            }
        for (int64_t i = 0; i < o->extent[k]; i++)
            if (s->own[k][i]) s->last[k] = i;
        s->any &= n > 0;
        s->box &= n == s->last[k] - s->first[k] + 1;
    }
}

const struct share *share_of(struct object *o, int processor) {
    struct kept_shares *h = held_of(o);
    if (h->of[processor]) return h->of[processor];
    struct share *s = h->of[processor] = calloc(1, sizeof *s);
    int at[WEFT_MAX_RANK], axes = grid_place(processor, at);
    if (!s) abort();
    s->any = on_others(o->root, at, axes);
    for (int k = 0; k < o->rank; k++) {
        s->own[k] = malloc((size_t)(o->extent[k] > 0 ? o->extent[k] : 1));
        if (!s->own[k]) abort();
        memset(s->own[k], 1, (size_t)(o->extent[k] > 0 ? o->extent[k] : 1));
    }
    for (int d = 0; d < o->root->rank; d++)
        if (grid_axis(o->root, d) >= 0) narrow(s, o, d, at[grid_axis(o->root, d)]);
    limits(s, o);
    return s;
}

/* Which coordinates of the ON array's root are a processor's, by dimension; SHADOW_COMPUTE adds the edges. */
static unsigned char *runs[WEFT_MAX_RANK];
static bool runs_any;

void runs_begin(int processor) {
    int at[WEFT_MAX_RANK], axes = grid_place(processor, at);
    const struct object *root = here.on;
    runs_any = on_others(root, at, axes);
    for (int d = 0; d < root->rank; d++) {
        int axis = grid_axis(root, d);
        int64_t low = 0, high = 0, n = root->extent[d];
        free(runs[d]);
        runs[d] = NULL;
        if (axis < 0 || here.at[d].axis == WEFT_ALL || n < 1) continue;
        for (int i = 0; i < here.computed_count; i++)
            if (here.computed[i].object->root == root) {
                low = here.computed[i].widths.low[d];
                high = here.computed[i].widths.high[d];
            }
        runs[d] = calloc(1, (size_t)n);
        if (!runs[d]) abort();
        for (int64_t x = 0; x < n; x++)
            for (int64_t y = x - high; y <= x + low && !runs[d][x]; y++)
                runs[d][x] = y >= 0 && y < n && grid_part(root, d, root->lower[d] + y) == at[axis];
    }
}

/* Whether an iteration of this loop is that processor's: ON says so. */
bool runs_iteration(const int64_t index[]) {
    for (int d = 0; runs_any && d < here.on->rank; d++) {
        if (!runs[d]) continue;
        const struct term *t = &here.at[d];
        int64_t x = t->axis >= 0 ? t->coefficient * index[t->axis] + t->offset : t->offset;
        x -= here.on->lower[d];
        if (!runs[d][x < 0 ? 0 : x >= here.on->extent[d] ? here.on->extent[d] - 1 : x]) return false;
    }
    return runs_any;
}

/* Calls `visit` for the elements that are (or are not) a processor's, in runs of the memory's order. */
void share_walk(const struct object *o, const struct share *s, bool owned, run_of *visit, void *with) {
    int inner = o->order == WEFT_ORDER_C ? o->rank - 1 : 0, step = o->order == WEFT_ORDER_C ? -1 : 1;
    int64_t index[WEFT_MAX_RANK] = {0};
    for (char *row = (char *)o->low; row < (char *)o->high;) {
        bool mine = s->any;
        for (int k = 0; k < o->rank; k++) mine &= k == inner || s->own[k][index[k]];
        for (int64_t i = 0, n; i < o->extent[inner]; i += n) {
            bool is = mine && s->own[inner][i];
            for (n = 1; i + n < o->extent[inner] && (mine && s->own[inner][i + n]) == is;) n++;
            if (is == owned) visit(with, row + (size_t)i * o->element, (size_t)n * o->element);
        }
        row += (size_t)o->extent[inner] * o->element;
        int k = inner + step;
        while (k >= 0 && k < o->rank && ++index[k] == o->extent[k]) {
            index[k] = 0;
            k += step;
        }
        if (k < 0 || k >= o->rank) break;
    }
}
