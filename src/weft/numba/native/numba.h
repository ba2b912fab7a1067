/* What numba.c and numba_guards.c share: loops as the front end describes them. */
#ifndef WEFT_CHECK_NUMBA_H
#define WEFT_CHECK_NUMBA_H

#include <stddef.h>

#include "check.h"

#define MAX_ARGUMENTS 256
#define PLACES 8192 /* of which is known in which loop each was seen last */

/* --- loops, as weft.numba.loops describes them ----------------------------------------------------------- */

/* A container is a list or dictionary of numba.typed: its value begins with the address of its block's head. */
enum { AS_SCALAR = 0, AS_ARRAY = 1, AS_SHARED = 2, AS_REDUCTION = 3, AS_CONTAINER = 4 };

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
    int32_t own; /* each iteration uses elements of its own alone, within the loop's bounds; 2: it reads some, too */
} Argument;

/* What a bound is added to: nothing, an index of the loop (its least or greatest value), the extent of a dimension (a
 * number of `dimensions`), or the value of an argument of 8 bytes. */
enum { OF_NUMBER = 0, OF_NEST = 1, OF_EXTENT = 2, OF_VALUE = 3 };

/* Between which values an index lies that stands in one dimension of an argument. */
typedef struct {
    int32_t argument, dimension;
    int32_t low_term, low_of, high_term, high_of;
    int64_t low, high;
} Bound;

typedef struct {
    int32_t construct; /* id in the side file */
    int32_t checked;   /* 0: an array expression, which has no iterations of the user's */
    int32_t by_thread; /* the body asks for its thread's number: iterations of one virtual thread count as one */
    int32_t rank;
    int32_t count;
    int32_t sites;     /* so many numbers of places at `site` */
    /* a byte for each argument, the schedule's first: 1 where accesses are to be seen; NULL: all are. Behind them,
     * at MAX_ARGUMENTS: 1 where the kernel is to run without any hook. */
    uint8_t *guards;
    const int32_t *site; /* of its accesses; owned by the front end */
    const Bound *bound;  /* of the arguments that are iterations' own; owned by the front end */
    int64_t bounds;
    Argument argument[];
} Loop;

_Static_assert(sizeof(Argument) == 64 && sizeof(Bound) == 40 && sizeof(Loop) == 56, "weft.numba.native draws the same");

/* What the pieces of a schedule cover: the least and the greatest index of each dimension, and all points. */
typedef struct {
    int64_t low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
    double points;
} Range;

typedef void (*Kernel)(char **arguments, size_t *dimensions, size_t *steps, void *data);

/* --- numba_guards.c --- */
int find_array_bounds(const Argument *argument, char *base_address, const size_t *dimensions, const size_t *steps,
                      char **low, char **high);
void choose_watched_arrays(const Loop *loop, char **arguments, const size_t *dimensions, const size_t *steps,
                           const Range *range);
int can_loop_run_unwatched(const Loop *loop);

#endif
