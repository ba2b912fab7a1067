/* Functions of the DVM system's library that programs call: on one processor, with the grid that is simulated.
 *
 * They are weak: a program that brings its own keeps it. Fortran's names end in an underscore. */
#include <stdlib.h>
#include <time.h>

#define WEAK __attribute__((weak))

/* Return how many processors WEFT_INTERNAL_CHECK_GRID (such as 2x3) has along a dimension (from 1), or in all for
 * dimension 0; 1 without a grid. *dimension_count: how many dimensions it has, at least 1. */
static int count_grid_processors(int dimension, int *dimension_count) {
    const char *text = getenv("WEFT_INTERNAL_CHECK_GRID");
    int product = 1, found = 1, d = 0;
    while (text && *text) {
        char *end;
        long size = strtol(text, &end, 10);
        if (end == text) break;
        if (++d == dimension) found = (int)size;
        product *= (int)size;
        text = *end ? end + 1 : end;
    }
    if (dimension_count) *dimension_count = d ? d : 1;
    return dimension ? found : product;
}

/* Return the monotonic clock in seconds. */
static double read_monotonic_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

WEAK int number_of_processors_(void) { return count_grid_processors(0, NULL); }
WEAK int actual_num_procs_(void) { return count_grid_processors(0, NULL); }
WEAK int processors_rank_(void) { return 1; }
WEAK int processors_size_(const int *dimension) { return count_grid_processors(*dimension, NULL); }
WEAK double dvtime_(void) { return read_monotonic_seconds(); }

WEAK double dvmh_wtime(void) { return read_monotonic_seconds(); }
WEAK double dvmh_wtime_(void) { return read_monotonic_seconds(); }
WEAK void dvmh_barrier(void) {}
WEAK void dvmh_barrier_(void) {}
WEAK int dvmh_get_total_num_procs(void) { return count_grid_processors(0, NULL); }
WEAK int dvmh_get_total_num_procs_(void) { return count_grid_processors(0, NULL); }
WEAK int dvmh_get_num_procs(int axis) { return count_grid_processors(axis, NULL); }
WEAK int dvmh_get_num_procs_(const int *axis) { return count_grid_processors(*axis, NULL); }

/* Return how many dimensions the simulated grid of processors has. */
WEAK int dvmh_get_num_proc_axes(void) {
    int rank;
    count_grid_processors(0, &rank);
    return rank;
}

WEAK int dvmh_get_num_proc_axes_(void) { return dvmh_get_num_proc_axes(); }
