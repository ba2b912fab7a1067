/* What Fortran's library reads and writes for a program: it reads what it prints, and writes what it reads; an internal unit,
 * an array that a function of the language makes, and strings likewise. Included as libc.h is, with the same words. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of an array, as gfortran hands it over (since version 8). */
struct descriptor {
    char *base;
    size_t offset, element;
    int version;
    int8_t rank, type;
    int16_t attribute;
    ptrdiff_t span;
    struct {
        ptrdiff_t stride, low, high;
    } dimensions[15];
};

static void part(const struct descriptor *d, char *at, int dimension, bool write, library_place place) {
    if (dimension < 0) {
        RANGE(at, d->element, write, place);
        return;
    }
    ptrdiff_t low = d->dimensions[dimension].low, high = d->dimensions[dimension].high;
    ptrdiff_t step = d->dimensions[dimension].stride * (d->span ? d->span : (ptrdiff_t)d->element);
    if (!dimension && step == (ptrdiff_t)d->element) {
        if (high >= low) RANGE(at, (size_t)(high - low + 1) * d->element, write, place);
        return;
    }
    for (ptrdiff_t i = low; i <= high; i++, at += step) part(d, at, dimension - 1, write, place);
}

/* An array that the library will make has no memory yet. */
static void array(const struct descriptor *d, bool write, library_place place) {
    if (WATCHED && d && d->base && d->rank > 0 && d->rank <= 15) part(d, d->base, d->rank - 1, write, place);
}

static void string(const char *p, size_t length, bool write, library_place place) {
    if (WATCHED && p) RANGE(p, length, write, place);
}

#define LIBRARY(type, name, ...)                                                                                       \
    extern type __real__gfortran_##name(__VA_ARGS__) __attribute__((weak));                                            \
    type __wrap__gfortran_##name(__VA_ARGS__)

/* --- input and output --------------------------------------------------------------------------------------------- */

#define SCALAR(name, size)                                                                                             \
    LIBRARY(void, transfer_##name##_write, void *io, void *p, int kind) {                                              \
        string(p, (size_t)(size), false, HERE);                                                                        \
        __real__gfortran_transfer_##name##_write(io, p, kind);                                                         \
    }                                                                                                                  \
    LIBRARY(void, transfer_##name, void *io, void *p, int kind) {                                                      \
        string(p, (size_t)(size), true, HERE);                                                                         \
        __real__gfortran_transfer_##name(io, p, kind);                                                                 \
    }
SCALAR(integer, kind)
SCALAR(logical, kind)
SCALAR(real, kind)
SCALAR(complex, 2 * kind)
SCALAR(character, kind) /* kind: its length */

LIBRARY(void, transfer_array_write, void *io, void *p, int kind, size_t length) {
    array(p, false, HERE);
    __real__gfortran_transfer_array_write(io, p, kind, length);
}
LIBRARY(void, transfer_array, void *io, void *p, int kind, size_t length) {
    array(p, true, HERE);
    __real__gfortran_transfer_array(io, p, kind, length);
}

/* A statement, as gfortran hands it over. An internal unit that is an array has a record for each element. */
struct statement {
    int32_t flags, number;
    const char *file;
    int32_t line;
    size_t message_length;
    char *message;
    int32_t *status;
    int64_t record;
    void *size, *length;
    struct descriptor *units;
    const char *format;
    size_t format_length, advance_length;
    const char *advance;
    char *unit;
    size_t unit_length;
};
enum { HAS_STATUS = 1 << 5, INTERNAL = 1 << 14 };

static void statement(const struct statement *s, bool write, library_place place) {
    if (s->flags & INTERNAL) string(s->unit, s->unit_length, write, place);
    if (s->flags & HAS_STATUS) string((const char *)s->status, sizeof *s->status, true, place);
}

LIBRARY(void, st_write, struct statement *s) {
    statement(s, true, HERE);
    __real__gfortran_st_write(s);
}
LIBRARY(void, st_read, struct statement *s) {
    statement(s, false, HERE);
    __real__gfortran_st_read(s);
}

/* --- strings ------------------------------------------------------------------------------------------------------ */

