/* What the runtime of `weft check` knows while the program runs.
 *
 * Time is a stamp: a number that rises with every iteration, task and directive. A shadow cell holds for each granule
 *
 *     +-------------------+-------------------+
 *     | written (4 bytes) | read (4 bytes)    |     written: stamp of the last write, or a state (below)
 *     +-------------------+-------------------+     read: first stamp since the loop's start that read the old value
 *
 * so nothing is cleared between loops: what is at most `now.base` is older than the construct. Example: base 100, the
 * cell says written 103: the third iteration of this loop wrote it; a read at stamp 105 is a flow dependence.
 * A granule has 8 bytes; one that is accessed by halves or bytes is SPLIT and its cells lie in the finer spaces.
 */
#ifndef WEFT_CHECK_STATE_H
#define WEFT_CHECK_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cells.h"
#include "check.h"

/* One dimension of a mapping. */
struct term {
    int axis; /* >= 0, WEFT_CONSTANT or WEFT_ALL */
    int64_t coefficient, offset;
};

struct widths {
    int64_t low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
};

/* An array, template or variable. Owned by objects.c; `root` may point to the object itself. */
struct object {
    uintptr_t low, high; /* both 0: no memory (a template) */
    int data;            /* the newest name */
    int first_data;      /* the name it was made with */
    bool array, distributed, on_stack;
    size_t element;
    int rank, order;
    int64_t lower[WEFT_MAX_RANK], extent[WEFT_MAX_RANK], stride[WEFT_MAX_RANK]; /* stride in bytes */
    /* distribution: of this object (a root), or by alignment with a root */
    struct object *root;
    int kinds[WEFT_MAX_RANK];         /* of a root */
    double *blocks[WEFT_MAX_RANK];    /* sizes or weights; NULL: equal blocks */
    int64_t block_count[WEFT_MAX_RANK];
    int64_t *owner[WEFT_MAX_RANK];    /* indirect, derived: the processor of each element; owned by the object */
    struct term map[WEFT_MAX_RANK];   /* for each dimension of the root, from this object's index */
    int tasks;                        /* task array that it is distributed onto; 0: none */
    int64_t task;
    bool deferred;                    /* a later directive is to distribute it */
    /* shadow edges */
    struct widths shadow;   /* declared */
    struct widths renewed;  /* by the last renewal */
    bool corner;            /* the last renewal had corners */
    stamp_t renewed_at;     /* 0: never */
    stamp_t begun_at;       /* an asynchronous renewal that has not completed; 0: none */
    /* copies on host and device (regions.c) */
    stamp_t on_device;   /* first region that used it; 0: none */
    stamp_t actual_at, got_at, host_wrote, device_wrote;
    int direction;       /* in the current region; 0: not named */
    stamp_t local_from, local_to; /* last region in which it was local */
    struct owners *owners; /* of a replicated array: whose copy has which value (copies.c); owned by it */
    unsigned mapped;       /* how often it was distributed or aligned */
    uint64_t version;      /* another one for each mapping of each object */
    struct object *next_free;
};

/* An array as the current construct sees it: where the iteration's own element lies. */
struct aspect {
    uintptr_t *home; /* address of the own element; free dimensions at their lower bound */
    int64_t step;    /* what the innermost index adds to home */
    struct object *object;
    bool remote;    /* from a REMOTE_ACCESS clause */
    bool exact;     /* home is affine in the indices */
    stamp_t filled; /* remote: when its buffer was filled */
    bool free[WEFT_MAX_RANK];
    struct term own[WEFT_MAX_RANK];  /* own index of each dimension from the loop's indices, over `divisor` */
    int64_t divisor[WEFT_MAX_RANK];
    bool across;
    struct widths over; /* widths of across */
};

enum mode {
    FREE,       /* not looked at */
    OWN,        /* a distributed element of this iteration */
    EDGE,       /* a shadow element that has been renewed */
    ACROSS,
    REMOTE,
    PRIVATE,
    SHARED,     /* any two iterations that touch it, one writing, are in conflict */
    REPLICATED, /* every processor has its copy: read only, or written first */
    HOST,       /* sequential part */
    BAD         /* every access is judged */
};

/* What a place of the program may access in this construct without being judged. A hook finds its site by its return
 * address; where the compiler's assembly was rewritten (weft.instrument.assembly, which knows these offsets), each place
 * has a site of its own.
 *
 *     0 key   8 home   16 low   24 reach   32 least   36 limit   40 floor   44 span   48 track   56 known   60 since;
 *     the rest is for judge() alone
 */
