/* Buffers of operations that are pending together, at least one of which is written.
 *
 * A sweep over the accesses of one rank in the order of their start. The pending ones lie in treaps (Aragon & Seidel
 * 1989) ordered by address, each node with the highest end below it, so one that meets a given span is found in logarithmic
 * time. There is one treap for each line of the program and direction, and a pair of lines is told once: the cost does not
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

static uint32_t priority_of(uint32_t i) {
    uint32_t h = i * 0x9e3779b9u;
    h ^= h >> 15;
    h *= 0x85ebca6bu;
    return h ^ h >> 13;
}

static void refresh(struct sweep *s, uint32_t t) {
    struct node *n = &s->nodes[t];
    n->most = s->in->high[t];
    if (n->left != NONE && s->nodes[n->left].most > n->most) n->most = s->nodes[n->left].most;
    if (n->right != NONE && s->nodes[n->right].most > n->most) n->most = s->nodes[n->right].most;
}

static bool before(const struct weft_accesses *in, uint32_t a, uint32_t b) {
    return in->low[a] != in->low[b] ? in->low[a] < in->low[b] : a < b;
}

/* Splits tree t into what lies before row `at` and the rest. */
static void split(struct sweep *s, uint32_t t, uint32_t at, uint32_t *low, uint32_t *high) {
    if (t == NONE) {
        *low = *high = NONE;
    } else if (before(s->in, t, at)) {
        *low = t;
        split(s, s->nodes[t].right, at, &s->nodes[t].right, high);
        refresh(s, t);
    } else {
        *high = t;
        split(s, s->nodes[t].left, at, low, &s->nodes[t].left);
        refresh(s, t);
    }
}

static uint32_t join(struct sweep *s, uint32_t low, uint32_t high) {
    if (low == NONE) return high;
    if (high == NONE) return low;
    if (s->nodes[low].priority > s->nodes[high].priority) {
        s->nodes[low].right = join(s, s->nodes[low].right, high);
        refresh(s, low);
        return low;
    }
    s->nodes[high].left = join(s, low, s->nodes[high].left);
    refresh(s, high);
    return high;
}

static uint32_t insert(struct sweep *s, uint32_t t, uint32_t row) {
    if (t == NONE || s->nodes[row].priority > s->nodes[t].priority) {
        split(s, t, row, &s->nodes[row].left, &s->nodes[row].right);
        refresh(s, row);
        return row;
    }
    uint32_t *child = before(s->in, row, t) ? &s->nodes[t].left : &s->nodes[t].right;
    *child = insert(s, *child, row);
    refresh(s, t);
    return t;
}

static uint32_t removed(struct sweep *s, uint32_t t, uint32_t row) {
    if (t == NONE) return NONE;
    if (t == row) return join(s, s->nodes[t].left, s->nodes[t].right);
    uint32_t *child = before(s->in, row, t) ? &s->nodes[t].left : &s->nodes[t].right;
    *child = removed(s, *child, row);
    refresh(s, t);
    return t;
}

#define FAR ((int64_t)1 << 60) /* no layout is longer */

static const struct weft_layout *layout_of(const struct weft_accesses *in, uint32_t row, struct weft_layout *whole) {
    static const uint32_t level[2];
    if (in->shape[row]) return &in->layouts[in->shape[row] - 1];
    uint64_t bytes = in->high[row] - in->low[row];
    whole->high = bytes < FAR ? (int64_t)bytes : FAR;
    whole->length = whole->end = whole->reach = &whole->high;
    whole->level = level;
    return whole;
}

/* Whether two rows that overlap have a byte in common. */
static bool meet(const struct sweep *s, uint32_t held, uint32_t row) {
    const struct weft_accesses *in = s->in;
    if (!in->shape[held] && !in->shape[row]) return true;
    if (*s->steps) --*s->steps;
    static const int64_t nothing;
    struct weft_layout whole = {.count = 1, .offset = &nothing}; /* one of both at most is whole */
    const struct weft_layout *one = layout_of(in, held, &whole), *other = layout_of(in, row, &whole);
    int found = weft_meet(one, other, (int64_t)(in->low[row] - in->low[held]), s->steps);
    if (found < 0 && s->undecided[0] == NONE) s->undecided[0] = held, s->undecided[1] = row;
    return found > 0;
}

/* A row of tree t that shares bytes with `row` and is no start of the same persistent request. */
static uint32_t meeting(const struct sweep *s, uint32_t t, uint32_t row) {
    const struct weft_accesses *in = s->in;
    if (t == NONE || s->nodes[t].most <= in->low[row]) return NONE;
    uint32_t found = meeting(s, s->nodes[t].left, row);
    if (found != NONE || in->low[t] >= in->high[row]) return found;
    if (in->high[t] > in->low[row] && in->args[t] != in->args[row] && meet(s, t, row)) return t;
    return meeting(s, s->nodes[t].right, row);
}

/* Of rows of a layout there are trees of their own: when the steps are used up the others are still looked at. */
enum { WRITES = 1, SHAPED = 2, PLACES = 4 };

static uint32_t place_of_row(const struct weft_accesses *in, uint32_t row) {
    return PLACES * in->site[row] + (in->shape[row] ? SHAPED : 0) + (in->writes[row] ? WRITES : 0);
}

