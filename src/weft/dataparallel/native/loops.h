/* The construct that runs: a loop, tasks, or statements with an owner. */
#ifndef WEFT_CHECK_LOOPS_H
#define WEFT_CHECK_LOOPS_H

#include "objects.h"

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

struct aspect *find_or_add_aspect(struct object *object);
void derive_aspect_mapping(struct aspect *aspect);
void update_current_blocks(void);
void compute_own_element_index(const struct aspect *aspect, const int64_t index[], int64_t own_index[]);
int find_iteration_of_stamp(stamp_t stamp, int64_t index[]);
stamp_t advance_time(void);
void update_current_index(void); /* weft_construct.index is this iteration's */
void add_aspects_of_clauses(void);
void undefine_variables_written_by_construct(void);
void undefine_written_values(uintptr_t low, uintptr_t high);
bool is_row_steady(int dimension_count, int64_t *previous_length, int64_t *done_count);
bool accept_row_step(int64_t step);
int64_t row_room(void);
void advance_past_row(int64_t iteration_count);

#endif
