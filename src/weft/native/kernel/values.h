/* values.c as Python calls it. */
#ifndef WEFT_VALUES_H
#define WEFT_VALUES_H

#include "ops.h"

/* A place in a value trace, by its number less 1. */
struct weft_value_site {
    uint64_t offset; /* of its record */
    uint64_t name;   /* a hash of what it is and its name */
};

/* An iteration. `key` is equal for the same iteration of the same loop in the same surroundings, in any run. */
struct weft_value_iteration {
    uint64_t offset;
    uint64_t key;
    uint64_t loop;  /* a key of the loop as it was begun in these surroundings */
    int64_t parent; /* row of the iteration around it, -1 of none */
    int64_t index;
    uint32_t place;
    uint32_t instance;
};

/* A probe that kept something; `key` as above. */
struct weft_value_row {
    uint64_t offset;
    uint64_t key;
    int64_t parent;
    uint32_t place;
    uint32_t thread;
};

/* What a trace holds, counted; then filled in, where there is room for it. `damaged`: offset of the first record that cannot be
 * right, or `used`. */
struct weft_value_index {
    uint64_t places, iterations, probes, problems;
    uint64_t damaged;
};

/* Reads `used` bytes of records. With NULLs it counts only. */
EXPORT void weft_index_values(const uint8_t *records, uint64_t used, struct weft_value_index *index,
                              struct weft_value_site *places, struct weft_value_iteration *iterations,
                              struct weft_value_row *probes, uint64_t *problems);

/* The sum of the hashes of elements in rows: `n` of them, `stride` bytes apart, the first at `place` in the global array. */
EXPORT uint64_t weft_hash_values(const uint8_t *first, uint64_t count, int64_t stride, int type, unsigned size,
                                 uint64_t place, uint64_t step);

/* For each pair of probes, by their offsets: whether they hold the same, byte for byte. What only holds changes is not said
 * to be the same. */
EXPORT void weft_compare_values(const uint8_t *one, const uint64_t *at_one, const uint8_t *two, const uint64_t *at_two,
                                uint64_t count, uint8_t *out);

/* What one step in a dimension, from 0 to 7, adds to a place. */
EXPORT uint64_t weft_find_place_step(unsigned dimension);

#endif
