/* Rows of iterations without hooks: what the second copy of a loop says of itself (weft.instrument.rows writes it), and
 * what is found out of that for one row.
 *
 *     follow.c   the values of its forms, which blocks its iterations come to, and for how many of them
 *     plan.c     which cells they touch, and what is asked of them
 *     prove.c    whether every access would pass; stamps what the row did (cells.c)
 *     rows.c     what the copies call
 */
#ifndef WEFT_CHECK_ROWS_H
#define WEFT_CHECK_ROWS_H

#include "sites.h"

struct row_place {
    struct site *site;
    int32_t address, size, write, block;
};

enum { NUMBER, REGISTER, SLOT8, SLOT4, SIGNED, ZEROED, MEMORY8, MEMORY4, SHIFTED, STEP_IS_FORM = 16 };

struct row_term {
    int64_t factor, step; /* step: what the atom rises by; with STEP_IS_FORM a form's number; an address of memory */
    int32_t kind, which; /* which: where a register was saved, a slot's offset, the number of a form; SHIFTED: a form is
                            that one and `factor`, and has no other term */
};

struct row_limit { /* where iterations come to the block, the form is at most this, unsigned */
    uint64_t most;
    int32_t form, block;
};

struct row_block { /* instructions that follow one another; the blocks behind it have greater numbers */
    int32_t fall, jump; /* -1: none */
    int32_t guard; /* -1: which of the two is not known */
};

/* What a guard asks of two values; NOT is added where the jump is taken if it is not so. */
enum row_test { EQUAL, LESS, AT_MOST, BELOW, NOT_ABOVE, NOT = 8 };

struct row_guard { /* the jump is taken where the test holds of two values of `size` bytes */
    int32_t left, right, size, test;
};

struct row_end { /* a branch that leaves the copy: where the guard's jump is taken, or (fall) where it is not */
    struct row_guard guard;
    int32_t block, fall, last; /* last: no place comes behind it */
};

struct row_memory { /* the guard's values hold as long as the row does not write this */
    uintptr_t address;
    int32_t size, guard;
};

struct plan;

/* A loop with a second copy; weft.instrument.rows knows the layout. The assembly counts `wait` and `left` down. */
struct row {
    int32_t wait, fails;
    int64_t left;
    int32_t rank, place_count, form_count, limit_count, block_count, guard_count, memory_count, own_count;
    const struct row_place *places;
    const struct row_term *terms;
    const int32_t *starts; /* of each form's terms */
    const struct row_limit *limits;
    const struct row_block *blocks;
    const struct row_guard *guards;
    const struct row_memory *memories;
    int64_t end_count;
    const struct row_end *ends;
    int32_t arguments[4]; /* forms of the next iteration's index */
    int64_t length; /* of the last row */
    int64_t run; /* of this row so far, where the runtime is not told of iterations */
    struct plan *plan; /* of the last row, one of a ring; NULL: none yet */
    int32_t strict; /* for so many rows blocks that some iterations come to are not even tried */
    int32_t doubts; /* how often that was in vain */
};

_Static_assert(sizeof(struct row) == 168 && offsetof(struct row, left) == 8, "weft.instrument.rows knows these");

#define MOST_FORMS 2048
#define MOST_BLOCKS 512

struct line { /* a value that rises evenly */
    uint64_t at, step;
    bool turns; /* a part of 4 bytes does not, for it turns around */
};

/* Whether a row's iterations come to a block. */
enum { NEVER, PERHAPS, ALWAYS };

/* Return the value of a form (a linear expression of the loop's assembly) in a row: one of the first own_count forms,
 * or such a form shifted by a constant. */
static inline struct line compute_form_value(const struct row *row, const struct line own_values[], int form) {
    if (form < row->own_count) return own_values[form];
    const struct row_term *shift = row->terms + row->starts[form];
    struct line made = own_values[shift->which];
    made.at += (uint64_t)shift->factor;
    return made;
}

/* --- follow.c --- */
void evaluate_row_forms(const struct row *row, const uint64_t saved_registers[], int64_t iteration_count,
                        struct line own[]);
int64_t find_blocks_of_iterations(const struct row *row, const struct line forms[], int64_t iteration_count,
                                  bool *may_differ, uint8_t blocks[]);
int64_t count_iterations_until_exit(const struct row *row, const struct line forms[], int64_t iteration_count,
                                    const uint8_t blocks[]);
int64_t count_iterations_within_limits(const struct row *row, const struct line forms[], int64_t iteration_count,
                                       const uint8_t blocks[]);

#define MOST_GROUPS 512
#define MOST_KIN 64
#define MOST_CLUSTERS 64