static void put(struct sweep *s, uint32_t row) {
    const struct weft_accesses *in = s->in;
    bool persistent = in->args[row] != in->begin[row];
    uint32_t *same = &s->of_args[in->args[row]];
    if (persistent && *same != NONE && in->site[*same] == in->site[row]) {
        s->holder[row] = *same;
        s->nodes[*same].holders++;
        return;
    }
    s->holder[row] = row;
    s->nodes[row] = (struct node){NONE, NONE, priority_of(row), 1, in->high[row]};
    if (persistent) *same = row;
    uint32_t place = place_of_row(in, row);
    if (s->roots[place] == NONE) {
        s->place_of[place] = s->place_count;
        s->places[s->place_count++] = place;
    }
    s->roots[place] = insert(s, s->roots[place], row);
}

static void take(struct sweep *s, uint32_t row) {
    const struct weft_accesses *in = s->in;
    uint32_t held = s->holder[row];
    if (held == NONE || --s->nodes[held].holders) return;
    if (s->of_args[in->args[held]] == held) s->of_args[in->args[held]] = NONE;
    uint32_t place = place_of_row(in, held);
    s->roots[place] = removed(s, s->roots[place], held);
    if (s->roots[place] != NONE) return;
    uint32_t last = s->places[--s->place_count];
    s->places[s->place_of[place]] = last;
    s->place_of[last] = s->place_of[place];
}

/* What is never over ends behind the last event. */
static uint64_t end_of(const struct weft_accesses *in, uint64_t row) {
    return (uint64_t)in->end[row] < in->events ? (uint64_t)in->end[row] : in->events;
}

/* A counting sort, as ends are events. */
static bool sort_by_end(struct sweep *s) {
    const struct weft_accesses *in = s->in;
    uint32_t *first = calloc(in->events + 2, sizeof *first);
    s->by_end = malloc((in->count + 1) * sizeof *s->by_end);
    if (!first || !s->by_end) {
        free(first);
        return false;
    }
    for (uint64_t i = 0; i < in->count; i++)
        if (in->end[i] > in->begin[i]) first[end_of(in, i) + 1]++, s->pending++;
    for (uint64_t e = 0; e <= in->events; e++) first[e + 1] += first[e];
    for (uint64_t i = 0; i < in->count; i++)
        if (in->end[i] > in->begin[i]) s->by_end[first[end_of(in, i)]++] = (uint32_t)i;
    free(first);
    return true;
}

static bool told(const struct sweep *s, uint32_t one, uint32_t two) {
    uint64_t bit = (uint64_t)one * s->in->sites + two;
    return s->told[bit >> 3] >> (bit & 7) & 1;
}

static uint64_t run(struct sweep *s, uint64_t most, uint32_t *earlier, uint32_t *later) {
    const struct weft_accesses *in = s->in;
    uint64_t gone = 0, found = 0;
    for (uint32_t row = 0; row < in->count; row++) {
        while (gone < s->pending && in->end[s->by_end[gone]] <= in->begin[row]) take(s, s->by_end[gone++]);
        for (uint32_t k = 0; k < s->place_count && found < most; k++) {
            uint32_t place = s->places[k];
            if (!(place & WRITES) && !in->writes[row]) continue;
            if (told(s, place / PLACES, in->site[row])) continue;
            if (!*s->steps && (place & SHAPED || in->shape[row])) continue;
            uint32_t other = meeting(s, s->roots[place], row);
            if (other == NONE) continue;
            uint64_t bit = (uint64_t)(place / PLACES) * in->sites + in->site[row];
            s->told[bit >> 3] |= (uint8_t)(1u << (bit & 7));
            earlier[found] = other;
            later[found++] = row;
        }
        if (in->end[row] > in->begin[row]) put(s, row);
    }
    return found;
}

int64_t weft_overlaps(const struct weft_accesses *in, uint64_t most, uint32_t *earlier, uint32_t *later,
                      uint64_t *steps, uint32_t *undecided) {
    uint64_t places = PLACES * (uint64_t)in->sites;
    struct sweep s = {.in = in, .steps = steps, .undecided = undecided};
    undecided[0] = undecided[1] = NONE;
    s.nodes = malloc((in->count + 1) * sizeof *s.nodes);
    s.holder = malloc((in->count + 1) * sizeof *s.holder);
    s.of_args = malloc((in->events + 1) * sizeof *s.of_args);
    s.roots = malloc((places + 1) * sizeof *s.roots);
    s.places = malloc((places + 1) * sizeof *s.places);
    s.place_of = malloc((places + 1) * sizeof *s.place_of);
    s.told = calloc((uint64_t)in->sites * in->sites / 8 + 1, 1); /* pages that nobody touches cost nothing */
    int64_t found = -1;
    if (s.nodes && s.holder && s.of_args && s.roots && s.places && s.place_of && s.told && sort_by_end(&s)) {
        memset(s.holder, 0xff, in->count * sizeof *s.holder);
        memset(s.of_args, 0xff, in->events * sizeof *s.of_args);
        memset(s.roots, 0xff, places * sizeof *s.roots);
        found = (int64_t)run(&s, most, earlier, later);
    }
    free(s.nodes);
    free(s.holder);
    free(s.of_args);
    free(s.roots);
    free(s.places);
    free(s.place_of);
    free(s.told);
    free(s.by_end);
    return found;
}