LIBRARY(int, compare_string, size_t n, const char *a, size_t m, const char *b) {
    string(a, n, false, HERE), string(b, m, false, HERE);
    return __real__gfortran_compare_string(n, a, m, b);
}
LIBRARY(void, concat_string, size_t length, char *to, size_t n, const char *a, size_t m, const char *b) {
    string(a, n, false, HERE), string(b, m, false, HERE);
    string(to, length, true, HERE);
    __real__gfortran_concat_string(length, to, n, a, m, b);
}
LIBRARY(void, string_trim, size_t *length, char **to, size_t n, const char *from) {
    string(from, n, false, HERE);
    __real__gfortran_string_trim(length, to, n, from);
}
LIBRARY(size_t, string_len_trim, size_t n, const char *from) {
    string(from, n, false, HERE);
    return __real__gfortran_string_len_trim(n, from);
}
#define ADJUSTED(name)                                                                                                 \
    LIBRARY(void, name, char *to, size_t n, const char *from) {                                                        \
        string(from, n, false, HERE), string(to, n, true, HERE);                                                       \
        __real__gfortran_##name(to, n, from);                                                                          \
    }
ADJUSTED(adjustl)
ADJUSTED(adjustr)
#define SEARCHED(name)                                                                                                 \
    LIBRARY(size_t, name, size_t n, const char *a, size_t m, const char *b, int back) {                                \
        string(a, n, false, HERE), string(b, m, false, HERE);                                                          \
        return __real__gfortran_##name(n, a, m, b, back);                                                              \
    }
SEARCHED(string_index)
SEARCHED(string_scan)
SEARCHED(string_verify)

/* --- functions of arrays ------------------------------------------------------------------------------------------ */

/* The first argument is written, the next ones are read; what follows them goes through as it is. */
#define ARRAYS(name, reads)                                                                                            \
    LIBRARY(void, name, void *to, void *a, void *b, void *c, void *d, void *e) {                                       \
        void *given[] = {a, b, c, d, e};                                                                               \
        for (int i = 0; i < (reads); i++) array(given[i], false, HERE);                                                \
        array(to, true, HERE);                                                                                         \
        __real__gfortran_##name(to, a, b, c, d, e);                                                                    \
    }
#define NUMBERS(name, reads)                                                                                           \
    ARRAYS(name##_i4, reads)                                                                                           \
    ARRAYS(name##_i8, reads)                                                                                           \
    ARRAYS(name##_r4, reads)                                                                                           \
    ARRAYS(name##_r8, reads)
#define VALUES(name, reads)                                                                                            \
    NUMBERS(name, reads)                                                                                               \
    ARRAYS(name##_c4, reads)                                                                                           \
    ARRAYS(name##_c8, reads)
VALUES(matmul, 2)
VALUES(sum, 1)
VALUES(product, 1)
NUMBERS(maxval, 1)
NUMBERS(minval, 1)
ARRAYS(matmul_l4, 2)
ARRAYS(any_l4, 1)
ARRAYS(all_l4, 1)
ARRAYS(count_4_l, 1)
NUMBERS(maxloc0_4, 1)
NUMBERS(minloc0_4, 1)
NUMBERS(maxloc1_4, 1)
NUMBERS(minloc1_4, 1)
ARRAYS(pack, 3)
ARRAYS(unpack0, 2)
ARRAYS(unpack1, 3)
ARRAYS(cshift0_4, 1)
ARRAYS(cshift0_8, 1)
ARRAYS(cshift1_4, 2)
ARRAYS(cshift1_8, 2)
ARRAYS(eoshift0_4, 1)
ARRAYS(eoshift0_8, 1)
ARRAYS(eoshift1_4, 2)
ARRAYS(eoshift1_8, 2)
ARRAYS(spread, 1)
ARRAYS(spread_scalar, 0)
ARRAYS(reshape, 2)
ARRAYS(reshape_4, 2)
ARRAYS(reshape_8, 2)
ARRAYS(reshape_r4, 2)
ARRAYS(reshape_r8, 2)
ARRAYS(reshape_c4, 2)
ARRAYS(reshape_c8, 2)

/* --- random numbers ----------------------------------------------------------------------------------------------- */

#define RANDOM(kind)                                                                                                   \
    LIBRARY(void, random_r##kind, void *to) {                                                                          \
        string(to, kind, true, HERE);                                                                                  \
        __real__gfortran_random_r##kind(to);                                                                           \
    }                                                                                                                  \
    LIBRARY(void, arandom_r##kind, void *to) {                                                                         \
        array(to, true, HERE);                                                                                         \
        __real__gfortran_arandom_r##kind(to);                                                                          \
    }
RANDOM(4)
RANDOM(8)