struct kin { /* groups whose addresses are shifts of one form: their distances never change */
    int form;
    uintptr_t at; /* of the first iteration */
    int64_t step;
    int64_t below, above; /* how far the row goes from there */
    int64_t first, last; /* where its groups lie from there */
    int64_t apart_step; /* when groups were last found apart */
    int ranges; /* the last one; -1: none */
    int cluster; /* the last one; -1: none */
};

struct cluster { /* groups of a kin in an object */
    const struct object *object;
    int kin;
    int64_t low, high; /* granules of its groups, from where the kin is */
    int64_t written_low, written_high; /* of those that write; the same: none does */
};

struct group { /* places with the same addresses */
    uintptr_t begin, end; /* all its bytes, when all groups were looked at */
    int64_t shift; /* from where its kin is */
    const struct object *object, *gathered; /* the latter: when the clusters were made */
    int form, kin;
    unsigned size;
    int first_write, first_track; /* numbers of places; INT_MAX: none */
    int demands; /* the last one; -1: none */
    bool halves; /* its granules must be split */
};

struct range { /* where a kin may be, from what its sites' intervals are relative to */
    const uintptr_t *home;
    int64_t low, high;
    int kin, next;
};

struct demand { /* all words of a group's cells lie in least..least+limit, or are this iteration's */
    stamp_t least, limit;
    bool read;
    int group, next;
    int chain; /* so many demands ask the same of cells that lie together, this the first; 0: it is in one */
    int tile; /* so many groups of 8 bytes from this one on are neighbours in each iteration; 0: it is in one */
    int made; /* its number before they were sorted */
};

struct touched { /* a group, and how many from it on are neighbours; 0: it is one of them */
    int group, tile;
};

struct counted { /* a place whose reads are wrong, all in the same way: they are counted */
    uint64_t *count;
    int number; /* of the place */
};

struct same { /* another form has the group's addresses */
    int form, group;
};

struct plan { /* which groups there are, and what is to be asked of them */
    struct plan *next; /* the row's plans are a ring */
    uint32_t sites; /* when it was made */
    stamp_t base;
    int group_count, kin_count, cluster_count, range_count, demand_count, same_count, writer_count, tracker_count,
        memory_count;
    size_t group_room, kin_room, cluster_room, range_room, demand_room, same_room, wrong_room, sorted_room;
    struct group *groups;
    int *group_of; /* of each place that its blocks have */
    bool grouped; /* these are known: of `blocks`, as long as the same forms agree */
    struct kin *kin;
    struct cluster *clusters; /* cluster_count -1: there are more */
    int64_t apart; /* of so many iterations all groups were found apart; 0: of none yet */
    struct range *ranges;
    struct demand *demands;
    int *sorted; /* which demand came to each place when they were sorted last */
    int sorted_count;
    struct same *sames;
    const struct row_memory **memories; /* what must not be written */
    struct counted *wrong;
    int wrong_count;
    struct touched *writers, *trackers; /* groups that write; whose reads are tracked */
    int *order, ordered; /* all groups by their low ends; so many the last time */
    uintptr_t *ends, *written; /* of all groups up to one in that order; of those that write */
    int last; /* the last place that a stamp comes from */
    bool one; /* a loop within an iteration: one stamp */
    bool alike; /* all groups have the same size */
    uint8_t blocks[MOST_BLOCKS];
};

/* Where a group's place is in the first iteration, what it moves by, and all its bytes. */
static inline uintptr_t low_of(const struct plan *plan, const struct group *group) {
    return plan->kin[group->kin].at + (uintptr_t)group->shift;
}
static inline int64_t step_of(const struct plan *plan, const struct group *group) { return plan->kin[group->kin].step; }
static inline uintptr_t begin_of(const struct plan *plan, const struct group *group) {
    return low_of(plan, group) + (uintptr_t)plan->kin[group->kin].below;
}
static inline uintptr_t end_of(const struct plan *plan, const struct group *group) {
    return low_of(plan, group) + (uintptr_t)plan->kin[group->kin].above + group->size;
}

enum verdict { REFUSED, UNOPENED, PASSED };

/* --- plan.c --- */
enum verdict make_plan_of_row(struct row *row, const struct line forms[], const uint8_t block_states[],
                              int64_t iteration_count);
bool select_current_plan(struct row *row, const uint8_t block_states[]);
bool locate_groups_in_row(struct plan *plan, const struct line forms[], int64_t iteration_count);
bool fit_plan_to_row(const struct row *row, struct plan *plan, const struct line forms[], int64_t iteration_count);

/* --- prove.c --- */
enum verdict prove_row(struct row *row, const struct line forms[], const uint8_t blocks[], int64_t *count);
bool is_row_worth_proof(const struct row *row, int64_t iteration_count);
void stamp_row_accesses(const struct plan *plan, stamp_t first_stamp, int64_t full_iterations, int places_of_last);

#endif
