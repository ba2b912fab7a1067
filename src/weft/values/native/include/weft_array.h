/* An array as a probe is given it, and what takes it. weft.h is what programs include. */
#ifndef WEFT_ARRAY_H
#define WEFT_ARRAY_H

#include <stdint.h>

/* How an array is numbered. */
enum weft_order {
    WEFT_FIRST_FASTEST = 1, /* as in Fortran: the first index runs fastest */
    WEFT_FROM_ONE = 2,      /* messages count from 1; `lower` does not */
    WEFT_WRITTEN = 4,       /* an access of the program, not a probe: kept from level modifications on */
    WEFT_READ = 8,          /* ... at level full only */
};

/* `of` and `lower` say which part of which global array these elements are; indices count from 0. */
#define WEFT_SMALL_PITCH 255 /* in place of `dims`: rows would overlap in memory */
struct weft_array {
    const void *data;
    int64_t shape[8];
    int64_t stride[8]; /* bytes */
    int64_t lower[8];
    int64_t whole[8]; /* the global array's own shape, 0 unknown */
    const char *of;   /* NULL: not a part of another array */
    double scale;     /* of a sum: the sum of its terms' magnitudes */
    uint32_t terms;   /* of a sum: how many terms; 0 unknown */
    uint8_t type;     /* as numpy's: i, u, f, c, b */
    uint8_t size;     /* bytes of an element */
    uint8_t dims;
    uint8_t order; /* enum weft_order */
};

#endif
