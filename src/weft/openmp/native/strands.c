/* Strands and the paths between them. */
#include "growing.h"
#include "shadow.h"

#include <string.h>
#include <sys/mman.h>

/* A search of a few steps; what it answers after them. */
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
uint32_t weft_order_version;
static bool has_edges, has_histories;

/* Iterations that one thread began one after the other: their nodes are computed from this when somebody asks. A loop of
 * millions of them writes none. */
struct series {
    uintptr_t first;
    strand_t parent;
    uint32_t loop, place;
    uint16_t depth;
    uint8_t kind;
    int64_t index, step;
    uint64_t locks;
};

static struct series *all_series;
static size_t series_count;
#define MANY_SERIES (1u << 18)

static void forget_all_series(void) {
    series_count = 0;
    now.series.end = 0;
}

/* Return the node of a strand of a series; zeros for one that was forgotten. Safe in a signal handler. */
struct node compute_node(strand_t strand) {
    size_t count =
        count_elements_up_to(all_series, series_count, sizeof *all_series, offsetof(struct series, first), strand);
    if (!count) return (struct node){.number = strand};
    const struct series *series = &all_series[count - 1];
    return (struct node){.parent = series->parent,
                         .depth = series->depth,
                         .kind = series->kind,
                         .locks = series->locks,
                         .loop = series->loop,
                         .index = series->index + (int64_t)(strand - series->first) * series->step,
                         .place = series->place,
                         .number = strand};
}

/* Write the node of a strand of a series, and return it. */
struct node *write_node(strand_t strand) {
    struct node *written = &weft_nodes[strand - weft_first];
    *written = compute_node(strand);
    return written;
}

/* Map the tables of strands (iterations, tasks, threads) and of series once for the whole run; pages take no RAM until
 * they are used. Aborts on failure. */