struct site {
    uintptr_t key;         /* the place while the site is open, else 0 */
    const uintptr_t *home; /* what `low` is relative to */
    uintptr_t low, reach;  /* an access at home+low .. home+low+reach */
    stamp_t least, limit;  /* reading: what was written at least..least+limit is right */
    stamp_t floor, span;   /* writing: judged where written - floor < span */
    unsigned char track, mode, write, size;
    bool closed;           /* every access is judged */
    unsigned char follows; /* dimension, from 1: by whole steps of it the interval may lie from `lowest` to `highest` */
    uint16_t context; /* what is wrong in the one may be right in another (owned.c) */
    stamp_t known; /* the limit of a site that is tracked */
    stamp_t since; /* what is older is judged: there are two copies */
    stamp_t fresh; /* shadow edges and remote buffers: when they were filled */
    uint32_t changed; /* weft_sites_changed, when it was opened or moved */
    struct object *object;
    uintptr_t place;
    uintptr_t length; /* reach + the access's size */
    union {
        struct {
            uintptr_t period, total; /* the same interval again every `period` bytes, below `total` */
        };
        struct { /* with a grid (block_sites.c) */
            uintptr_t lowest, highest;
        };
        struct { /* of a place whose accesses are wrong: where all are wrong in the same way */
            const uintptr_t *wrong_home;
            uintptr_t wrong_low;
        };
    };
    struct site *next; /* opened since the sites were forgotten; itself: the last one */
    uint64_t *wrong; /* counts them; NULL: each is judged. Stands as long as `known` is weft_sites_forgotten */
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct site) == 128 && offsetof(struct site, span) == 44 && offsetof(struct site, track) == 48 &&
                   offsetof(struct site, known) == 56 && offsetof(struct site, since) == 60,
               "weft.instrument.assembly knows these");

#define SITES 8192

struct clock {
    stamp_t cur; /* this iteration */
    stamp_t base; /* the construct's start: everything newer belongs to the construct */
    bool looked; /* accesses have sites: a parallel construct, or something to guard */
    bool off; /* no checks at all: a child that verifies reductions, or no findings wanted */
};

extern struct clock weft_now; /* `cur`, then `base`: weft.instrument.assembly knows that */
extern struct site weft_sites[SITES];
extern const uintptr_t weft_nowhere; /* home of a site that lets nothing pass */
#define now weft_now

enum what { SEQUENTIAL, LOOP, TASKS, OWNED };

struct private {
    uintptr_t low, high;
    int data;
    bool unseen; /* code without hooks writes it */
};

struct reduction {
    uintptr_t low, high;
    int data, operation, type;
    int64_t count;
    void *location;
    size_t location_bytes;
    int group;
    uintptr_t reader; /* place of the last read */
};

#define MAX_CLAUSES 256
#define MAX_ASPECTS 256

struct construct {
    enum what what;
    int id, rank;
    unsigned flags;
    struct object *on; /* root whose coordinates `at` gives; NULL: no ON */
    struct term at[WEFT_MAX_RANK];
    int64_t index[WEFT_MAX_RANK];
    struct private privates[MAX_CLAUSES];
    int private_count;
    struct private indices[WEFT_MAX_RANK * 2];
    int index_count;
    struct reduction reductions[MAX_CLAUSES];
    int reduction_count;
    struct aspect *aspects; /* of a loop: weft_aspects */
    uintptr_t *homes; /* theirs, of a loop: weft_homes */
    int aspect_count, aspect_room;
    struct {
        struct object *object;
        struct widths widths;
    } across[32], computed[32];
    int across_count, computed_count;
    struct {
        struct object *object;
        struct term terms[WEFT_MAX_RANK];
        int rank;
        stamp_t filled;
    } remotes[64];
    int remote_count;
    struct {
        struct object *object;
        struct term terms[WEFT_MAX_RANK];
        int rank;
    } ties[32];
    int tie_count;
    struct {
        struct object *object;
        int group;
    } consistent[32];
    int consistent_count;
    unsigned instance; /* of this loop, from 1 */
    struct object *written[MAX_CLAUSES]; /* undistributed objects that iterations wrote, to be undefined afterwards */
    int written_count;
    int group;
    uintptr_t frame; /* stack below it belongs to what iterations call */
    int64_t expected, inner_step; /* of the innermost index */
    int64_t room; /* so many more iterations of this row lie in the same blocks */
    uint64_t blocks; /* which blocks those are, as one number */
    int quick; /* aspects to advance; -1: the next iteration is not an ordinary one */
    bool started;
};

/* A loop's aspects, their homes, and what an iteration of the innermost loop adds to these. */
extern struct aspect weft_aspects[MAX_ASPECTS];
extern uintptr_t weft_homes[MAX_ASPECTS];
extern int64_t weft_moves[MAX_ASPECTS];

