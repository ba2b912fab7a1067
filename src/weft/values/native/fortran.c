/* Probes of Fortran programs: weft_probes.f90 passes a descriptor of the array, whatever its type and rank. */
#include "capture.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEFT_CAPTURE
#include "include/weft.h"

#define VISIBLE __attribute__((visibility("default")))

/* The descriptor of gfortran 9 and later (its ISO_Fortran_binding.h). */
struct descriptor {
    void *base;
    size_t size;
    int version;
    int8_t rank, attribute;
    int16_t type;
    struct {
        int64_t lower, extent, stride;
    } dim[15];
};

enum { INTEGER = 1, LOGICAL = 2, REAL = 3, COMPLEX = 4 };

struct weft_entries *weft_values_entries(void);

/* Return a C string of a Fortran text without trailing blanks; the caller frees it. */
static char *copy_text(const char *text, int64_t length) {
    while (length > 0 && text[length - 1] == ' ') length--;
    return strndup(text, (size_t)(length > 0 ? length : 0));
}

/* Write the address of the program's call into a buffer, in place of a file name: two frames up, behind the Fortran
 * module's procedure. */
static __attribute__((noinline)) const char *write_caller_address(char *buffer, size_t capacity) {
    void *frames[4] = {0};
    int n = backtrace(frames, 4);
    snprintf(buffer, capacity, "@%p", n > 3 ? frames[3] : NULL);
    return buffer;
}

/* Return numpy's type letter (i, f, c) for an array descriptor; v for anything that is not a number. */
static char find_type_letter(const struct descriptor *descriptor) {
    switch (descriptor->type & 0xff) {
    case INTEGER:
    case LOGICAL: return 'i';
    case REAL: return 'f';
    case COMPLEX: return 'c';
    default: return 'v';
    }
}

VISIBLE void weft_fortran_probe(const char *name, int64_t length, const struct descriptor *given, const char *of,
                                int64_t of_length, const int64_t *lower, int64_t lowers);
VISIBLE void weft_fortran_scope(int kind, const char *name, int64_t length, int64_t index);

/* Record a probe of a Fortran program. For a part of the global array `of`, `lower` gives the index of its first
 * element there, from 1 on. */
void weft_fortran_probe(const char *name, int64_t length, const struct descriptor *given, const char *of,
                        int64_t of_length, const int64_t *lower, int64_t lowers) {
    struct weft_entries *entries = weft_values_entries();
    char *called = entries ? copy_text(name, length) : NULL, *whole = of_length > 0 ? copy_text(of, of_length) : NULL;
    if (called) {
        struct weft_array array = {.data = given->base, .of = whole, .order = WEFT_FIRST_FASTEST | WEFT_FROM_ONE};
        array.type = (uint8_t)find_type_letter(given);
        array.size = (uint8_t)given->size;
        array.dims = (uint8_t)given->rank;
        for (int dimension = 0; dimension < given->rank && dimension < 8; dimension++) {
            array.shape[dimension] = given->dim[dimension].extent;
            array.stride[dimension] = given->dim[dimension].stride;
            array.lower[dimension] = dimension < lowers ? lower[dimension] - 1 : 0;
        }
        char place[32];
        entries->probe(entries->place(WEFT_IS_PROBE, called, write_caller_address(place, sizeof place), 0, ""), &array);
    }
    free(called);
    free(whole);
}

/* Record the begin of an iteration or region of a Fortran program, or its end, by `kind`. */
void weft_fortran_scope(int kind, const char *name, int64_t length, int64_t index) {
    struct weft_entries *entries = weft_values_entries();
    char *called = entries ? copy_text(name, length) : NULL;
    if (!called) return;
    char at[32];
    uint32_t place = entries->place(kind, called, write_caller_address(at, sizeof at), 0, "");
    if (kind != WEFT_IS_END) entries->enter(place, index);
    else entries->leave(place);
    free(called);
}

VISIBLE void weft_fortran_part(const char *name, int64_t length, const struct descriptor *given, const int64_t *halo,
                               int64_t halos, int comm);
VISIBLE void weft_fortran_part_at(const char *name, int64_t length, const struct descriptor *given, const int64_t *halo,
                                  int64_t halos, const int64_t *lower, const int64_t *periodic);

/* Declare an array with ghost cells to the recorder. A non-contiguous array is passed as one without dimensions, which
 * the recorder refuses. */
static void declare_part(const char *name, int64_t length, const struct descriptor *given, const int64_t *halo,
                         int64_t halos, const int *comm, const int64_t *lower, const int64_t *periodic) {
    void (*part)(const void *, int, size_t, const char *, int, const int64_t *, const int64_t *, const int *,
                 const int64_t *, const int64_t *);
    *(void **)(&part) = dlsym(RTLD_DEFAULT, "weft_halo_part_fortran");
    char *called = part ? copy_text(name, length) : NULL;
    if (!called) return;
    int64_t shape[15], stride = (int64_t)given->size;
    bool fits = !halos || halos == given->rank; /* none: receives tell them */
    for (int dimension = 0; dimension < given->rank && dimension < 15; dimension++) {
        fits &= given->dim[dimension].stride == stride;
        shape[dimension] = given->dim[dimension].extent;
        stride *= shape[dimension];
    }
    part(given->base, find_type_letter(given), given->size, called, fits ? given->rank : 0, shape, halos ? halo : NULL,
         comm, lower, periodic);
    free(called);
}

/* Declare a Fortran array with ghost cells; the communicator knows the process grid. */
void weft_fortran_part(const char *name, int64_t length, const struct descriptor *given, const int64_t *halo,
                       int64_t halos, int comm) {
    declare_part(name, length, given, halo, halos, &comm, NULL, NULL);
}

/* Declare a Fortran array with ghost cells where no communicator knows the process grid. For each dimension: `lower`,
 * from 0 on, and `periodic`, 0 or 1. */
void weft_fortran_part_at(const char *name, int64_t length, const struct descriptor *given, const int64_t *halo,
                          int64_t halos, const int64_t *lower, const int64_t *periodic) {
    declare_part(name, length, given, halo, halos, NULL, lower, periodic);
}