static void reserve_strand_nodes(void) {
    weft_nodes = mmap(NULL, MOST * sizeof *weft_nodes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    all_series = mmap(NULL, MOST * sizeof *all_series, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (weft_nodes == MAP_FAILED || all_series == MAP_FAILED) abort();
}

/* Create a strand (iteration, task or thread) and return its number. `locks`: a bit for each lock that it holds. If the
 * table is full, the last strand is returned again. */
strand_t create_strand(strand_t parent, enum kind kind, uint64_t locks) {
    if (!weft_nodes) reserve_strand_nodes();
    strand_t strand = now.next++;
    if (strand - weft_first >= MOST) { /* more strands at once than there is room for: the last ones are one */
        now.next--;
        return strand - 1;
    }
    struct node *created = &weft_nodes[strand - weft_first];
    *created = (struct node){.parent = parent, .kind = kind, .locks = locks, .number = strand};
    created->depth = parent >= weft_first ? node(parent)->depth + 1 : 0;
    return strand;
}

/* Create the strand of an iteration or lane of a loop, in the series of the one before it or in a new one. */
strand_t create_share(strand_t parent, const struct work *work, int64_t index) {
    if (now.next - weft_first >= MOST) return now.next - 1;
    struct series *series = series_count ? &all_series[series_count - 1] : NULL;
    bool is_of_series = series && now.series.end == now.next && series->loop == work->loop && series->parent == parent;
    if (is_of_series && now.next - series->first == 1) series->step = now.series.step = index - series->index;
    if (!is_of_series || index - now.series.index != now.series.step) {
        all_series[series_count++] = (struct series){.first = now.next,
                                                     .parent = parent,
                                                     .loop = work->loop,
                                                     .place = work->place,
                                                     .index = index,
                                                     .locks = work->lanes ? (uint64_t)work->safelen : 0,
                                                     .depth = parent >= weft_first ? node(parent)->depth + 1 : 0,
                                                     .kind = work->lanes ? LANE : ITERATION};
        now.series.loop = work->loop;
        now.series.parent = parent;
        now.series.step = 0;
    }
    now.series.index = index;
    now.series.end = ++now.next;
    return now.next - 1;
}

/* Let the newest strand of all, an iteration or lane without an access so far, stand for another index. */
void set_share_index(strand_t strand, int64_t index) {
    struct series *series = &all_series[series_count - 1];
    if (now.series.end == strand + 1 && series->first == strand) series->index = now.series.index = index;
    node(strand)->index = index;
}

/* What comes before strands: in chunks, which are used again when all strands are over. */
#define CHUNK 4096
static struct chunk {
    struct chunk *next;
    struct before all[CHUNK];
} *chunks, *chunk;
static size_t chunk_used;

/* Allocate a happens-before edge from a pool that is reset when all strands are over; NULL without memory. */
static struct before *allocate_order_edge(void) {
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

/* In the middle of a region, at a barrier: declare all strands numbered below `base` over, since they happen before
 * everything that follows, and return their pages to the system. */
void retire_strands_before(strand_t base) {
    const uintptr_t page = 4096;
    uintptr_t low = ((uintptr_t)node(now.base + 8) + page - 1) & ~(page - 1),
              high = (uintptr_t)node(base) & ~(page - 1);
    if (!has_edges && !has_histories && high > low + 64 * page) madvise((void *)low, high - low, MADV_DONTNEED);
    if (!has_edges && !has_histories && series_count > MANY_SERIES) forget_all_series();
    now.base = base;
    has_edges = false; /* all paths are over */
    retire_all_marks();
}

/* Declare all strands over, since they happen before everything that follows, and begin a new root strand. Restart the
 * numbering of strands and marks when it is nearly used up. */
void retire_all_strands(void) {
    if (!weft_nodes) reserve_strand_nodes();
    chunk = NULL;
    has_edges = has_histories = false;
    if (now.next - weft_first > MANY) madvise(weft_nodes, (now.next - weft_first) * sizeof *weft_nodes, MADV_DONTNEED);
    if (now.next > 0xF0000000u || are_marks_nearly_used_up()) {
        empty_shadow();
        madvise(weft_nodes, MOST * sizeof *weft_nodes, MADV_DONTNEED); /* their numbers come again */
        now.next = 2;
        now.newest = 0;
    }
    retire_all_marks();
    weft_first = now.base = now.next;
    forget_all_series();
    now.row = now.row_end = 0;
    strand_t root = create_strand(0, ROOT, 0);
    node(root)->depth = 0;
    run_as_strand(root);
}

/* Set the strand (iteration, task or thread) that accesses memory from now on, and derive from it how its accesses are
 * checked. */
void set_current_strand(strand_t strand) {
    now.current = strand;
    now.atomic_since = 0;
    if (!now.keeps_calm) {
        now.calm = now.mark;
        now.calm_room = 0;
        now.calm_breaks++;
    }
    now.keeps_calm = false;
    now.first_turn = strand > now.newest;
    if (now.first_turn) now.newest = strand;
    begin_turn_of_marks();
    now.in_row = strand - now.row < now.row_end - now.row && !has_edges;
    now.locks = me && (me->held || me->released);
    now.apart = !now.on || !me || now.locks || now.devices;
    refresh_hooks();
}

/* Switch the check of accesses on or off. */
void set_checking(bool is_on) {
    now.on = is_on;
    set_current_strand(now.current);
}

/* Let the running thread continue as a strand (iteration, task or thread) that holds no locks. */
void run_as_strand(strand_t strand) {
    if (me) me->current = me->plain = strand;
    bool is_new = strand > now.newest;
    set_current_strand(strand);
    if (is_new) now.atomic_since = now.atomic;
}

/* Note of a strand and all its ancestors that a happens-before edge leads from it to others. */
static void mark_as_leading_on(strand_t strand) {
    for (; strand >= weft_first && !node(strand)->leads_on; strand = node(strand)->parent)
        node(strand)->leads_on = true;
}

/* Add an edge: the strand `earlier` and its parts up to number `last` happen before a strand. Without memory the edge
 * is dropped. */
static void add_order_edge(strand_t strand, strand_t earlier, strand_t last) {
    mark_as_leading_on(earlier);
    struct before *edge = allocate_order_edge();
    if (!edge) return;
    *edge = (struct before){.node = earlier, .last = last, .next = node(strand)->before};
    node(strand)->before = edge;
    weft_order_version++;
}

/* Record that the strand `earlier` and its parts up to number `last` happen before another one; needless for a strand
 * that is over. */
void order_strand_after(strand_t strand, strand_t earlier, strand_t last) {
    if (earlier < now.base) return;
    add_order_edge(strand, earlier, last);
    has_edges = true;
    now.in_row = false;
    refresh_hooks();
}

/* Record the order of two strands that only holds in this run, since it comes from which of them took a lock first. */
void order_strand_after_by_lock(strand_t strand, strand_t earlier, strand_t last) {
    const struct before *old_edge = node(strand)->before;
    order_strand_after(strand, earlier, last);
    if (node(strand)->before != old_edge) node(strand)->before->by_lock = true;
}

/* Append a release of a lock by the strand `released` to the lock's history, and return the new history. A further
 * release by the strand of the newest entry only extends that entry. */
strand_t add_release_to_history(strand_t history, strand_t released) {
    if (history >= now.base) {
        struct before *edge = node(history)->before;
        if (edge && find_whole_strand(edge->node) == find_whole_strand(released)) {
            edge->node = released;
            edge->last = now.next - 1;
            weft_order_version++;
            mark_as_leading_on(released);
            return history;
        }
    }
    strand_t extended = create_strand(0, HISTORY, 0);
    has_histories = true;
    if (history >= now.base) add_order_edge(extended, history, now.next);
    add_order_edge(extended, released, now.next - 1);
    return extended;
}

/* Return a history of two unordered releases, both of which happen before whoever acquires next: by `first` up to the
 * strand `first_last`, and by `second` up to now. */
strand_t create_history_of_two(strand_t first, strand_t first_last, strand_t second) {
    strand_t history = create_strand(0, HISTORY, 0);
    has_histories = true;
    add_order_edge(history, first, first_last);
    add_order_edge(history, second, now.next - 1);
    return history;
}

/* Split the running strand: return a new segment for what it does from now on, so that edges can begin or end between
 * its parts. */
strand_t begin_segment(void) {
    strand_t previous = find_strand_without_locks(me->plain), whole = find_whole_strand(previous);
    strand_t created = create_strand(whole, SEGMENT, 0);
    struct node *segment_node = node(created), *whole_node = node(whole);
    segment_node->loop = whole_node->loop;
    segment_node->index = whole_node->index;
    segment_node->place = whole_node->place;
    if (previous != whole) order_strand_after(created, previous, previous);
    me->plain = created;
    mark_t atomic_since = now.atomic_since;
    refresh_locked_strand();
    now.atomic_since = atomic_since;
    return created;
}

static bool is_awaited_thread_part(const struct node *ended) {
    return ended->joined && (ended->kind == IMPLICIT || ended->kind == REGION);
}

/* Return whether `earlier` happens before `later` by the tree of strands alone: it and all its ancestors below the
 * common one were waited for. Code after a `single` block belongs to that block's strand, too, so only iterations and
 * sections of other constructs are apart from it. */
static bool is_ordered_by_tree(strand_t earlier, strand_t later) {
    bool is_joined = true, is_in_share = false;
    while (earlier != later) {
        if (earlier < weft_first || later < weft_first) return true;
        const struct node *earlier_node = node(earlier), *later_node = node(later);
        if (earlier_node->depth < later_node->depth) {
            is_in_share = is_share(later_node);
            later = later_node->parent;
            continue;
        }
        if (is_awaited_thread_part(earlier_node)) is_joined = true;
        else if (earlier_node->kind == SINGLE && earlier_node->parent == later && !is_in_share) return is_joined;
        else if (earlier_node->kind != LOCKED && earlier_node->kind != SEGMENT && !earlier_node->joined)
            is_joined = false;
        earlier = earlier_node->parent;
    }
    return is_joined;
}

/* Return whether two strands are iterations of two different loops with schedule(static) that give both to the same
 * thread. */
static bool are_of_same_static_share(strand_t one, strand_t other) {
    one = find_whole_strand(one);
    other = find_whole_strand(other);
    if (one < weft_first || other < weft_first) return false;
    const struct node *node_one = node(one), *node_other = node(other);
    return node_one->kind == ITERATION && node_other->kind == ITERATION && node_one->index == node_other->index &&
           node_one->loop != node_other->loop && (node_one->loop & node_other->loop & 1) &&
           node_one->parent == node_other->parent &&
           are_dealt_to_same_thread(node_one->loop, node_other->loop, node_one->index);
}

/* Return whether no happens-before edge can start at a strand, so that a search is needless. */
static bool has_no_outgoing_edge(strand_t strand) {
    strand_t whole = find_whole_strand(strand);
    if (whole < weft_first || node(whole)->leads_on || node(whole)->kind == SINGLE) return false;
    for (; whole >= weft_first; whole = node(whole)->parent)
        if (node(whole)->joined) return false;
    return true;
}

#define SEARCH 256 /* steps that each search adds to what all may take */
#define SEARCHES (1 << 24) /* so many at first, and at most */
static int64_t steps_left = SEARCHES;

/* Count a step of a path search and return whether it may go on. If the overall budget is used up, report once that the
 * check is incomplete. */
static bool count_search_step(struct short_search *short_search) {
    if (short_search) return short_search->steps-- > 0;
    if (steps_left-- > 0) return true;
    report_plain_finding("left", "paths", node(find_whole_strand(now.current))->place, 0);
    return false;
}

/* Search backwards from `later` along happens-before edges (dependences, releases, turns) and return whether `earlier`
 * is reached. Edges from lock order count only if `with_locks`. A search that exceeds its budget returns
 * `short_search->answer`, or true. */
static bool is_ordered_by_edges(strand_t earlier, strand_t later, bool with_locks, struct short_search *short_search) {
    if (has_no_outgoing_edge(earlier)) return false;
    strand_t whole = find_whole_strand(earlier);
    uint32_t loop =
        node(whole)->kind == ITERATION ? node(whole)->loop : 0; /* whose iterations the tree does not order */
    if (steps_left < SEARCHES - SEARCH) steps_left += SEARCH;
    static strand_t *stack;
    static size_t room;
    size_t count = 0;
    uint32_t search = ++searches;
    GROW(stack, count, room, 1024);
    stack[count++] = later;
    while (count) {
        strand_t strand = stack[--count];
        for (; strand >= weft_first; strand = node(strand)->parent) {
            struct node *visited = node(strand);
            if (visited->seen == search) break;
            visited->seen = search;
            if (!count_search_step(short_search)) return !short_search || short_search->answer;
            for (const struct before *edge = visited->before; edge; edge = edge->next) {
                if (earlier > edge->last || edge->node < weft_first || (edge->by_lock && !with_locks)) continue;
                if (short_search && !count_search_step(short_search)) return short_search->answer;
                strand_t before = find_whole_strand(edge->node);
                if (before == whole) return true;
                const struct node *before_node = node(before);
                if (before_node->kind != HISTORY &&
                    !(loop && before_node->kind == ITERATION && before_node->loop == loop) &&
                    is_ordered_by_tree(earlier, edge->node))
                    return true;
                GROW(stack, count, room, 1024);
                stack[count++] = edge->node;
            }
        }
    }
    return false;
}

/* Return whether `earlier` happens before `later`, by the tree or by edges. is_ordered_by() caches the result. */
static bool search_happens_before(strand_t earlier, strand_t later, bool with_locks,
                                  struct short_search *short_search) {
    if (earlier < now.base || earlier == later) return true;
    earlier = find_strand_without_locks(earlier);
    later = find_strand_without_locks(later);
    if (earlier == later || find_whole_strand(earlier) == find_whole_strand(later)) return true;
    if (is_ordered_by_tree(earlier, later) || are_of_same_static_share(earlier, later)) return true;
    return has_edges && is_ordered_by_edges(earlier, later, with_locks, short_search);
}

/* Return whether two strands are iterations of one loop and no edges exist that could order them. */
static bool are_iterations_of_same_loop(strand_t one, strand_t other) {
    const struct node *node_one = node(one), *node_other = node(other);
    return node_one->kind == ITERATION && node_other->kind == ITERATION && node_one->loop == node_other->loop &&
           !has_edges;
}

/* Return whether `earlier` happens before `later`, with a cache. `short_search` limits the search; NULL: thorough. */
static bool is_ordered_by(strand_t earlier, strand_t later, struct short_search *short_search) {
    if (earlier - now.row < now.row_end - now.row && later - now.row < now.row_end - now.row && !has_edges)
        return earlier == later;
    static struct {
        strand_t a, b;
        bool result;
        uint32_t version; /* of a result that is false: it may become true where the version is a later one */
    } known[4096];
    if (earlier < now.base || earlier == later) return true;
    if (are_iterations_of_same_loop(earlier, later)) return false;
    unsigned slot = (earlier * 2654435761u ^ later * 40503u) >> 20;
    if (known[slot].a == earlier && known[slot].b == later &&
        (known[slot].result || known[slot].version == weft_order_version))
        return known[slot].result;
    bool result = search_happens_before(earlier, later, true, short_search);
    if (short_search && short_search->steps < 0) return result; /* that is not sure */
    known[slot].a = earlier;
    known[slot].b = later;
    known[slot].result = result;
    known[slot].version = weft_order_version;
    return result;
}

bool is_ordered(strand_t earlier, strand_t later) { return is_ordered_by(earlier, later, NULL); }

/* Return whether `earlier` happens before `later` if a search of so many steps shows it, else `answer_if_unknown`. */
bool is_ordered_nearby(strand_t earlier, strand_t later, int steps, bool answer_if_unknown) {
    return is_ordered_by(earlier, later, &(struct short_search){steps, answer_if_unknown});
}

/* Return whether `earlier` happens before `later` no matter which thread takes a lock first. */
bool is_ordered_without_locks(strand_t earlier, strand_t later) {
    return search_happens_before(earlier, later, false, NULL);
}

/* Return whether both strands ran in the implicit task of one thread, so that they cannot race on memory owned by that
 * thread. */
bool are_of_same_thread(strand_t one, strand_t other) {
    while (one != other) {
        if (one < weft_first || other < weft_first) return false;
        if (node(one)->depth >= node(other)->depth) {
            if (node(one)->kind == TASK) return false;
            one = node(one)->parent;
        } else {
            if (node(other)->kind == TASK) return false;
            other = node(other)->parent;
        }
    }
    for (; one >= weft_first; one = node(one)->parent)
        if (node(one)->kind == IMPLICIT || node(one)->kind == TASK) return true;
    return false;
}