/* What rewritten assembly compares an iteration with (weft.instrument.assembly knows the offsets): where it is the expected
 * one, it advances `expected`, now.cur and the first STEP_HOMES homes. */
struct step {
    int64_t expected; /* innermost index; NO_STEP: the runtime is to be called */
    int64_t inner_step;
    int64_t outer[2];
};
#define NO_STEP INT64_MIN
#define STEP_HOMES 4
extern struct step weft_step;

extern struct construct weft_construct;
#define here weft_construct

/* --- objects.c --- */
struct object *object_at(uintptr_t a);
struct object *object_of(int data, const void *base);
void objects_leave(uintptr_t bottom);
struct object *object_after(uintptr_t a); /* the first that ends above a */
extern uintptr_t weft_lowest_stack;
bool on_stack(uintptr_t a);
void mark(uintptr_t low, uintptr_t high, stamp_t written);
void split8(struct cell *c, uintptr_t a);
void split4(struct cell *c, uintptr_t a);
void object_gap(uintptr_t a, uintptr_t *low, uintptr_t *high);
void objects_renumber(void);
void object_drop(struct object *o);
void close_sites(void);
void forget_sites(void); /* and those that are kept of other blocks */
void open_site(struct site *s);
extern uint32_t weft_sites_changed; /* how often a site was opened, closed or moved */
extern uint32_t weft_sites_forgotten; /* how often all were */
struct site *sites_opened(void);
struct term composed(struct term m, int rank, const int axis[], const int64_t coefficient[], const int64_t offset[]);
void index_of(const struct object *o, uintptr_t a, int64_t index[]);

/* --- cells.c --- */
bool scan(const void *cells, int64_t stride, int64_t n, int tile, stamp_t least, stamp_t limit, stamp_t also);
void touch(void *cells, int64_t stride, int64_t n, int tile, stamp_t first, stamp_t rise);
void fill(void *cells, int64_t stride, int64_t n, int tile, stamp_t first, stamp_t rise);
bool wide(void); /* the processor has AVX2 */

/* --- ownership.c --- */
bool gridded(void);
bool same_owner(const struct object *root, int dimension, int64_t a, int64_t b);
int grid_size(void);
int grid_place(int processor, int at[WEFT_MAX_RANK]);
int grid_axis(const struct object *root, int dimension);
int64_t grid_part(const struct object *root, int dimension, int64_t t);
int paired(const struct object *root, int d, const struct object *other);
bool alike_distributed(const struct object *a, int d, const struct object *b, int e);
bool same_processor(const struct object *a, int d, int64_t t, const struct object *b, int e, int64_t u);
void block_of(const struct object *root, int dimension, int64_t t, int64_t *low, int64_t *high);
int64_t block_low(const struct object *root, int dimension, int64_t t);
int64_t block_high(const struct object *root, int dimension, int64_t t);

/* --- loops.c --- */
struct aspect *aspect_of(struct object *o);
void aspect_lay(struct aspect *s);
void find_blocks(void);
void home_of(const struct aspect *s, const int64_t index[], int64_t own[]);
int iteration_of(stamp_t s, int64_t index[]);
stamp_t tick(void);
void loop_index(void); /* here.index is this iteration's */
void construct_on(int data, const void *base, int rank, const int axis[], const int64_t coefficient[],
                  const int64_t offset[]);
void construct_remotes(void);
void construct_undefine(void);
void undefine(uintptr_t low, uintptr_t high);
bool row_ordinary(int rank, int64_t *before, int64_t *done);
bool row_rises(int64_t step);
int64_t row_room(void);
void row_advance(int64_t count);

/* --- block_sites.c --- */
bool block_site_follows(const struct aspect *v);
bool block_site_again(struct site *s, uintptr_t a, size_t size);
void block_site_aside(struct site *s);
void block_sites(uint64_t from);
void block_sites_forget(void);

/* --- groups.c --- */
struct groups {
    struct held {
        int group;
        uintptr_t low, high;
        bool started;
    } held[MAX_CLAUSES];
    int count;
};
void groups_hold(struct groups *g, int group, uintptr_t low, uintptr_t high);
void groups_start(struct groups *g, int construct, int group, const char *none, const char *twice);
void groups_wait(struct groups *g, int construct, int group, const char *none,
                 void (*release)(uintptr_t low, uintptr_t high));

/* --- consistent.c --- */
bool is_consistent(const struct object *o);
void consistent_hold(void);

/* --- copies.c --- */
void copies_keep(struct object *o);
bool copies_own(const struct object *o, uintptr_t a);
void copies_forget(struct object *o);
struct detail;
bool copies_again(const struct detail *d);
void copies_compare(void);

