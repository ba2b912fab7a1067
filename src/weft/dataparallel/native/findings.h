/* What is found, and how it is told. */
#ifndef WEFT_CHECK_FINDINGS_H
#define WEFT_CHECK_FINDINGS_H

#include "objects.h"

struct reduction;
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

#endif
