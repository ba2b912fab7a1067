/* Strands and the paths between them. */
#include "growing.h"
#include "openmp.h"

#include <string.h>
#include <sys/mman.h>

/* A search of a few steps; what it answers behind them. */
struct short_search {
    int steps;
    bool answer;
};

struct clock weft_omp = {.current = 1, .base = 1, .next = 2, .apart = true};

#define MOST ((size_t)0xF0000000) /* strands of one region */
struct node *weft_nodes;
strand_t weft_first = 1;
static uint32_t searches;
#define MANY (4u << 20) /* so many are given back when they are over; fewer are soon used again */
static bool any_before, any_history;

static void reserve(void) {
    weft_nodes = mmap(NULL, MOST * sizeof *weft_nodes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (weft_nodes == MAP_FAILED) abort();
}

strand_t strand_new(strand_t parent, enum kind kind, uint64_t locks) {
    if (!weft_nodes) reserve();
    strand_t s = now.next++;
    if (s - weft_first >= MOST) { /* more strands at once than there is room for: the last ones are one */
        now.next--;
        return s - 1;
    }
    struct node *n = node(s);
    *n = (struct node){.parent = parent, .kind = kind, .locks = locks};
    n->depth = parent >= weft_first ? node(parent)->depth + 1 : 0;
    return s;
}

bool strands_crowd(void) { return now.next - now.base > (strand_t)24 << 20; }

/* What comes before strands: in chunks, which are used again when all strands are over. */
#define CHUNK 4096
static struct chunk {
    struct chunk *next;
    struct before all[CHUNK];
} *chunks, *chunk;
static size_t chunk_used;

static struct before *before_new(void) {
    if (!chunk || chunk_used == CHUNK) {
        struct chunk **next = chunk ? &chunk->next : &chunks;
        if (!*next) {
            if (!(*next = real_malloc(sizeof **next))) return NULL;
            (*next)->next = NULL;
        }
        chunk = *next;
        chunk_used = 0;
    }
    return &chunk->all[chunk_used++];
}

/* In the midst of a region: all but the threads' new strands is over. Pages of the old ones go back. */
void strands_past(strand_t base) {
    const uintptr_t page = 4096;
    uintptr_t low = ((uintptr_t)node(now.base + 8) + page - 1) & ~(page - 1),
              high = (uintptr_t)node(base) & ~(page - 1);
    if (!any_before && !any_history && high > low + 64 * page) madvise((void *)low, high - low, MADV_DONTNEED);
    now.base = base;
    any_before = false; /* all paths are over */
    shadow_forget();
}

void strands_forget(void) {
    if (!weft_nodes) reserve();
    chunk = NULL;
    any_before = any_history = false;
    if (now.next - weft_first > MANY) madvise(weft_nodes, (now.next - weft_first) * sizeof *weft_nodes, MADV_DONTNEED);
    if (now.next > 0xF0000000u || shadow_full()) {
        shadow_restart();
        now.next = 2;
        now.newest = 0;
    }
    shadow_forget();
    weft_first = now.base = now.next;
    now.row = now.row_end = 0;
    strand_t root = strand_new(0, ROOT, 0);
    node(root)->depth = 0;
    run_as(root);
}

void current_is(strand_t s) {
    now.current = s;
    now.first_turn = s > now.newest;
    if (now.first_turn) now.newest = s;
    shadow_turn();
    now.in_row = s - now.row < now.row_end - now.row && !any_before;
    now.locks = me && (me->held || me->released);
    now.apart = !now.on || !me || now.locks || now.devices;
    hooks_again();
}

void checks(bool on) {
    now.on = on;
    current_is(now.current);
}

void run_as(strand_t s) {
    if (me) me->current = me->plain = s;
    current_is(s);
}

/* From here on a path may lead from a strand, and from all that it is of, to others. */
static void leads_on(strand_t s) {
    for (; s >= weft_first && !node(s)->leads_on; s = node(s)->parent) node(s)->leads_on = true;
}

static void add_before(strand_t s, strand_t earlier, strand_t last) {
    leads_on(earlier);
    struct before *b = before_new();
    if (!b) return;
    *b = (struct before){.node = earlier, .last = last, .next = node(s)->before};
    node(s)->before = b;
}

void comes_before(strand_t s, strand_t earlier, strand_t last) {
    if (earlier < now.base) return;
    add_before(s, earlier, last);
    any_before = true;
    now.in_row = false;
    hooks_again();
}

void comes_before_by_lock(strand_t s, strand_t earlier, strand_t last) {
    const struct before *was = node(s)->before;
    comes_before(s, earlier, last);
    if (node(s)->before != was) node(s)->before->by_lock = true;
}

/* A list of releases: each is behind the earlier ones. Whose strand was the last already, goes on in it. */
strand_t history_new(strand_t earlier, strand_t released) {
    if (earlier >= now.base) {
        struct before *b = node(earlier)->before;
        if (b && trunk(b->node) == trunk(released)) {
            b->node = released;
            b->last = now.next - 1;
            leads_on(released);
            return earlier;
        }
    }
    strand_t s = strand_new(0, HISTORY, 0);
    any_history = true;
    if (earlier >= now.base) add_before(s, earlier, now.next);
    add_before(s, released, now.next - 1);
    return s;
}

/* Two releases, each of which comes before who acquires. */
strand_t history_of_two(strand_t one, strand_t last, strand_t two) {
    strand_t s = strand_new(0, HISTORY, 0);
    any_history = true;
    add_before(s, one, last);
    add_before(s, two, now.next - 1);
    return s;
}

strand_t segment(void) {
    strand_t was = bare(me->plain), root = trunk(was);
    strand_t s = strand_new(root, SEGMENT, 0);
    struct node *n = node(s), *r = node(root);
    n->loop = r->loop;
    n->index = r->index;
    n->place = r->place;
    if (was != root) comes_before(s, was, was);
    me->plain = s;
    locks_again();
    return s;
}

static bool over(const struct node *n) { return n->joined && (n->kind == IMPLICIT || n->kind == REGION); }

static bool is_share(const struct node *n) {
    return n->kind == ITERATION || n->kind == SECTION || n->kind == SINGLE || n->kind == LANE;
}

/* By the tree alone: every strand from the earlier one up to below the common ancestor was waited for. What a thread does
 * behind a single block is in its strand too, so that only shares of other constructs are apart from it: any thread may
 * have them. */
static bool by_tree(strand_t a, strand_t b) {
    bool fine = true, share = false;
    while (a != b) {
        if (a < weft_first || b < weft_first) return true;
        const struct node *na = node(a), *nb = node(b);
        if (na->depth < nb->depth) {
            share = is_share(nb);
            b = nb->parent;
            continue;
        }
        if (over(na)) fine = true;
        else if (na->kind == SINGLE && na->parent == b && !share) return fine;
        else if (na->kind != LOCKED && na->kind != SEGMENT && !na->joined) fine = false;
        a = na->parent;
    }
    return fine;
}

/* Iterations of two loops with schedule(static) over the same indices: the same number is the same thread. */
static bool same_static(strand_t a, strand_t b) {
    a = trunk(a);
    b = trunk(b);
    if (a < weft_first || b < weft_first) return false;
    const struct node *na = node(a), *nb = node(b);
    return na->kind == ITERATION && nb->kind == ITERATION && na->index == nb->index && na->loop != nb->loop &&
           (na->loop & nb->loop & 1) && na->parent == nb->parent && loops_deal_alike(na->loop, nb->loop, na->index);
}

/* Whether a strand neither gave something to others, nor is over for whom waited for it. */
static bool leads_nowhere(strand_t a) {
    strand_t s = trunk(a);
    if (s < weft_first || node(s)->leads_on || node(s)->kind == SINGLE) return false;
    for (; s >= weft_first; s = node(s)->parent)
        if (node(s)->joined) return false;
    return true;
}

#define SEARCH 256 /* steps that each search adds to what all may take */
#define SEARCHES (1 << 24) /* so many at first, and at most */
#define SHORT 64
static int64_t steps_left = SEARCHES;

/* Whether a search may go on; the answer of one that may not is that there is a path. */
static bool may_step(struct short_search *own) {
    if (own) return own->steps-- > 0;
    if (steps_left-- > 0) return true;
    told_plain("left", "paths", node(trunk(now.current))->place, 0);
    return false;
}

/* Along what comes before strands otherwise than by the tree: dependences, releases, turns. `own`: of a short search. */
static bool by_paths(strand_t a, strand_t b, bool locks, struct short_search *own) {
    if (leads_nowhere(a)) return false;
    if (steps_left < SEARCHES - SEARCH) steps_left += SEARCH;
    static strand_t *stack;
    static size_t room;
    size_t count = 0;
    uint32_t search = ++searches;
    GROW(stack, count, room, 1024);
    stack[count++] = b;
    while (count) {
        strand_t s = stack[--count];
        for (; s >= weft_first; s = node(s)->parent) {
            struct node *n = node(s);
            if (n->seen == search) break;
            n->seen = search;
            if (!may_step(own)) return !own || own->answer;
            for (const struct before *e = n->before; e; e = e->next) {
                if (a > e->last || e->node < weft_first || (e->by_lock && !locks)) continue;
                if (node(e->node)->kind != HISTORY && (trunk(e->node) == trunk(a) || by_tree(a, e->node))) return true;
                GROW(stack, count, room, 1024);
                stack[count++] = e->node;
            }
        }
    }
    return false;
}

static bool find(strand_t a, strand_t b, bool locks, struct short_search *own) {
    if (a < now.base || a == b) return true;
    a = bare(a);
    b = bare(b);
    if (a == b || trunk(a) == trunk(b)) return true;
    if (by_tree(a, b) || same_static(a, b)) return true;
    return any_before && by_paths(a, b, locks, own);
}

static bool iterations_of_one(strand_t a, strand_t b) {
    const struct node *na = node(a), *nb = node(b);
    return na->kind == ITERATION && nb->kind == ITERATION && na->loop == nb->loop && !any_before;
}

static bool ordered_by(strand_t earlier, strand_t later, struct short_search *own) {
    if (earlier - now.row < now.row_end - now.row && later - now.row < now.row_end - now.row && !any_before)
        return earlier == later;
    static struct {
        strand_t a, b;
        bool is;
    } known[4096];
    if (earlier < now.base || earlier == later) return true;
    if (iterations_of_one(earlier, later)) return false;
    unsigned slot = (earlier * 2654435761u ^ later * 40503u) >> 20;
    if (known[slot].a == earlier && known[slot].b == later && known[slot].is) return true;
    bool is = find(earlier, later, true, own);
    if (own && own->steps < 0) return is; /* that is not sure */
    known[slot].a = earlier;
    known[slot].b = later;
    known[slot].is = is;
    return is;
}

bool ordered(strand_t earlier, strand_t later) { return ordered_by(earlier, later, NULL); }
bool ordered_nearby(strand_t earlier, strand_t later, bool otherwise) {
    return ordered_by(earlier, later, &(struct short_search){SHORT, otherwise});
}
bool ordered_always(strand_t earlier, strand_t later) { return find(earlier, later, false, NULL); }

/* Whether one thread ran both, in its implicit task: then what is that thread's own is no matter of two. */
bool same_thread(strand_t a, strand_t b) {
    while (a != b) {
        if (a < weft_first || b < weft_first) return false;
        if (node(a)->depth >= node(b)->depth) {
            if (node(a)->kind == TASK) return false;
            a = node(a)->parent;
        } else {
            if (node(b)->kind == TASK) return false;
            b = node(b)->parent;
        }
    }
    for (; a >= weft_first; a = node(a)->parent)
        if (node(a)->kind == IMPLICIT || node(a)->kind == TASK) return true;
    return false;
}
