/* What numba.c and numba_guards.c share: loops as the front end describes them. */
#ifndef WEFT_CHECK_NUMBA_H
#define WEFT_CHECK_NUMBA_H

#include "state.h"

#define MAX_ARGUMENTS 256

/* --- loops, as weft.check.numba.loops describes them ----------------------------------------------------------- */

enum { AS_SCALAR = 0, AS_ARRAY = 1, AS_SHARED = 2, AS_REDUCTION = 3 };

/* One argument of a kernel behind its schedule. `dimension[d]` says which number of `dimensions` is its extent,
 * `stride` which number of `steps` is the stride of its first dimension. */
typedef struct {
    int32_t kind;
    int32_t data;    /* the variable's id in the side file */
    int32_t element; /* bytes */
    int32_t rank;
    int32_t real; /* of a reduction: 4 float, 8 double, 0 anything else */
    int32_t stride;
    int32_t stored; /* the kernel writes there, or may */
    int32_t dimension[WEFT_MAX_RANK];
    int32_t
        own; /* each iteration uses elements of its own alone, with the indices that follow; 2: it reads some, too */
    int32_t nest[WEFT_MAX_RANK]; /* of each dimension: the loop's index that stands there; -1: a number */
    int32_t low[WEFT_MAX_RANK], high[WEFT_MAX_RANK]; /* what is added to it; of a number: the least, the greatest */
} Argument;

typedef struct {
    int32_t construct; /* id in the side file */
    int32_t checked;   /* 0: an array expression, which has no iterations of the user's */
    int32_t by_thread; /* the body asks for its thread's number: iterations of one virtual thread count as one */
    int32_t rank;
    int32_t count;
    int32_t sites;     /* so many numbers of places at `site` */
    uint8_t *guards; /* a byte for each argument, the schedule's first: 1 where reads are to be seen; NULL: all are */
    const int32_t *site; /* of its accesses; owned by the front end */
    Argument argument[];
} Loop;

_Static_assert(sizeof(Argument) == 160 && sizeof(Loop) == 40, "weft.check.numba.native draws the same");

/* What the pieces of a schedule cover: the least and the greatest index of each dimension, and all points. */
typedef struct {
    int64_t low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
    double points;
} Range;

typedef void (*Kernel)(char **arguments, size_t *dimensions, size_t *steps, void *data);

/* --- numba_guards.c --- */
int extent_of(const Argument *one, char *base, const size_t *dimensions, const size_t *steps, char **low, char **high);
void guard(const Loop *loop, char **arguments, const size_t *dimensions, const size_t *steps, const Range *range);
int is_proved(const Loop *loop);

#endif