/* --- blocks.c --- */
#define NAMED 4096 /* blocks of the heap that are at least so long are objects from the beginning */
void blocks_made(void);
bool block_around(uintptr_t a, uintptr_t *low, uintptr_t *high);
struct object *block_object(uintptr_t a, size_t size);
void block_shape(struct object *o, size_t size);
struct object *object_insert(int data, uintptr_t low, size_t bytes);
void object_shape(struct object *o, size_t element, int rank, const int64_t lower[], const int64_t extent[], int order);

/* --- scattered.c --- */
bool scattered(const struct object *root);
unsigned scattered_apart(const struct object *o, const int64_t at[]);
int scattered_edge(const struct object *o, const int64_t at[], unsigned apart, stamp_t *when);
void scattered_renew(struct object *o, int name);
void scattered_forget(struct object *o);

/* --- under_way.c --- */
extern int weft_parts_under_way;
bool under_way_near(uintptr_t low, uintptr_t high);
const char *under_way_wrong(uintptr_t a, bool write);
void under_way_forget(uintptr_t low, uintptr_t high);
void under_way_end(void);

/* --- owned.c --- */
extern uint16_t weft_context; /* which statement with an owner is being run; 0: none */
void owned_more(struct aspect *s);
void owned_forget(void);
void owned_opened(struct site *s);

/* --- access.c --- */
extern unsigned weft_depth; /* of the functions that are being run */
void access_range(uintptr_t a, size_t size, bool write, uintptr_t place);

/* --- put_out.c --- */
void put_out_whole(uintptr_t low, size_t n, uintptr_t place);

/* --- judge.c --- */
void judge_reductions(void);
void judge(uintptr_t a, size_t size, bool write, uintptr_t place, struct site *s);

/* --- reductions.c --- */
void reductions_fork(void);
void reductions_iteration(void);
void reductions_end(void);
void reductions_hold(void);

/* --- regions.c --- */
extern bool weft_in_region, weft_on_host, weft_sequential_checked;
extern int weft_io;
bool from_device(stamp_t s);
stamp_t region_start(void);
stamp_t region_end_stamp(void); /* the last region's */
stamp_t section_known(const struct object *o, uintptr_t a, bool got);
extern struct task_state {
    int tasks;
    bool in_task;
    int64_t task;
    stamp_t base, begun;
    int construct;
} weft_task;

/* --- ran.c --- */
void ran(int construct);
void ran_iterations(int construct, uint64_t count);
void ran_place(uintptr_t place);
void ran_end(void);

/* --- findings.c --- */
void findings_ran(int construct, uint64_t times, uint64_t iterations);
void findings_places(unsigned count);
struct detail {
    const char *kind, *why;
    struct object *object;
    int data;
    uintptr_t address, place;
    size_t size;
    bool write;
    stamp_t other;
    bool has_delta;
    bool steady; /* the same is wrong in all of the site's interval */
    int64_t delta[WEFT_MAX_RANK];
    int construct;
};
uint64_t *found(const struct detail *d);
uint64_t times_found(const char *kind); /* until now, of all places */
void findings_place(const char *file, unsigned line, unsigned column, const char *type, int64_t index);
void findings_bounds(int data, uintptr_t base, int dimension, int64_t index, int64_t low, int64_t high,
                     uintptr_t place);
void findings_parameter(const char *why, int construct, int data, int dimension, int64_t value, int64_t low,
                        int64_t high);
void findings_directive(const char *why, int construct, int data);
void findings_reduction(const char *kind, const char *why, const struct reduction *r, const char *expected,
                        const char *got, int other_data);
void findings_localize(int construct, int data, int target, const int64_t index[], int rank, int64_t value);
void usage_error(const char *why, int construct, int data);
bool findings_open(void);

/* --- turns.c (turns.h): `weft check --trace` --- */
extern bool weft_traced; /* values are kept, no access is judged */
void turns_start(void);
bool turns_iteration(int rank, const int64_t index[]); /* true: it is another processor's */
void turns_access(uintptr_t a, size_t size, bool write, uintptr_t place);
void turns_renewed(struct object *o);
void turns_end(void);

/* --- sites.c --- */
/* Whether an access is wrong just as the one was that opened its site. */
static inline bool wrong_again(const struct site *s, uintptr_t a, size_t size, uintptr_t place) {
    if (!s->wrong || s->known != weft_sites_forgotten || s->context != weft_context || s->place != place) return false;
    uintptr_t from = a - *s->wrong_home - s->wrong_low;
    return s->size == size && from < s->length && from + size <= s->length;
}

bool among(const struct private *list, int n, uintptr_t a, struct private **which);
bool site_again(struct site *s, uintptr_t a, size_t size);
void site_open(struct site *s, struct detail *verdict, uintptr_t a, size_t size, bool write, uintptr_t place);

#endif
